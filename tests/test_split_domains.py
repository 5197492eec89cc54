"""``tools/split_domains.py`` loses no pair, and keeps subjects apart."""

import importlib
import sys
from pathlib import Path

import pytest

from fairseq_ext.text.entries import folder_entries

SUBJECTS = {
    "law": ["court judge appeal", "tax income duty", "border visa asylum"],
    "med": ["heart blood vein", "tooth gum jaw"],
}


@pytest.mark.slow
def test_every_pair_is_in_one_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, output = tmp_path / "all", tmp_path / "many"
    folder.mkdir()
    for name, subjects in SUBJECTS.items():
        rows = [(row, subject.split()) for row in range(20) for subject in subjects]
        text = "".join(f"the {words[row % 3]} of a {words[(row + 1) % 3]} no {row}\n" for row, words in rows)
        (folder / f"{name}.en").write_text(text)
        (folder / f"{name}.de").write_text(text.upper())
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[1] / "tools")
    script = importlib.import_module("split_domains")
    assert script.shares([600, 300, 100], 10) == [6, 3, 1]
    arguments = [str(folder), str(output), "--domains", "5", "--langs", "en", "de"]
    monkeypatch.setattr(sys, "argv", ["split_domains.py", *arguments])
    script.main()
    parts = folder_entries(output, ("en", "de"))
    assert list(parts) == ["law-1", "law-2", "law-3", "med-1", "med-2"]
    read = {name: (output / f"{name}.en").read_text().splitlines() for name in parts}
    for name in SUBJECTS:
        lines = [line for part, own in read.items() if part.startswith(name) for line in own]
        assert sorted(lines) == sorted((folder / f"{name}.en").read_text().splitlines())
    for name, lines in read.items():
        assert len({line.split()[1] for line in lines}) == 3  # the words of one subject
        assert (output / f"{name}.de").read_text().splitlines() == [line.upper() for line in lines]
