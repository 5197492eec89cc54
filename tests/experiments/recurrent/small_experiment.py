"""A small experiment with word language models: text of which every word says much of the next."""

import random
from pathlib import Path
from typing import Any

from tests.experiments.experiment_file import write_experiment

WORDS = [f"w{number}" for number in range(20)]
COMMON = {
    "arch": "dagru_lm_tiny", "optimizer": "sgd", "lr": 1, "lr-scheduler": "fixed", "force-anneal": 3, "lr-shrink": 0.5,
    "sentence-avg": True, "clip-norm": 5, "criterion": "cross_entropy", "batch-size": 4, "tokens-per-sample": 7,
    "max-epoch": 3, "cpu": True, "num-workers": 0,
}  # fmt: skip
SYSTEMS = {
    "standard": {"combination": "none", "embed-dim": 8},
    "fixed": {"combination": "fixed"},
    "dagru": {"seeds": [1, 2]},
}


def write_word_lm_experiment(folder: Path) -> Path:
    """Text of which every word says much of the next, and vectors for most of the words."""
    rng = random.Random(3)
    for split, count in {"train": 300, "valid": 30, "test": 31}.items():
        lines = []
        for _ in range(count):
            start, length = rng.randrange(20), rng.randint(2, 9)
            lines.append(" ".join(WORDS[(start + place) % 20] for place in range(length)))
        (folder / f"{split}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    vectors = [f"{word} " + " ".join(f"{rng.gauss(0, 1):.4f}" for _ in range(6)) for word in WORDS[:15]]
    (folder / "vectors.txt").write_text("\n".join(vectors) + "\n", encoding="utf-8")
    return write_file(folder)


def write_file(folder: Path, **changes: Any) -> Path:
    """Write the experiment file."""
    settings: dict[str, Any] = {
        "kind": "recurrent",
        "work_dir": str(folder / "work"),
        "corpora": {split: str(folder / f"{split}.txt") for split in ("train", "valid", "test")},
        "word_vectors": {"file": str(folder / "vectors.txt")},
        "kneser_ney": {"order": 3},
        "train": {"common": COMMON, "systems": SYSTEMS},
        "evaluate": {"cpu": True},
    }
    return write_experiment(folder / "words.yaml", settings, changes)
