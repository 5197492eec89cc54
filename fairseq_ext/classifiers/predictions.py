"""Predictions of a task's head: logits of texts, one row each, in the order of the data.

Sets are loaded with fairseq's ``sentence_prediction`` task, so that texts are prefixed, joined and truncated as in
training. Batches are made here: sorted by length to reduce padding, and including the last examples, which fairseq's
iterator drops unless the size is a multiple of eight. The composition of batches changes logits only by rounding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq import checkpoint_utils
from fairseq.data.data_utils import collate_tokens
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask
from torch import Tensor

from fairseq_ext import install
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.fairseq_cli import quieten_fairseq
from fairseq_ext.classifiers.task_adapters import load_task_model
from fairseq_ext.classifiers.task_split import FIRST, SECOND, read_task_facts
from fairseq_ext.modules.autocast import chosen_device
from fairseq_ext.modules.task_parameters import HEADS
from fairseq_ext.text.raw_text import canonical

_ENCODER = "encoder.sentence_encoder."  # the base without the head of the masked language model
_BLOCK_BATCHES = 16  # number of batches to read and sort by length at a time

Encode = Callable[[Iterable[str]], Iterator[str]]


def read_set(
    data: Path, split: str, max_positions: int, separator: int | None = SECOND
) -> tuple[list[Tensor], np.ndarray]:
    """Read a set of a binarised task.

    Returns:
        N texts or pairs as model input; and N targets: label numbers by ``task.json``, or the values of a regression.
    """
    facts = read_task_facts(data)
    options = SentencePredictionConfig(
        data=str(data),
        num_classes=facts.num_classes,
        init_token=FIRST,
        separator_token=separator,
        no_shuffle=True,
        shorten_method="truncate",
        max_positions=max_positions,
        regression_target=not facts.labels,
        classification_head_name=data.name,
        seed=1,
    )
    dataset = SentencePredictionTask.setup_task(options).load_dataset(split)
    examples = [dataset[number] for number in range(len(dataset))]
    targets = np.array([float(example["target"][0]) for example in examples])
    texts = [example["net_input.src_tokens"] for example in examples]
    return texts, targets.astype(np.int64 if facts.labels else np.float32)


def load_model(checkpoint: Path, data: Path, *, cpu: bool = False) -> Any:
    """Load a model with all its tasks, in evaluation mode, on the GPU if available."""
    quieten_fairseq()
    return load_task_model(checkpoint, data).to(chosen_device(cpu))


def separator_of(model: Any, task: str) -> int | None:
    """Return the separator before the second text of a pair, or None if the task has token types."""
    return None if model.tasks[task].has_token_types else SECOND


def logits_of(model: Any, task: str, texts: Sequence[Tensor], batch_size: int = 64) -> np.ndarray:
    """Return the logits of a task's head for all texts: N×K, float32, with one column for a regression."""
    pad, device = model.encoder.dictionary.pad(), next(model.parameters()).device
    order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
    rows: dict[int, np.ndarray] = {}
    for start in range(0, len(order), batch_size):
        numbers = order[start : start + batch_size]
        tokens = collate_tokens([texts[number] for number in numbers], pad_idx=pad).to(device)  # B×T
        with torch.inference_mode():
            logits, _ = model(tokens, classification_head_name=task)
        rows |= dict(zip(numbers, logits.float().cpu().numpy(), strict=True))
    return np.stack([rows[number] for number in range(len(texts))])


def parameters_of(checkpoint: Path, data: Path) -> dict[str, int]:
    """Count the parameters of a trained model, and those trained for its last task.

    The counts are ``base`` (encoder of the base model), ``base_trained`` (its trained parameters), ``head`` (head of
    the task) and ``trained`` (all trained parameters). The model is built as in training, which determines the frozen
    parameters.
    """
    install()
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], {"data": str(data)})
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    base = {name for name in sizes if name.startswith(_ENCODER)}
    head = {name for name in sizes if name.startswith(f"{HEADS}.{data.name}.")}
    chosen = {"base": base, "base_trained": base & trained, "head": head, "trained": trained}
    return {what: sum(sizes[name] for name in names) for what, names in chosen.items()}


def classify(model: Any, task: str, lines: Iterable[str], encode: Encode, batch_size: int = 64) -> Iterator[str]:
    """Yield, for each line, the predicted label and its probability, or the value predicted by a regression.

    Args:
        lines: texts, or pairs of texts separated by a tab.
        encode: function that encodes lines as space-separated pieces.
    """
    with model.active(task):  # raises an error for an unknown task before any text is read
        labels = model.tasks[task].labels
    numbered = enumerate(lines, start=1)
    while block := list(islice(numbered, batch_size * _BLOCK_BATCHES)):
        examples = [_texts_of(line, number) for number, line in block]
        pieces = encode([text for texts in examples for text in texts])
        inputs = [to_input(model, task, list(islice(pieces, len(texts)))) for texts in examples]
        for logits in logits_of(model, task, inputs, batch_size):
            yield _format(logits, labels)


def to_input(model: Any, task: str, texts: Sequence[str]) -> Tensor:
    """Convert the pieces of a text or pair to model input: ``<s> a </s>``, followed by ``</s> b </s>`` for a pair.

    For a task with token types, ``b </s>`` follows.
    """
    dictionary = model.encoder.dictionary
    parts = [dictionary.encode_line(pieces, add_if_not_exist=False).long() for pieces in texts]
    separator = separator_of(model, task)
    if len(parts) == 2 and separator is not None:
        parts.insert(1, torch.tensor([separator]))
    return torch.cat([torch.tensor([FIRST]), *parts])[: model.max_positions()]


def _texts_of(line: str, number: int) -> list[str]:
    """Return the one or two texts of a line in canonical form, as in training."""
    texts = [canonical(text, Counter()) for text in line.split("\t")]
    if len(texts) > 2:
        raise InputError(
            f"standard input, line {number}: has {len(texts)} texts; give one text, or two with a tab between"
        )
    return texts


def _format(logits: np.ndarray, labels: Sequence[str]) -> str:
    if not labels:
        return f"{logits[0]:.4f}"
    powers = np.exp(logits - logits.max())
    best = int(logits.argmax())
    return f"{labels[best]}\t{powers[best] / powers.sum():.4f}"
