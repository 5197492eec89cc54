"""A page of text, and SentencePiece models that are learned from it."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sentencepiece

TEXT = [
    "The old tree in the garden shows its flowers, doesn't it?",
    "Accounts, credits and loans: the bank's rate was 12.5 % in 2024.",
    "Schließe die Tür! Žluťoučký kůň 猫が好き 🙂👍🏽",
] * 5


def write_pieces(path: Path, size: int, kind: str = "unigram", lines: Sequence[str] = TEXT, **more: Any) -> list[str]:
    """Train a SentencePiece model, and return its pieces without the special ones."""
    model = io.BytesIO()
    options = {"vocab_size": size, "model_type": kind, "num_threads": 1, "minloglevel": 2, **more}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, **options)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return [processor.id_to_piece(number) for number in range(3, len(processor))]
