"""Domains cut into more: how many parts each has, what is in them, and that nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ext.classifiers.split_domains import shares
from fairseq_ext.corpora.entries import folder_entries
from fairseq_ext.inputs.errors import InputError
from tests.verbs import verb

SUBJECTS = {
    "law": ["court judge appeal", "tax income duty", "border visa asylum"],
    "med": ["heart blood vein", "tooth gum jaw"],
}


def texts_of(subjects: list[str], count: int = 20) -> list[str]:
    """Sentences of some subjects in turn, two words of it in each, and words of all."""
    return [
        f"the {subject.split()[row % 3]} of a {subject.split()[(row + 1) % 3]} no {row}"
        for row in range(count)
        for subject in subjects
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, subjects in SUBJECTS.items():
        texts = texts_of(subjects)
        (tmp_path / "all").mkdir(exist_ok=True)
        for lang, lines in (("en", texts), ("de", [text.upper() for text in texts])):
            (tmp_path / "all" / f"{name}.{lang}").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path / "all"


def test_parts_are_in_proportion_to_size() -> None:
    assert shares([600, 300, 100], 10) == [6, 3, 1]
    assert shares([1000, 10, 10], 5) == [3, 1, 1]


def test_every_pair_is_in_one_part(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verb("split-domains")([str(folder), str(tmp_path / "many"), "--domains", "5", "--target-lang", "de"])
    parts = folder_entries(tmp_path / "many", ("en", "de"))
    assert list(parts) == ["law-1", "law-2", "law-3", "med-1", "med-2"]
    read = {name: (tmp_path / f"many/{name}.en").read_text().splitlines() for name in parts}
    for name in SUBJECTS:
        lines = [line for part, own in read.items() if part.startswith(name) for line in own]
        assert sorted(lines) == sorted((folder / f"{name}.en").read_text().splitlines())
    for name, lines in read.items():
        assert len({line.split()[1] for line in lines}) == 3  # the words of one subject
        assert (tmp_path / f"many/{name}.de").read_text().splitlines() == [line.upper() for line in lines]
        assert lines == sorted(lines, key=lambda line: int(line.split()[-1]))  # in their order
    assert "5 domains of 20 to 20 pairs" in capsys.readouterr().err
    verb("split-domains")([str(folder), str(tmp_path / "many"), "--domains", "5", "--target-lang", "de"])
    assert "many: up to date" in capsys.readouterr().err


def test_mistakes_are_named(folder: Path, tmp_path: Path) -> None:
    for lang in ("en", "de"):
        (folder / f"law-1.{lang}").write_text("another\n")
    for domains, message in (("1", "--domains 1"), ("120", "law"), ("6", "law-1")):
        with pytest.raises(InputError, match=message):
            verb("split-domains")([str(folder), str(tmp_path / "many"), "--domains", domains, "--target-lang", "de"])
    assert not (tmp_path / "many").exists()
