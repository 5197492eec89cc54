"""Distances between domains: known limits, samples, and what the file says."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from fairseq_ext.recipes.translation.distances import (
    draw_sample,
    measure_distances,
)

BANK = ["account", "credit", "loan", "interest", "cash", "payment", "debit", "transfer"]
GARDEN = ["tree", "flower", "blossom", "weed", "root", "hedge", "lawn", "shrub"]


def sentences(words: list[str], count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(words, k=6)) for _ in range(count)]


def measure(root: Path, corpora: dict[str, list[str]], **options: object) -> dict:
    """Write training text by domain and measure it."""
    (root / "domains.txt").write_text("".join(f"{name}\n" for name in corpora))
    for name, lines in corpora.items():
        (root / name).mkdir(exist_ok=True)
        (root / name / "train.en").write_text("".join(f"{line}\n" for line in lines))
    chosen = {"sentences": 400, "seed": 1, **options}
    domains, size, matrix = measure_distances(root, "en", **chosen)  # type: ignore[arg-type]
    return {"domains": domains, "sentences": size, "matrix": matrix.tolist()}


def test_other_words_are_far_and_halves_of_one_text_near(tmp_path: Path) -> None:
    bank = sentences(BANK, 1000, 1)
    record = measure(tmp_path, {"bank1": bank[:500], "bank2": bank[500:], "garden": sentences(GARDEN, 500, 2)})
    matrix = np.array(record["matrix"])
    assert matrix[0, 2] > 1.95
    assert matrix[1, 2] > 1.95
    assert matrix[0, 1] < 0.3
    assert (matrix == matrix.T).all()
    assert (np.diag(matrix) == 0).all()
    assert record["sentences"] == 400
    assert record["domains"] == ["bank1", "bank2", "garden"]


def test_the_order_of_the_lines_changes_nothing(tmp_path: Path) -> None:
    corpora = {"bank": sentences(BANK + GARDEN, 300, 1), "garden": sentences(GARDEN + BANK[:4], 300, 2)}
    first = measure(tmp_path, corpora, sentences=100)
    assert first["sentences"] == 100
    assert 0 < first["matrix"][0][1] < 2
    assert measure(tmp_path, {name: lines[::-1] for name, lines in corpora.items()}, sentences=100) == first


def test_a_sample_has_every_sentence_once() -> None:
    lines = [f"sentence {number % 3000}" for number in range(9000)]
    sample = draw_sample(iter(lines), 1000, seed=1)
    assert len(set(sample)) == len(sample) == 1000
    # The sentences kept on the way are those of the lowest hashes of all.
    assert sample == draw_sample(iter(sorted(set(lines))), 10000, seed=1)[:1000]
    assert sample != draw_sample(iter(lines), 1000, seed=2)
    assert draw_sample(["a", "a"], 10, seed=1) == ["a"]
