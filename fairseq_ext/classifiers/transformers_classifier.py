"""Domain classifier based on fine-tuning a pre-trained encoder (Klimaszewski et al. 2023 §3.2: RoBERTa-large)."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.json_file import read_json, write_json
from fairseq_ext.base.sections import read_model
from fairseq_ext.classifiers.classifier import TransformersTeacher
from fairseq_ext.modules.pretrained import hide_broken_torchaudio, load_pretrained

hide_broken_torchaudio()

import transformers  # noqa: E402

_SETTINGS = "classifier.json"
_AUTO_CLASS = "AutoModelForSequenceClassification"


def train(folder: Path, options: TransformersTeacher, texts: Sequence[str], labels: np.ndarray, seed: int) -> None:
    """Fine-tune from pre-trained weights, and write the model (safetensors), tokenizer and settings for prediction.

    Batches consist of sentences of similar length. A GPU computes in half precision. A CPU computes in the precision of
    prediction; for bfloat16 the weights stay in float32 (mixed precision).
    """
    device = _choose_device(options.device)
    precision = _choose_precision(options.precision, device)
    # Before loading, which initialises the new classification head.
    transformers.set_seed(seed)
    num_labels = int(labels.max()) + 1
    tokenizer, model = load_pretrained(_AUTO_CLASS, options.model, "teacher.model", num_labels=num_labels)
    rows = tokenizer(list(texts), truncation=True, max_length=options.max_length)
    examples = [
        {"input_ids": ids, "attention_mask": mask, "labels": int(label)}
        for ids, mask, label in zip(rows["input_ids"], rows["attention_mask"], labels, strict=True)
    ]
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
            batch = self.tokenizer(
                [texts[row] for row in rows],
                truncation=True,
                max_length=self.options.max_length,
                padding=True,
                return_tensors="pt",
            )
            logits = self.model(**batch.to(self.device)).logits
            probs[rows] = torch.softmax(logits.float(), dim=-1).cpu().numpy()
        return probs


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
