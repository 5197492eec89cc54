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
from fairseq_ext.text.encoders import Encoder, load_encoder, subword_files
from fairseq_ext.text.subwords import DICT_FILE, encode_lines, load_subwords

# N texts → N natural logarithms.
Scores = Callable[[Sequence[str]], np.ndarray]

# Scores are saved in blocks of this many texts. An interrupted run continues after the last complete block.
_PART_TEXTS = 2048


@dataclass(frozen=True)
class LanguageModelSource:
    """A language model whose scores are the feature ``name``. The scores depend on the contents of ``files``.

    ``subwords`` is a SentencePiece model or a folder of subwords; None for word-level models.
    """

    name: str
    kind: str
    files: Sequence[Path]
    load: Callable[[], Scores]  # slow

    @classmethod
    def of_fairseq(
        cls, name: str, checkpoint: Path, data: Path, subwords: Path | None, *, max_tokens: int, cpu: bool
    ) -> LanguageModelSource:
        """Create a source from a fairseq language model, with the dictionary of a data directory."""

        def load() -> Scores:
            # Imported late: this imports torch, which cached scores do not need.
            from fairseq_ext.experiments.reranking.fairseq_scores import FairseqScores

            return FairseqScores.load(checkpoint, data, _encoder(subwords), max_tokens=max_tokens, cpu=cpu)

        return cls(name, "fairseq", [checkpoint, data / DICT_FILE, *_subword_files(subwords)], load)

    @classmethod
    def of_arpa(cls, name: str, file: Path, subwords: Path | None) -> LanguageModelSource:
        """Create a source from an n-gram model."""
        return cls(name, "arpa", [file, *_subword_files(subwords)], partial(load_arpa, file, subwords))

    @property
    def options(self) -> Mapping[str, Any]:
        """Values other than the files that scores depend on."""
        return {"kind": self.kind, "version": 1}

    @property
    def fingerprint(self) -> str:
        """SHA-256 hash of everything that the scores depend on except the texts."""
        return provenance_of(self.name, self.files, self.options).fingerprint


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


def load_arpa(file: Path, subwords: Path | None) -> Scores:
    """Load an n-gram model."""
    model, encoder = ArpaModel.read(file), _encoder(subwords)
    return model.score if encoder is None else lambda texts: model.score(list(encoder(texts)))


def _part_file(directory: Path, number: int) -> Path:
    return directory / f"{number:05d}.npy"


def _subword_files(subwords: Path | None) -> list[Path]:
    if subwords is None:
        return []
    return [subwords / name for name in subword_files(subwords)] if subwords.is_dir() else [subwords]


def _encoder(subwords: Path | None) -> Encoder | None:
    if subwords is None:
        return None
    return load_encoder(subwords) if subwords.is_dir() else partial(encode_lines, load_subwords(subwords))
