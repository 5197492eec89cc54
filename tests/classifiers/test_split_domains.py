"""Domains cut into more: how many parts each has, what is in them, and that nothing is lost."""

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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """20 sentences of each subject in turn, with two of its words; the other side has them in capitals."""
    (tmp_path / "all").mkdir()
    for name, subjects in SUBJECTS.items():
        rows = [(row, subject.split()) for row in range(20) for subject in subjects]
        text = "".join(f"the {words[row % 3]} of a {words[(row + 1) % 3]} no {row}\n" for row, words in rows)
        (tmp_path / f"all/{name}.en").write_text(text)
        (tmp_path / f"all/{name}.de").write_text(text.upper())
    return tmp_path / "all"


def split(folder: Path, domains: int) -> Path:
    output = folder.parent / "many"
    verb("split-domains")([str(folder), str(output), "--domains", str(domains), "--target-lang", "de"])
    return output


def test_parts_are_in_proportion_to_size() -> None:
    assert shares([600, 300, 100], 10) == [6, 3, 1]
    assert shares([1000, 10, 10], 5) == [3, 1, 1]


@pytest.mark.slow
def test_every_pair_is_in_one_part(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = split(folder, 5)
    assert "5 domains of 20 to 20 pairs" in capsys.readouterr().err
    parts = folder_entries(output, ("en", "de"))
    assert list(parts) == ["law-1", "law-2", "law-3", "med-1", "med-2"]
    read = {name: (output / f"{name}.en").read_text().splitlines() for name in parts}
    for name in SUBJECTS:
        lines = [line for part, own in read.items() if part.startswith(name) for line in own]
        assert sorted(lines) == sorted((folder / f"{name}.en").read_text().splitlines())
    for name, lines in read.items():
        assert len({line.split()[1] for line in lines}) == 3  # the words of one subject
        assert (output / f"{name}.de").read_text().splitlines() == [line.upper() for line in lines]
        assert lines == sorted(lines, key=lambda line: int(line.split()[-1]))  # in their order


@pytest.mark.slow
def test_mistakes_are_named(folder: Path) -> None:
    for lang in ("en", "de"):
        (folder / f"law-1.{lang}").write_text("another\n")
    for domains, message in ((1, "--domains 1"), (120, "law"), (6, "law-1")):
        with pytest.raises(InputError, match=message):
            split(folder, domains)
    assert not (folder.parent / "many").exists()
