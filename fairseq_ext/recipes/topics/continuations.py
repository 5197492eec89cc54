"""Continuations of prompts by a language model."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq import utils
from fairseq.data import encoders
from fairseq.dataclass.configs import GenerationConfig
from tqdm import tqdm

from fairseq_ext.corpora.encoders import fairseq_bpe_options
from fairseq_ext.inputs.errors import InputError

_BATCH = 32  # prompts


def choose_prompts(lines: Iterable[str], num_words: int, count: int, where: str) -> list[tuple[str, str]]:
    """The first ``num_words`` words of the first ``count`` lines that have at least twice as many, and the rest."""
    prompts: list[tuple[str, str]] = []
    for line in lines:
        words = line.split()
        if len(words) >= 2 * num_words and len(prompts) < count:
            prompts.append((" ".join(words[:num_words]), " ".join(words[num_words:])))
    if not prompts:
        raise InputError(f"{where}: no line has {2 * num_words} words; lower topics: prompt_words")
    return prompts


class Writer:
    """Continues prompts by sampling from fairseq's own generator.

    Args:
        model: in evaluation mode, on its device.
        task: that it was loaded for.
        data: directory of the subwords.
        max_len: maximum tokens of a text, with the prompt and without the end of the line.
        temperature: of sampling.
        top_k: sample from the k most probable tokens.
    """

    def __init__(self, model: Any, task: Any, data: Path, *, max_len: int, temperature: float, top_k: int):
        options = {key.replace("-", "_"): value for key, value in fairseq_bpe_options(data).items()}
        self.model, self.task, self.max_len = model, task, max_len
        self.bpe = encoders.build_bpe(Namespace(**options))
        generation = GenerationConfig(
            beam=1, sampling=True, sampling_topk=top_k, temperature=temperature, max_len_a=0, max_len_b=max_len
        )
        self.generator = task.build_generator([model], generation)

    def write(self, prompts: Sequence[str], seed: int) -> list[str]:
        """The continuation of each prompt, up to the end of the line or to ``max_len`` tokens, drawn by the seed."""
        tokens = [self._encode(prompt) for prompt in prompts]
        torch.manual_seed(seed)
        found: dict[int, str] = {}
        # Prompts of equal length together, so that no text of a batch starts before another.
        order = sorted(range(len(tokens)), key=lambda number: len(tokens[number]))
        starts = range(0, len(order), _BATCH)
        for start in tqdm(starts, desc="write", unit=" batches", leave=False, disable=None):
            numbers = order[start : start + _BATCH]
            for number, text in zip(numbers, self._write([tokens[each] for each in numbers]), strict=True):
                found[number] = text
        return [found[number] for number in range(len(tokens))]

    def _encode(self, prompt: str) -> torch.Tensor:
        line = self.bpe.encode(prompt)
        tokens: torch.Tensor = self.task.source_dictionary.encode_line(line, add_if_not_exist=False, append_eos=True)
        if len(tokens) > self.max_len:
            raise InputError(f"topics: max_len: {self.max_len} leaves no room after {prompt!r}; raise it")
        return tokens.long()

    def _write(self, prompts: Sequence[torch.Tensor]) -> Iterator[str]:
        lengths = [len(prompt) for prompt in prompts]
        dataset = self.task.build_dataset_for_inference(prompts, lengths)
        sample = dataset.collater([dataset[number] for number in range(len(prompts))])
        sample = utils.move_to_cuda(sample) if next(self.model.parameters()).is_cuda else sample
        written = self.task.inference_step(self.generator, [self.model], sample)
        for (best, *_), length in zip(written, lengths, strict=True):
            # The end of the prompt was not read; the text has its own.
            text = self.task.target_dictionary.string(best["tokens"][length - 1 :].cpu())
            yield self.bpe.decode(text).strip()
