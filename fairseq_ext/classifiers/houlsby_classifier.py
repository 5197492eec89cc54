"""Domain classifier by adapters on a frozen RoBERTa of fairseq's (Houlsby et al. 2019): a few per cent of fine-tuning.

The domains are a task, ``domain``, of :mod:`fairseq_ext.models.roberta_houlsby_adapter`; the base is what
``fairseq-ext import roberta`` made, or one of our own.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fairseq  # noqa: F401  before the package's registrations
import numpy as np
from scipy.special import softmax
from tqdm import tqdm

from fairseq_ext.classifiers.binarise import binarise_task
from fairseq_ext.classifiers.devices import choose_device
from fairseq_ext.classifiers.options import HoulsbyTeacher
from fairseq_ext.classifiers.predictions import logits_of, to_input
from fairseq_ext.classifiers.task_adapters import load_task_model, size_options, write_model_alone
from fairseq_ext.classifiers.task_data import TaskFacts, write_task_facts
from fairseq_ext.classifiers.task_split import LABEL, set_path
from fairseq_ext.classifiers.training import task_arguments
from fairseq_ext.corpora.encoders import load_encoder, subword_files
from fairseq_ext.corpora.text_files import write_lines
from fairseq_ext.engine.fairseq_cli import as_arguments, quieten_fairseq, run_training
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.json_file import read_json
from fairseq_ext.inputs.models import read_model
from fairseq_ext.modules.tunings import ARCHITECTURE

_TASK = "domain"
_MODEL_FILE, _SETTINGS = "model.pt", "classifier.json"
_BLOCK = 1024  # sentences that are ordered by length together


class HoulsbyClassifier:
    """See :class:`~fairseq_ext.classifiers.classifier.Classifier`.

    Args:
        options: the base and its subwords, and how to train.
        seed: of the new parameters, the order of the batches and dropout.
    """

    def __init__(self, options: HoulsbyTeacher, seed: int) -> None:
        self.options = options
        self.seed = seed
        self.device = choose_device(options.device)
        self.base, self.subwords = Path(options.model), options.subwords_folder
        # The trained model lives in a file, as fairseq leaves it, and is copied to where it is saved.
        self._scratch = tempfile.TemporaryDirectory()
        self._model: Any = None

    def fit(self, texts: Sequence[str], labels: np.ndarray, num_domains: int) -> None:
        """Train adapters, layer norms and head by ``fairseq-train``; the base stays as it is."""
        with tempfile.TemporaryDirectory() as scratch:
            data = self._write_data(Path(scratch), texts, labels, num_domains)
            chosen = self._training_options()
            folders = ["--save-dir", scratch, "--finetune-from-model", str(self.base)]
            arguments = [*task_arguments(data, _TASK, chosen), *as_arguments(chosen), "--seed", str(self.seed)]
            run_training("classifier", [str(data), *arguments, *folders], Path(scratch) / "train.log")
            write_model_alone(Path(scratch) / "checkpoint_last.pt", self._file)
        self._model = None

    def predict(self, texts: Sequence[str]) -> np.ndarray:
        """Return P(domain | text), N×D, float32."""
        if self._model is None:
            quieten_fairseq()
            self._model = load_task_model(self._file, self.subwords).to(self.device)
        pieces = load_encoder(self.subwords)(texts)
        inputs = [to_input(self._model, _TASK, [line]) for line in pieces]
        blocks = [inputs[start : start + _BLOCK] for start in range(0, len(inputs), _BLOCK)]
        progress = tqdm(blocks, desc="classify", unit="block", disable=None)
        logits = [logits_of(self._model, _TASK, block, self.options.batch_size) for block in progress]
        return softmax(np.concatenate(logits), axis=1)

    def save(self, folder: Path) -> None:
        """Write model, subwords and settings; the base need not be kept for it."""
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self._file, folder / _MODEL_FILE)
        for name in subword_files(self.subwords):
            shutil.copyfile(self.subwords / name, folder / name)
        settings = self.options.model_dump() | {"model": None, "subwords": None}
        (folder / _SETTINGS).write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> HoulsbyClassifier:
        """Load what :meth:`save` wrote."""
        settings = read_json(folder / _SETTINGS, "train the teacher again")
        given = {"model": str(folder / _MODEL_FILE), "subwords": None, "device": "auto"}
        classifier = cls(read_model(HoulsbyTeacher, settings | given, str(folder / _SETTINGS), {}), seed=0)
        try:
            shutil.copyfile(classifier.base, classifier._file)
        except OSError as error:
            raise InputError(f"{folder}: holds no usable classifier ({error})") from None
        return classifier

    @property
    def _file(self) -> Path:
        return Path(self._scratch.name) / _MODEL_FILE

    def _write_data(self, folder: Path, texts: Sequence[str], labels: np.ndarray, num_domains: int) -> Path:
        """Binarise the training set, the number of a domain being its label."""
        raw, data = folder / "text", folder / _TASK
        # Labels are numbered in the order of their names: that must be the order of the numbers.
        names = [f"{number:0{len(str(num_domains))}d}" for number in range(num_domains)]
        write_lines(set_path(raw, "input0", "train"), texts)
        write_lines(set_path(raw, LABEL, "train"), (names[label] for label in labels))
        write_task_facts(raw, TaskFacts("classification", names, 1, {"train": len(texts)}, {}))
        data.mkdir()
        binarise_task(data, raw, self.subwords, ["train"])
        return data

    def _training_options(self) -> dict[str, Any]:
        options = self.options
        return {
            "arch": ARCHITECTURE,
            **size_options(self.base),
            "bottleneck-dim": options.bottleneck_dim,
            "optimizer": "adam",
            "lr": options.learning_rate,
            "max-epoch": options.epochs,
            "batch-size": options.batch_size,
            "group-by-length": True,
            "cpu": self.device == "cpu",
            "cpu-precision": options.precision,
            "num-workers": 0,
            "disable-validation": True,
            "no-epoch-checkpoints": True,
        }
