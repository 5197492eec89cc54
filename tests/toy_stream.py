"""A toy world for recurrent language models: a text in one piece, binarised, and word vectors."""

import random
from argparse import Namespace
from pathlib import Path
from typing import Any

from fairseq import tasks
from fairseq.data import Dictionary

from tests import toy, toy_text

WORDS = [f"w{i}" for i in range(20)]
VECTOR_DIM = 5


def make_stream(root: Path, lines: int = 60) -> Path:
    """A data directory with splits train, valid and test; returns it."""
    data, dictionary, rng = root / "stream-bin", Dictionary(), random.Random(7)
    for word in WORDS:
        dictionary.add_symbol(word, n=3)
    for split, count in (("train", lines), ("valid", 9), ("test", 7)):
        text = [" ".join(rng.choices(WORDS, k=rng.randint(1, 8))) for _ in range(count)]
        toy_text.write_text(data, split, text, dictionary)
    dictionary.save(str(data / "dict.txt"))
    return data


def write_vectors(path: Path, words: list[str] = WORDS) -> Path:
    """GloVe's text."""
    rng = random.Random(3)
    rows = [" ".join([word, *(f"{rng.gauss(0, 1):.3f}" for _ in range(VECTOR_DIM))]) for word in words]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def train_args(data: Path, *extra: str) -> Namespace:
    # fmt: off
    return toy.parsed(
        data, "--task", "contiguous_language_modeling", "--arch", "dagru_lm_tiny",
        "--cpu", "--optimizer", "sgd", "--lr", "1", "--batch-size", "3", "--tokens-per-sample", "6", *extra,
    )
    # fmt: on


def make_task(data: Path, *extra: str) -> tuple[Any, Any]:
    """The task as the command line would set it up, and the model's options."""
    args = train_args(data, *extra)
    return tasks.setup_task(args), toy.model_options(args)
