"""The command line: what goes together, and the true thing with tiny systems."""

import json
import os
from pathlib import Path

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.serve.runtime.requests import Request
from fairseq_ext.serve.runtime.translator import SystemTranslator
from tests import toy
from tests.verbs import verb

LINES = ["w4 w5 w6", "", "w7 w8", "w9\r", "w10\u2028w11 w12"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "in.en").write_bytes("\n".join(LINES).encode())
    return tmp_path / "in.en"


def expected(directory: Path, *routes: str | None) -> list[str]:
    translator = SystemTranslator.load(directory)
    requests = [Request(line, route) for line, route in zip(LINES, routes or [None] * 5, strict=True)]
    return [answer.candidates[0].text for answer in translator.translate(requests)]


def test_terms_are_kept_or_named(exported: Path, text: Path, capfd: pytest.CaptureFixture[str]) -> None:
    terms, output = text.with_name("terms.tsv"), text.with_name("out.pl")
    terms.write_text("w4\tw17\nw9\tnothing\n")
    command = [str(exported / "gad"), "--input", str(text), "--terms", str(terms)]
    verb("translate")([*command, "--output", str(output), "--processes", "1"])
    assert "w17" in output.read_text().splitlines()[0].split()
    assert "in.en, line 4: the translation does not contain the required translation of w9" in capfd.readouterr().err
    verb("translate")([*command, "--format", "jsonl"])
    records = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [record.get("terms") for record in records] == [{"w4": "w17"}, None, None, {"w9": None}, None]


def test_a_file_to_standard_output(exported: Path, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    domains = text.with_name("domains")
    domains.write_text("law\n\nmed\nmed\nsub\n")
    verb("translate")([str(exported / "ad"), "--input", str(text), "--domains", str(domains), "--block-lines", "2"])
    found = capsys.readouterr().out
    assert found.split("\n")[:-1] == expected(exported / "ad", "law", "base", "med", "med", "sub")
    gates = ["--gates", "tokens"]
    verb("translate")([str(exported / "gad"), "--input", str(text), "--format", "jsonl", "--candidates", "2", *gates])
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["line"] for record in records] == [1, 2, 3, 4, 5]
    assert [len(record["candidates"]) for record in records] == [2, 1, 2, 2, 2]
    assert records[0]["weights"].keys() == set(toy.DOMAINS)
    assert [len(records[0]["gates"][side]) for side in ("encoder", "decoder")] == [2, 2]
    tokens = records[0]["tokens"]
    assert tokens["weights"].keys() == set(toy.DOMAINS)
    assert [round(sum(row), 2) for row in zip(*tokens["weights"].values(), strict=True)] == [1] * len(tokens["pieces"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--route", "news"], "line 1: gad has no route 'news'"),
        (["--route", "oracle"], "--route oracle: "),
        (["--route", "law", "--domains", "x"], "remove one of them"),
        (["--gates", "tokens"], "need --format jsonl"),
        (["--system", "gad"], "--system gad: "),
        (["--input", "nowhere"], "nowhere: not found"),
        (["--output", "nosuch/out.pl"], "nosuch does not exist"),
        (["--input", "-", "--output", "nosuch/out.pl"], "nosuch does not exist"),
    ],
)
def test_what_cannot_be_is_one_line(exported: Path, text: Path, options: list[str], message: str) -> None:
    output = text.with_name("out.pl")
    given = [str(exported / "gad"), "--input", str(text), "--output", str(output), "--processes", "1", *options]
    with pytest.raises(InputError, match=message) as caught:
        verb("translate")(given)
    assert "\n" not in str(caught.value)
    assert not output.exists()
    assert not Path("nosuch").exists()


def test_a_pipe_as_output_is_refused_before_anything_is_translated(exported: Path, text: Path) -> None:
    output = text.with_name("pipe")
    os.mkfifo(output)
    with pytest.raises(InputError, match="pipe: is not a regular file"):
        verb("translate")([str(exported / "gad"), "--input", str(text), "--output", str(output)])
    assert sorted(path.name for path in text.parent.iterdir()) == ["in.en", "pipe"]


def test_a_typed_tag_is_refused_before_the_rest_is_translated(exported: Path, text: Path) -> None:
    text.write_text("w4\nw5 ＜ｄｏｍａｉｎ:law＞ <domain:law>\n")
    with pytest.raises(InputError, match=r"in\.en, line 2: .*reserved symbol <domain:law>"):
        verb("translate")([str(exported / "mix"), "--input", str(text), "--output", str(text.with_name("out.pl"))])
    assert [path.name for path in text.parent.iterdir()] == ["in.en"]


def test_a_document_in_a_document_out(exported: Path, text: Path) -> None:
    catalogue = text.with_name("messages.po")
    catalogue.write_text('msgid ""\nmsgstr ""\n\nmsgid "w4 w5 w6"\nmsgstr ""\n\nmsgid "w7"\nmsgstr "mine"\n')
    output = text.with_name("filled.po")
    given = [str(exported / "gad"), "--input", str(catalogue), "--output", str(output), "--processes", "1"]
    verb("translate")(given)
    assert output.read_text() == (
        'msgid ""\nmsgstr ""\n\n# Machine translation by gad\n#, fuzzy\nmsgid "w4 w5 w6"\n'
        f'msgstr "{expected(exported / "gad")[0]}"\n\nmsgid "w7"\nmsgstr "mine"\n'
    )
    assert sorted(path.name for path in text.parent.iterdir()) == ["filled.po", "in.en", "messages.po"]
    verb("translate")([*given, "--all"])
    assert 'msgstr "mine"' not in output.read_text()
    with pytest.raises(InputError, match=r"filled\.po: is the text to translate"):
        verb("translate")([*given, "--input", str(output)])
