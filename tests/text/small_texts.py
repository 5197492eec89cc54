"""Running text of three training domains and an unseen one, written by rule; some lines occur in several."""

from pathlib import Path
from typing import Any

import yaml

SEEN, UNSEEN = ("bank", "garden", "school"), ("market",)
_WORDS = {
    "bank": ["account", "credit", "loan", "rate", "cash"],
    "garden": ["tree", "flower", "seed", "bed", "root"],
    "school": ["teacher", "pupil", "lesson", "book", "desk"],
    "market": ["price", "stall", "fruit", "trader", "scale"],
}
NUM_LINES = 200


def lines_of(name: str) -> list[str]:
    """200 different lines, the last forty of which are those of all domains."""
    words = _WORDS[name]

    def line(number: int) -> str:
        one, two = words[number % 5], words[number // 5 % 5]
        return f"{name.title()} line {'ab'[number % 2]}{number // 2} says: the {one} and the {two}."

    common = [f"Common line number {number}, known everywhere." for number in range(40)]
    return [line(number) for number in range(NUM_LINES - len(common))] + common


def write_texts(folder: Path) -> Path:
    """Write ``train`` and ``unseen`` with a file for each domain, and return the folder."""
    for kind, names in (("train", SEEN), ("unseen", UNSEEN)):
        (folder / kind).mkdir(parents=True)
        for name in names:
            (folder / kind / f"{name}.txt").write_text("\n".join(lines_of(name)) + "\n", encoding="utf-8")
    return folder


def write_config(path: Path, folder: Path, /, **changes: Any) -> Path:
    """Write an experiment file for the text in ``folder``; it works in ``work`` beside the file. None removes a key."""
    settings: dict[str, Any] = {
        "kind": "hierarchy",
        "work_dir": str(path.parent / "work"),
        "corpora": {"folder": str(folder / "train"), "unseen": str(folder / "unseen")},
        "split": {"valid": 15, "test": 20, "stretch": 10},
        "subwords": {"vocab_size": 90},
    }
    given = {key: value for key, value in {**settings, **changes}.items() if value is not None}
    path.write_text(yaml.safe_dump(given), encoding="utf-8")
    return path
