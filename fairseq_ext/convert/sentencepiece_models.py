"""SentencePiece models of XLM-R with RoBERTa's dictionary, and those made of a ``tokenizer.json``.

Hugging Face numbers XLM-R's symbols as fairseq does: ``<s>``, ``<pad>``, ``</s>``, ``<unk>``, the pieces in the model's
order, ``<mask>``. It assumes that the model's first three pieces are the special ones.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentencepiece.sentencepiece_model_pb2 import (  # type: ignore[attr-defined]
    ModelProto,
    NormalizerSpec,
    TrainerSpec,
)

from fairseq_ext.base.errors import InputError
from fairseq_ext.text.byte_level_bpe import FIRST, LAST
from fairseq_ext.text.subwords import dictionary_pieces, load_subwords

XLMR_FILE = "sentencepiece.bpe.model"
# Processing steps that both Hugging Face's tokenizer and SentencePiece support.
_STEPS = {"Precompiled", "Strip", "Replace", "WhitespaceSplit", "Metaspace"}


@dataclass(frozen=True)
class Unigram:
    """A SentencePiece model and its vocabulary."""

    model: bytes  # the content of the model's file
    pieces: Sequence[str]  # pieces in order, without the special ones

    def __len__(self) -> int:
        """Return the vocabulary size V, including special symbols."""
        return len(FIRST) + len(self.pieces) + len(LAST)

    def order(self) -> Sequence[int]:
        """Return Hugging Face's symbol numbers in the order of fairseq's embeddings; they are the same."""
        return range(len(self))

    def dictionary_lines(self) -> list[str]:
        """Return the lines of ``dict.txt``, without the special symbols."""
        return [f"{piece} 1" for piece in self.pieces]


def read_xlmr(path: Path) -> Unigram:
    """Read XLM-R's SentencePiece model, of which exactly the first three pieces are special."""
    unigram = _unigram(path.read_bytes(), path)
    if [piece.piece for piece in ModelProto.FromString(unigram.model).pieces[3:]] != list(unigram.pieces):
        raise InputError(f"{path}: its special pieces are not the first three; it is not a file of XLM-R")
    return unigram


def unigram_of_tokenizer(content: Mapping[str, Any], where: Path) -> Unigram:
    """Convert XLM-R's ``tokenizer.json`` to a SentencePiece model."""
    with _reading("XLM-R", where):
        pieces = [ModelProto.SentencePiece(piece=name, score=score) for name, score in content["model"]["vocab"]]
        charsmap = _charsmap(content)
    if tuple(piece.piece for piece in pieces[: len(FIRST)]) != FIRST:
        raise InputError(
            f"{where}: its first symbols are not {', '.join(FIRST)}; only tokenisers of XLM-R can be converted"
        )
    own = [piece for piece in pieces[len(FIRST) :] if piece.piece not in LAST]
    return _unigram(_xlmr_model(own, NormalizerSpec(precompiled_charsmap=charsmap)), where)


def bpe_of_tokenizer(content: Mapping[str, Any], pieces: Sequence[str], where: Path) -> bytes:
    """Convert NLLB's ``tokenizer.json``, a BPE, to the bytes of a SentencePiece model."""
    with _reading("NLLB", where):
        merges = content["model"]["merges"]
        merged = ["".join(merge.split(" ") if isinstance(merge, str) else merge) for merge in merges]
        charsmap = _charsmap(content)
    # The earlier a merge, the higher the score of its result; characters come last.
    ranks = {piece: rank for rank, piece in reversed(list(enumerate(merged)))}
    scored = [
        ModelProto.SentencePiece(piece=piece, score=-ranks.get(piece, len(merged) + number))
        for number, piece in enumerate(pieces)
    ]
    return _xlmr_model(scored, NormalizerSpec(precompiled_charsmap=charsmap), TrainerSpec.BPE)


@contextmanager
def _reading(model: str, where: Path) -> Iterator[None]:
    """Turn errors from an unsupported tokenizer into one line."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{where}: is not a supported tokeniser of {model} ({type(error).__name__}: {error}); give the model's "
            f"{XLMR_FILE}"
        ) from None


def _charsmap(content: Mapping[str, Any]) -> bytes:
    """Return SentencePiece's normalisation table; empty if no step has one.

    Raises:
        ValueError: if SentencePiece does not support a step, or the table is damaged.
    """
    steps: list[Mapping[str, Any]] = []
    for step in (content.get("normalizer"), content.get("pre_tokenizer")):
        if step is not None:
            steps += step.get("normalizers") or step.get("pretokenizers") or [step]
    kinds = [step["type"] for step in steps]
    if not _STEPS.issuperset(kinds) or kinds.count("Precompiled") > 1:
        raise ValueError(f"unsupported normalisation {', '.join(kinds)}")
    tables = [step["precompiled_charsmap"] for step in steps if step["type"] == "Precompiled"]
    return base64.b64decode(tables[0], validate=True) if tables else b""


def _unigram(model: bytes, where: Path) -> Unigram:
    processor = load_subwords(where, data=model)
    model_type = ModelProto.FromString(model).trainer_spec.model_type
    if model_type != TrainerSpec.UNIGRAM:
        raise InputError(f"{where}: its model_type is {TrainerSpec.ModelType.Name(model_type)}, but XLM-R's is UNIGRAM")
    return Unigram(model, dictionary_pieces(processor))


def _xlmr_model(pieces: Iterable[Any], spec: Any, kind: Any = TrainerSpec.UNIGRAM) -> bytes:
    kinds = ModelProto.SentencePiece
    special = [("<unk>", kinds.UNKNOWN), ("<s>", kinds.CONTROL), ("</s>", kinds.CONTROL)]
    model = ModelProto(
        pieces=[*(kinds(piece=name, score=0, type=own) for name, own in special), *pieces],
        trainer_spec=TrainerSpec(model_type=kind),
        normalizer_spec=spec,
    )
    return bytes(model.SerializeToString(deterministic=True))
