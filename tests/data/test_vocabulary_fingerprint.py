"""Dictionary, SentencePiece model and data belong together, and what does not is refused in one line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fairseq_ext.data.data_directory import check_vocabulary_files
from fairseq_ext.engine.hashing import RECORD
from fairseq_ext.inputs.errors import InputError
from tests.small_corpus import write_config, write_corpora
from tests.verbs import verb


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The work directory of a whole preparation."""
    folder = tmp_path_factory.mktemp("prepared")
    verb("prepare")([str(write_config(folder / "c.yaml", write_corpora(folder / "corpora"))), "--workers", "1"])
    return folder / "work"


@pytest.fixture
def data(prepared: Path, tmp_path: Path) -> Path:
    """A copy of the binarised data."""
    return Path(shutil.copytree(prepared / "data-bin", tmp_path / "data-bin"))


def reverse_lines(path: Path) -> None:
    path.write_text("".join(reversed(path.read_text(encoding="utf-8").splitlines(keepends=True))), encoding="utf-8")


def test_data_as_prepared_are_taken_and_changed_ones_refused(data: Path) -> None:
    check_vocabulary_files(data)
    reverse_lines(data / "dict.de.txt")
    with pytest.raises(InputError, match=r"dict\.de\.txt: damaged or edited since"):
        check_vocabulary_files(data)


def test_data_of_the_users_own_may_have_any_order(data: Path) -> None:
    (data / RECORD).unlink()
    reverse_lines(data / "dict.de.txt")
    check_vocabulary_files(data)
