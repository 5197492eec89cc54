"""A parallel corpus of two domains with words of their own, written by rule."""

from pathlib import Path
from typing import Any

import yaml

NOUNS = {
    "bank": {"account": "Konto", "credit": "Kredit", "loan": "Darlehen", "rate": "Zins", "cash": "Bargeld"},
    "garden": {"tree": "Baum", "flower": "Blume", "seed": "Samen", "bed": "Beet", "root": "Wurzel"},
}
VERBS = {"show": "zeige", "open": "öffne", "close": "schließe", "change": "ändere", "find": "finde"}
COLOURS = {"red": "rot", "green": "grün", "blue": "blau", "old": "alt"}


def write_corpora(folder: Path) -> Path:
    """Write ``bank`` and ``garden``, 100 pairs each, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for domain, nouns in NOUNS.items():
        pairs = [
            (f"{verb} the {colour} {noun}", f"{VERBS[verb]}: {nouns[noun]} ({COLOURS[colour]})")
            for verb in VERBS
            for colour in COLOURS
            for noun in nouns
        ]
        for side, lang in enumerate(("en", "de")):
            (folder / f"{domain}.{lang}").write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    return folder


def write_config(path: Path, folder: Path, /, **changes: Any) -> Path:
    """Write an experiment file for the corpora in ``folder``; it works in ``work`` beside the file."""
    settings: dict[str, Any] = {
        "work_dir": str(path.parent / "work"),
        "source_lang": "en",
        "target_lang": "de",
        "corpora": {"folder": str(folder)},
        "split": {"valid": 10, "test": 10},
        "subwords": {"vocab_size": 70},
        "teacher": {"backend": "tfidf", "folds": 4},
    }
    path.write_text(yaml.safe_dump({**settings, **changes}, sort_keys=False), encoding="utf-8")
    return path


def read_tree(folder: Path) -> dict[str, bytes]:
    """All files below a folder by relative name."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
