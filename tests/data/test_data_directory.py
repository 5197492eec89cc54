"""Dictionaries, data and checkpoints belong together, and what does not is refused in one line."""

import shutil
from pathlib import Path

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.provenance import Provenance, write_record
from fairseq_ext.data.data_directory import check_vocabulary_files
from tests import toy


def test_changed_files_are_refused_by_their_record_and_by_checkpoints(data: Path, tmp_path: Path) -> None:
    own = Path(shutil.copytree(data, tmp_path / "own"))
    write_record(own, Provenance({}, []))
    check_vocabulary_files(own)
    check_vocabulary_files(data)  # the user's own, without a record
    kept = toy.make_task(data)[0].state_dict()
    assert kept["vocabulary"].keys() == {"dict.en.txt", "dict.pl.txt"}
    toy.make_task(own)[0].load_state_dict(kept)
    path = own / "dict.pl.txt"
    path.write_text("".join(reversed(path.read_text(encoding="utf-8").splitlines(keepends=True))), encoding="utf-8")
    with pytest.raises(InputError, match=r"dict\.pl\.txt: damaged or edited since"):
        check_vocabulary_files(own)
    write_record(own, Provenance({}, []))
    with pytest.raises(InputError, match=r"own/dict\.pl\.txt: "):
        toy.make_task(own)[0].load_state_dict(kept)


@pytest.mark.parametrize("kept", [{}, {"vocabulary": None}, {"vocabulary": {"dict.fr.txt": "0"}}])
def test_checkpoints_that_remember_nothing_of_it_are_taken(kept: dict, data: Path) -> None:
    toy.make_task(data)[0].load_state_dict(kept)
