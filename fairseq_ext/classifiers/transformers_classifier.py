"""Domain classifier by fine-tuning a pre-trained encoder (Klimaszewski et al. 2023 §3.2: RoBERTa-large)."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from fairseq_ext.classifiers.options import TransformersTeacher
from fairseq_ext.convert.pretrained import hide_broken_torchaudio, load_pretrained
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.json_file import read_json
from fairseq_ext.inputs.models import read_model

hide_broken_torchaudio()

import transformers  # noqa: E402

_SETTINGS = "classifier.json"


class TransformersClassifier:
    """See :class:`~fairseq_ext.classifiers.classifier.Classifier`."""

    def __init__(self, options: TransformersTeacher, seed: int) -> None:
        self.options = options
        self.seed = seed
        self.device = _choose_device(options.device)
        self.precision = _choose_precision(options.precision, self.device)
        self.model: Any = None
        self._labels_by: Any = None
        self.tokenizer: Any = None

    def fit(self, texts: Sequence[str], labels: np.ndarray, num_domains: int) -> None:
        """Fine-tune from the pre-trained weights, sentences of similar length in a batch.

        A GPU computes in half precision; a CPU as it labels, bfloat16 beside float32 weights if that is so.
        """
        # Before loading: the new classification head is drawn then.
        transformers.set_seed(self.seed)
        self._load_pretrained(self.options.model, num_labels=num_domains)
        rows = self.tokenizer(list(texts), truncation=True, max_length=self.options.max_length)
        examples = [
            {"input_ids": ids, "attention_mask": mask, "labels": int(label)}
            for ids, mask, label in zip(rows["input_ids"], rows["attention_mask"], labels, strict=True)
        ]
        with tempfile.TemporaryDirectory() as scratch:
            trainer = transformers.Trainer(
                model=self.model,
                args=self._training_arguments(scratch),
                train_dataset=examples,
                data_collator=transformers.DataCollatorWithPadding(self.tokenizer),
            )
            trainer.train()
        self._labels_by = None

    @torch.inference_mode()
    def predict(self, texts: Sequence[str]) -> np.ndarray:
        model = self._labeller()
        # Sentences of one length together: little padding. The rows go back to their places.
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
            logits = model(**batch.to(self.device)).logits
            probs[rows] = torch.softmax(logits.float(), dim=-1).cpu().numpy()
        return probs

    def save(self, folder: Path) -> None:
        """Write model (safetensors), tokenizer and the settings that prediction needs."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        options = self.options
        # What was chosen for this machine is kept: every other labels as it did.
        precision = str(self.precision).removeprefix("torch.")
        settings = {"batch_size": options.batch_size, "max_length": options.max_length, "precision": precision}
        (folder / _SETTINGS).write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> TransformersClassifier:
        """Load what :meth:`save` wrote."""
        settings = read_json(folder / _SETTINGS, "train the teacher again")
        settings = {"precision": "float32", **settings, "model": str(folder)}  # earlier versions knew no other
        options = read_model(TransformersTeacher, settings, str(folder / _SETTINGS), {})
        classifier = cls(options, seed=0)
        classifier._load_pretrained(options.model)
        return classifier

    def _labeller(self) -> Any:
        """The model as it labels: in its precision, while the one that is saved keeps its own."""
        if self._labels_by is None:
            copied = self.model if self.precision == torch.float32 else copy.deepcopy(self.model)
            self._labels_by = copied.to(self.device, self.precision).eval()
        return self._labels_by

    def _load_pretrained(self, name: str, **head: int) -> None:
        self.tokenizer, self.model = load_pretrained(
            "AutoModelForSequenceClassification", name, "teacher.model", **head
        )

    def _training_arguments(self, scratch: str) -> transformers.TrainingArguments:
        on_gpu = self.device == "cuda"
        in_bf16 = torch.cuda.is_bf16_supported() if on_gpu else self.precision == torch.bfloat16
        return transformers.TrainingArguments(
            output_dir=scratch,
            num_train_epochs=self.options.epochs,
            per_device_train_batch_size=self.options.batch_size,
            learning_rate=self.options.learning_rate,
            warmup_steps=0.1,
            seed=self.seed,
            data_seed=self.seed,
            train_sampling_strategy="group_by_length",
            bf16=in_bf16,
            fp16=on_gpu and not in_bf16,
            use_cpu=not on_gpu,
            save_strategy="no",
            report_to="none",
        )


def _choose_device(name: str) -> str:
    """``cpu`` or ``cuda``, of which ``auto`` takes the second where there is one."""
    has_gpu = torch.cuda.is_available()
    if name == "cuda" and not has_gpu:
        raise InputError("teacher.device: this machine has no CUDA device; choose cpu or auto")
    return ("cuda" if has_gpu else "cpu") if name == "auto" else name


def _choose_precision(name: str, device: str) -> torch.dtype:
    """The numbers that a classifier computes its labels in; ``auto`` is bfloat16 where the device has units for it."""
    if name == "auto":
        name = "bfloat16" if _has_bfloat16(device) else "float32"
    return torch.bfloat16 if name == "bfloat16" else torch.float32


def _has_bfloat16(device: str) -> bool:
    if device == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
