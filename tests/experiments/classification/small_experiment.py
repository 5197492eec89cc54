"""A small experiment with classifiers: four tasks about sentences of two places, written by rule."""

import csv
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.experiments.experiment_file import write_experiment
from tests.experiments.small_lm_experiment import NOUNS, VERBS, write_texts

ADAPTERS = {"from": "base", "arch": "roberta_houlsby_adapter_tiny", "lr": 0.01, "max-epoch": 2, "batch-size": 8}


def sentences(count: int, seed: int) -> list[tuple[str, str, str]]:
    """Different ones, each with its place and the kind of its verb."""
    rng = random.Random(seed)
    made: dict[str, tuple[str, str, str]] = {}
    while len(made) < count:
        place, kind = rng.choice(list(NOUNS)), rng.choice(("ask", "do"))
        text = f"{rng.choice(VERBS[kind])} the {rng.choice(NOUNS[place])} {rng.randint(1000, 9999)}"
        made[text] = (text, place, kind)
    return list(made.values())


def write_tsv(path: Path, rows: Sequence[tuple[str, ...]], header: Sequence[str] = ("label", "text")) -> None:
    """Write a table that :mod:`fairseq_ext.text.labelled_text` reads."""
    path.write_text("".join("\t".join(row) + "\n" for row in [tuple(header), *rows]), encoding="utf-8")


def write_tables(folder: Path) -> dict[str, dict[str, Any]]:
    """Write the tables of four tasks, one of each form, and return what the experiment file says of them."""
    folder.mkdir(parents=True, exist_ok=True)
    made = sentences(200, seed=3)
    for role, part in (("train", made[:120]), ("valid", made[120:160]), ("test", made[160:])):
        write_tsv(folder / f"place.{role}.tsv", [(place, text) for text, place, _ in part])
    with (folder / "verb.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("kind", "id", "what"), *((kind, "x", f"{text}, now") for text, _, kind in made)])
    with (folder / "same.jsonl").open("w", encoding="utf-8") as file:
        for (one, place, _), (two, other, _) in zip(made, made[1:], strict=False):
            file.write(json.dumps({"label": int(place == other), "text": one, "text2": two}) + "\n")
    write_tsv(folder / "size.tsv", [(f"{'ask do'.index(kind) / 4}", text) for text, _, kind in made])
    return {
        "place": {role: str(folder / f"place.{role}.tsv") for role in ("train", "valid", "test")},
        "verb": {"train": str(folder / "verb.csv"), "label": "kind", "text": "what", "metrics": ["matthews", "f1"]},
        "same": {"train": str(folder / "same.jsonl"), "text2": "text2"},
        "size": {"train": str(folder / "size.tsv"), "kind": "regression"},
    }


def write_short_classification_experiment(folder: Path, **changes: Any) -> Path:
    """Write text, tables and the experiment file, and return the last; it works in ``work`` beside it.

    Each system is trained on one or two of the tasks: all sorts of tuning, and of tasks.
    """
    write_texts(folder)
    base = {"arch": "roberta_tiny", "tokens-per-sample": 16, "lr": 0.01, "batch-size": 8, "max-update": 6}
    systems = {
        "base": base,
        "full": {**ADAPTERS, "tuning": "full", "tasks": ["place", "size"]},
        "top": {**ADAPTERS, "tuning": "top", "top-layers": 1, "tasks": ["verb"]},
        "adapters": {**ADAPTERS, "bottleneck-dim": 4, "in_sequence": True, "tasks": ["place", "same"]},
    }
    settings: dict[str, Any] = {
        "kind": "classification",
        "work_dir": str(folder / "work"),
        "corpora": {"folder": str(folder / "text")},
        "split": {"valid": 40, "stretch": 10, "task_valid": 0.2, "task_test": 0.2},
        "subwords": {"vocab_size": 60},
        "tasks": write_tables(folder / "tables"),
        "train": {
            "common": {"optimizer": "adam", "max-positions": 16, "cpu": True, "num-workers": 0},
            "systems": systems,
        },
        "evaluate": {"cpu": True},
    }
    return write_experiment(folder / "classification.yaml", settings, changes)
