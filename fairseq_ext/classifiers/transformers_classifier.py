"""Domain classifier based on fine-tuning a pre-trained encoder (Klimaszewski et al. 2023 §3.2: RoBERTa-large)."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.json_file import read_json, write_json
from fairseq_ext.base.sections import read_model
from fairseq_ext.classifiers.classifier import TransformersTeacher
from fairseq_ext.modules.pretrained import hide_broken_torchaudio, load_pretrained, reason_of

hide_broken_torchaudio()

import transformers  # noqa: E402

_SETTINGS = "classifier.json"
_AUTO_CLASS = "AutoModelForSequenceClassification"
# Token types have their default in training and in prediction; some tokenizers give them to models without any.
_INPUTS = ["input_ids", "attention_mask"]
# Largest effect of padding on scores, as a share of another text's effect.
_PADDING_EFFECT = 0.01
Row = dict[str, list[int]]


def train(folder: Path, options: TransformersTeacher, texts: Sequence[str], labels: np.ndarray, seed: int) -> None:
    """Fine-tune from pre-trained weights, and write the model (safetensors), tokenizer and settings for prediction.

    Batches consist of sentences of similar length. A GPU computes in half precision. A CPU computes in the precision of
    prediction; for bfloat16 the weights stay in float32 (mixed precision).
    """
    device = _choose_device(options.device)
    precision = _choose_precision(options.precision, device)
    # Before loading, which initialises the new classification head.
    transformers.set_seed(seed)
    names = [str(number) for number in range(int(labels.max()) + 1)]
    head: dict[str, Any] = {
        "id2label": dict(enumerate(names)),  # BART forgets a number of labels without names
        "label2id": {name: number for number, name in enumerate(names)},
        "problem_type": "single_label_classification",
    }
    tokenizer, model = load_pretrained(_AUTO_CLASS, options.model, "teacher.model", dtype=torch.float32, **head)
    _pad_as_needed(tokenizer, model, options.model)
    _check_reading(tokenizer, model, options)
    rows = _rows_of(tokenizer, texts, options.max_length)
    examples = [{**row, "labels": int(label)} for row, label in zip(rows, labels, strict=True)]
    on_gpu = device == "cuda"
    in_bf16 = torch.cuda.is_bf16_supported() if on_gpu else precision == "bfloat16"
    with tempfile.TemporaryDirectory() as scratch:
        arguments = transformers.TrainingArguments(
            output_dir=scratch,
            num_train_epochs=options.epochs,
            per_device_train_batch_size=options.batch_size,
            learning_rate=options.learning_rate,
            warmup_steps=0.1,
            seed=seed,
            data_seed=seed,
            train_sampling_strategy="group_by_length",
            bf16=in_bf16,
            fp16=on_gpu and not in_bf16,
            use_cpu=not on_gpu,
            save_strategy="no",
            report_to="none",
        )
        collator = transformers.DataCollatorWithPadding(tokenizer)
        transformers.Trainer(model=model, args=arguments, train_dataset=examples, data_collator=collator).train()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    # The precision chosen on this machine is saved, so that all machines label in the same one.
    settings = {"batch_size": options.batch_size, "max_length": options.max_length, "precision": precision}
    write_json(folder / _SETTINGS, settings)
    for weights in folder.glob("*.safetensors"):  # which the library keeps private
        weights.chmod((folder / _SETTINGS).stat().st_mode)


def load(folder: Path) -> TransformersClassifier:
    """Load a classifier written by :func:`train`."""
    path = folder / _SETTINGS
    settings = {**read_json(path, "train the teacher again"), "model": str(folder)}
    return TransformersClassifier(read_model(TransformersTeacher, settings, str(path), {}))


class TransformersClassifier:
    """A trained classifier, on the device and in the precision of its options."""

    def __init__(self, options: TransformersTeacher) -> None:
        self.options, self.device = options, _choose_device(options.device)
        self.tokenizer, model = load_pretrained(_AUTO_CLASS, options.model, "teacher.model", is_trained=True)
        self.tokenizer.model_input_names = _INPUTS
        precision = _choose_precision(options.precision, self.device)
        self.model = model.to(self.device, getattr(torch, precision)).eval()

    @torch.inference_mode()
    def predict(self, texts: Sequence[str]) -> np.ndarray:
        """Return P(domain | text), N×D, float32."""
        # Sort by length to reduce padding; results are returned in the original order.
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        probs = np.empty((len(texts), self.model.config.num_labels), dtype=np.float32)
        size = self.options.batch_size
        for start in tqdm(range(0, len(order), size), desc="classify", unit="batch", disable=None):
            rows = order[start : start + size]
            batch = _rows_of(self.tokenizer, [texts[row] for row in rows], self.options.max_length)
            probs[rows] = torch.softmax(_logits_of(self.tokenizer, self.model, batch), dim=-1).cpu().numpy()
        return probs


def _pad_as_needed(tokenizer: Any, model: Any, name: str) -> None:
    """Choose the inputs, and pad with the end of text if the model, such as GPT-2, has no token for padding."""
    tokenizer.model_input_names = _INPUTS
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    if tokenizer.pad_token is None:
        raise InputError(f"teacher.model: the tokenizer of {name!r} has no pad_token; add one to tokenizer_config.json")
    if model.config.pad_token_id is None:
        model.config.pad_token_id = tokenizer.pad_token_id


def _rows_of(tokenizer: Any, texts: Sequence[str], max_length: int) -> list[Row]:
    """Return the tokens of texts; a text without any is one token of padding."""
    rows = tokenizer(list(texts), truncation=True, max_length=max_length)["input_ids"]
    filled = [row or [tokenizer.pad_token_id] for row in rows]
    return [{"input_ids": row, "attention_mask": [1] * len(row)} for row in filled]


def _logits_of(tokenizer: Any, model: Any, rows: Sequence[Row]) -> torch.Tensor:
    """Return the scores of texts in one batch, N×D, float32."""
    batch = tokenizer.pad(rows, return_tensors="pt").to(model.device)
    logits: torch.Tensor = model(**batch).logits.float()
    return logits


@torch.inference_mode()
def _check_reading(tokenizer: Any, model: Any, options: TransformersTeacher) -> None:
    """Check that the model reads texts of the maximum length, and that padding does not change its scores."""
    rows = _rows_of(tokenizer, ["a b", "a " * options.max_length], options.max_length)
    try:
        _logits_of(tokenizer, model.train(), rows)
        (padded, other), (alone,) = (_logits_of(tokenizer, model.eval(), some) for some in (rows, rows[:1]))
    # A model may fail in any way on longer texts than it has positions for, or on inputs that it does not take.
    except Exception as error:
        raise InputError(
            f"teacher.model: {options.model!r} cannot classify texts of {options.max_length} tokens "
            f"({reason_of(error)}); lower teacher.max_length, or give another model"
        ) from None
    if not (padded - alone).norm() <= _PADDING_EFFECT * (other - alone).norm():
        raise InputError(
            f"teacher.model: the scores of {options.model!r} depend on the length of other texts in a batch; give "
            "another model, such as XLM-R"
        )


def _choose_device(name: str) -> str:
    """Return ``cpu`` or ``cuda``; ``auto`` is ``cuda`` if available."""
    has_gpu = torch.cuda.is_available()
    if name == "cuda" and not has_gpu:
        raise InputError("teacher.device: this machine has no CUDA device; choose cpu or auto")
    return ("cuda" if has_gpu else "cpu") if name == "auto" else name


def _choose_precision(name: str, device: str) -> str:
    """Return the precision of prediction; ``auto`` is bfloat16 if the device has hardware support, else float32."""
    if name != "auto":
        return name
    if device == "cuda":
        has_bfloat16 = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        has_bfloat16 = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return "bfloat16" if has_bfloat16 else "float32"
