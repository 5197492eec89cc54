"""Importing whole domains, in a program and by command: complete, counted, repeatable, or refused."""

from pathlib import Path

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.text import import_corpora
from fairseq_ext.text.entries import folder_entries
from fairseq_ext.text.text_files import read_lines
from tests.small_corpus import read_tree
from tests.text.test_entries import PO, make
from tests.verbs import verb

LANGS = ("en", "pl")


@pytest.mark.parametrize("compress", ["none", "gz"])
def test_command_writes_one_domain(tmp_path: Path, compress: str) -> None:
    (tmp_path / "x.po").write_text(PO.replace("one", "&Save").replace("jeden", "&Zapisz"))
    out = tmp_path / "out"
    options = ["--target-lang=pl", f"--output={out}", f"--compress={compress}", "--markup=strip"]
    command = ["shop", str(tmp_path / "x.po"), *options]
    verb("corpora")(command)
    first = read_tree(out)
    suffix = "" if compress == "none" else f".{compress}"
    for lang, text in zip(LANGS, ("Save", "Zapisz"), strict=True):
        assert read_lines(out / f"shop.{lang}{suffix}") == [text]
    verb("corpora")([*command, "--overwrite"])
    assert read_tree(out) == first
    assert folder_entries(out, LANGS) == {"shop": [str(out / f"shop.{{lang}}{suffix}")]}


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (["law", "law.{lang}", "--target-lang", "pl", "--output", "full"], r"full/law\.en: already exists"),
        (["law", "a==1", "--target-lang", "a/b"], "--target-lang: 'a/b'"),
        (["law", "law.{lang}", "--target-lang", "pl"], r"law\.(en|pl)"),
        (["law", "law.{lang}", "blank.tsv", "--target-lang", "pl", "--output", "new"], r"law: blank\.tsv: no line"),
        (["law", "law.{lang}", "--target-lang", "pl", "--output", "out", "--overwrite"], r"out/law\.pl"),
    ],
)
def test_command_refuses_what_cannot_be_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], place: str
) -> None:
    make(tmp_path, "law.{lang}")
    (tmp_path / "out" / "law.pl").mkdir(parents=True)
    (tmp_path / "full").mkdir()
    (tmp_path / "new").mkdir()
    (tmp_path / "blank.tsv").write_text("one\t\n")
    (tmp_path / "full" / "law.en").write_text("mine")
    before = read_tree(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=place):
        verb("corpora")(arguments)
    assert read_tree(tmp_path) == before


def test_kill_between_the_sides_leaves_no_wrong_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, command = tmp_path / "out", ["--target-lang=pl", f"--output={tmp_path / 'out'}"]
    verb("corpora")(["law", make(tmp_path, "x.tsv"), *command])
    (tmp_path / "y.tsv").write_text("two\tdwa\n")

    def die(*_: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    replace = import_corpora.os.replace
    done: list[object] = []
    monkeypatch.setattr(import_corpora.os, "replace", lambda *paths: die() if done else done.append(replace(*paths)))
    with pytest.raises(KeyboardInterrupt):
        verb("corpora")(["law", str(tmp_path / "y.tsv"), *command, "--overwrite"])
    with pytest.raises(InputError, match="its other side law.pl is missing"):
        folder_entries(out, LANGS)
