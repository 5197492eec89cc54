"""What a task keeps in checkpoints is compared where they are loaded."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fairseq_ext.inputs.errors import InputError
from tests import toy


@pytest.fixture
def reordered(data: Path, tmp_path: Path) -> Path:
    """The same data with the lines of one dictionary the other way round."""
    copy = Path(shutil.copytree(data, tmp_path / "reordered"))
    lines = (copy / "dict.pl.txt").read_text().splitlines(keepends=True)
    (copy / "dict.pl.txt").write_text("".join(reversed(lines)))
    return copy


def test_a_dictionary_of_the_same_size_in_another_order_is_refused(data: Path, reordered: Path) -> None:
    task, _ = toy.make_task(data)
    kept = task.state_dict()
    assert kept["vocabulary"].keys() == {"dict.en.txt", "dict.pl.txt"}
    toy.make_task(data)[0].load_state_dict(kept)
    with pytest.raises(InputError, match=r"reordered/dict\.pl\.txt: not the one that the checkpoint was trained with"):
        toy.make_task(reordered)[0].load_state_dict(kept)


@pytest.mark.parametrize("kept", [{}, {"vocabulary": None}, {"vocabulary": {"dict.fr.txt": "0"}}])
def test_checkpoints_that_remember_nothing_of_it_are_taken(kept: dict, data: Path) -> None:
    toy.make_task(data)[0].load_state_dict(kept)
