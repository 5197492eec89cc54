"""Dictionaries, data and checkpoints belong together, and what does not is refused in one line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fairseq_ext.data.data_directory import check_vocabulary_files
from fairseq_ext.engine.provenance import Provenance, write_record
from fairseq_ext.inputs.errors import InputError
from tests import toy


@pytest.fixture
def own(data: Path, tmp_path: Path) -> Path:
    """A copy of the data, as a step of ours wrote them."""
    copy = Path(shutil.copytree(data, tmp_path / "reordered"))
    write_record(copy, Provenance({}, []))
    return copy


def reverse_lines(path: Path) -> None:
    path.write_text("".join(reversed(path.read_text(encoding="utf-8").splitlines(keepends=True))), encoding="utf-8")


def test_data_as_prepared_are_taken_and_changed_ones_refused(own: Path, data: Path) -> None:
    check_vocabulary_files(own)
    reverse_lines(own / "dict.pl.txt")
    with pytest.raises(InputError, match=r"dict\.pl\.txt: damaged or edited since"):
        check_vocabulary_files(own)
    check_vocabulary_files(data)  # the user's own, without a record, may have any order


def test_a_dictionary_in_another_order_than_the_checkpoints_is_refused(data: Path, own: Path) -> None:
    kept = toy.make_task(data)[0].state_dict()
    assert kept["vocabulary"].keys() == {"dict.en.txt", "dict.pl.txt"}
    toy.make_task(data)[0].load_state_dict(kept)
    reverse_lines(own / "dict.pl.txt")
    write_record(own, Provenance({}, []))
    with pytest.raises(InputError, match=r"reordered/dict\.pl\.txt: not the one that the checkpoint was trained with"):
        toy.make_task(own)[0].load_state_dict(kept)


@pytest.mark.parametrize("kept", [{}, {"vocabulary": None}, {"vocabulary": {"dict.fr.txt": "0"}}])
def test_checkpoints_that_remember_nothing_of_it_are_taken(kept: dict, data: Path) -> None:
    toy.make_task(data)[0].load_state_dict(kept)
