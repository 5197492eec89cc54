"""Distances between domains: known limits, and samples."""

import random
from pathlib import Path

import numpy as np

from fairseq_ext.experiments.translation.distances import draw_sample, measure_distances
from fairseq_ext.text.text_files import write_lines

BANK = ["account", "credit", "loan", "interest", "cash", "payment", "debit"]
GARDEN = ["tree", "flower", "weed", "root", "hedge", "lawn"]


def test_distances_between_and_within_domains(tmp_path: Path) -> None:
    rng = random.Random(1)
    words = {"bank1": BANK, "bank2": BANK, "garden": GARDEN + BANK[:1]}
    corpora = {name: [" ".join(rng.choices(own, k=6)) for _ in range(500)] for name, own in words.items()}
    found = []
    for step in (1, -1):
        write_lines(tmp_path / "domains.txt", corpora)
        for name, lines in corpora.items():
            write_lines(tmp_path / name / "train.en", lines[::step])
        domains, size, matrix = measure_distances(tmp_path, "en", sentences=400, seed=1)
        assert (domains, size) == (list(corpora), 400)
        found.append(matrix)
    assert np.array_equal(*found)
    assert (matrix[:2, 2] > 1.9).all()
    assert matrix[0, 1] < 0.3
    assert (matrix == matrix.T).all()
    assert (np.diag(matrix) == 0).all()


def test_a_sample_has_every_sentence_once() -> None:
    lines = [f"sentence {number % 3000}" for number in range(9000)]
    sample = draw_sample(iter(lines), 1000, seed=1)
    assert len(set(sample)) == len(sample) == 1000
    # The sentences kept on the way are those of the lowest hashes of all.
    assert sample == draw_sample(iter(sorted(set(lines))), 10000, seed=1)[:1000]
    assert sample != draw_sample(iter(lines), 1000, seed=2)
