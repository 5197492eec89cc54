"""Log probabilities of sentences from language models: fairseq models, or n-gram models in ARPA files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from fairseq_ext.base.provenance import provenance_of
from fairseq_ext.base.steps import Step, atomic_write, run_step
from fairseq_ext.experiments.arpa import ArpaModel
from fairseq_ext.text.encoders import Encoder
from fairseq_ext.text.subwords import DICT_FILE, encode_lines, load_subwords

# N texts → N natural logarithms.
Scores = Callable[[Sequence[str]], np.ndarray]

# Scores are saved in blocks of this many texts. An interrupted run continues after the last complete block.
_PART_TEXTS = 2048


@dataclass(frozen=True)
class LanguageModelSource:
    """A language model of subwords whose scores are the feature ``name``; they depend on the contents of ``files``."""

    name: str
    kind: str
    files: Sequence[Path]
    load: Callable[[], Scores]  # slow

    @classmethod
    def of_fairseq(
        cls, name: str, checkpoint: Path, data: Path, subwords: Path, *, max_tokens: int, cpu: bool
    ) -> LanguageModelSource:
        """Create a source from a fairseq language model, with the dictionary of a data directory."""

        def load() -> Scores:
            # Imported late: this imports torch, which cached scores do not need.
            from fairseq_ext.experiments.reranking.fairseq_scores import FairseqScores

            return FairseqScores.load(checkpoint, data, _encoder(subwords), max_tokens=max_tokens, cpu=cpu)

        return cls(name, "fairseq", [checkpoint, data / DICT_FILE, subwords], load)

    @classmethod
    def of_arpa(cls, name: str, file: Path, subwords: Path) -> LanguageModelSource:
        """Create a source from an n-gram model."""

        def load() -> Scores:
            model, encode = ArpaModel.read(file), _encoder(subwords)
            return lambda texts: model.score(list(encode(texts)))

        return cls(name, "arpa", [file, subwords], load)

    @property
    def options(self) -> Mapping[str, Any]:
        """Values other than the files that scores depend on."""
        return {"kind": self.kind, "version": 1}


def score_texts(source: LanguageModelSource, texts: Sequence[str], folder: Path) -> np.ndarray:
    """Score N single-line texts. Equal texts are scored once.

    Scores are cached in ``folder``, in a separate directory for each model and set of texts.

    Shape:
        result: N
    """
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    distinct = list(numbers)
    digest = hashlib.sha256("\n".join(distinct).encode()).hexdigest()
    options = {**source.options, "texts": digest, "part": _PART_TEXTS}
    output = folder / f"{source.name}-{provenance_of(source.name, source.files, options).fingerprint[:16]}"
    starts = range(0, len(distinct), _PART_TEXTS)

    def build(directory: Path) -> None:
        score = source.load()
        for number, start in enumerate(tqdm(starts, desc=source.name, unit=f"×{_PART_TEXTS} texts", disable=None)):
            file = _part_file(directory, number)
            if not file.exists():
                with atomic_write(file) as temporary:
                    np.save(temporary, score(distinct[start : start + _PART_TEXTS]))

    run_step(Step(output, source.files, options, build, resumable=True))
    values = np.concatenate([np.load(_part_file(output, number)) for number in range(len(starts))])
    return values[[numbers[text] for text in texts]]


def _part_file(directory: Path, number: int) -> Path:
    return directory / f"{number:05d}.npy"


def _encoder(subwords: Path) -> Encoder:
    return partial(encode_lines, load_subwords(subwords))
