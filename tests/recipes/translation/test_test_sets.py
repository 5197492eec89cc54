from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fairseq_ext.data.teacher_labels import write_probs
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.translation.measurement import read_tests
from tests.recipes.translation.small_experiment import NEWS, REFERENCES, TRAIN_SIZES, write_experiment

OOD = {"ood": {"NEWS": "news.tsv"}}


def test_they_are_read_with_mistakes_and_sizes(tmp_path: Path) -> None:
    tests = read_tests(write_experiment(tmp_path, {}, OOD), ["NEWS"])
    assert tests.domains == ["law", "med"]
    assert tests.references == {**REFERENCES, "ood:NEWS": NEWS}
    assert tests.sources["ood:NEWS"][1] == f"source of: {NEWS[1]}"
    assert tests.train_sizes == TRAIN_SIZES
    assert tests.errors is not None
    assert {name: wrong.tolist() for name, wrong in tests.errors.items()} == {
        "law": [False, True, False],
        "med": [False, False],
    }
    assert tests.num_errors == 1


def test_labels_of_other_test_sets_are_refused(tmp_path: Path) -> None:
    config = write_experiment(tmp_path, {}, {})
    write_probs(config.work_dir / "teacher/med/test.npy", np.array([[0.0, 1.0]]))
    with pytest.raises(InputError, match=r"teacher/med/test\.npy: has 1 rows for 2 sentences"):
        read_tests(config)
