"""Tables with a header, in three forms: what they say, and which row is wrong."""

from pathlib import Path

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.text.labelled_text import LabelledExample, read_examples

PAIRS = ("y", "one", "two")


def read(path: Path, text: str | bytes, columns: tuple[str, ...] = ("label", "text")) -> list[LabelledExample]:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_examples(path, columns[0], columns[1:], is_number=False)


def test_the_forms_say_the_same(tmp_path: Path) -> None:
    expected = [LabelledExample("yes", ('"a" b', "c")), LabelledExample("0", ("d", "e, f"))]
    tsv = '\ufeffone\ty\tid\ttwo\r\n"a"  b\tyes\t1\tc\r\nd\t0\t2\t e, f\r\n'
    csv = '\ufeffone,y,id,two\r\n"""a"" b",yes,1,c\r\nd,0,2,"e,\nf"\r\n'
    jsonl = '{"one": "\\"a\\" b", "y": "yes", "two": "c"}\n{"two": "e, f\\u0000", "y": 0, "one": "d", "id": 2}\n'
    assert read(tmp_path / "x.tsv", tsv, PAIRS) == expected
    assert read(tmp_path / "x.csv", csv, PAIRS) == expected
    assert read(tmp_path / "x.jsonl", jsonl, PAIRS) == expected


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.tsv", "label\ttext\na\tb\nc\n", r"x\.tsv, line 3"),
        ("x.tsv", "label\ttext\n\tb\n", r"x\.tsv, line 2: label"),
        ("x.tsv", "label\ttext\na\tb\na\t\u200b \n", r"x\.tsv, line 3: text"),
        ("x.tsv", "label\ttext\nnot so\tb\n", r"x\.tsv, line 2: label"),
        ("x.tsv", b"label\ttext\na\tb\na\t\xe9\n", r"x\.tsv, line 3"),
        ("x.csv", 'label,text\na,"b\n\nc",d\n', r"x\.csv, line 4"),
        ("x.csv", 'label,text\na,"b\n', r"x\.csv, line 2"),
        ("x.jsonl", '{"label": "a", "text": "b"}\n{"label"\n', r"x\.jsonl, line 2"),
        ("x.jsonl", '{"label": null, "text": "b"}\n', r"x\.jsonl, line 1: label"),
        ("x.jsonl", '{"label": 1, "text": "a\\ud800"}', r"x\.jsonl, line 1"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, name: str, text: str | bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path / name, text)


@pytest.mark.parametrize("label", ["high", "nan", "inf"])
def test_a_regression_needs_numbers(tmp_path: Path, label: str) -> None:
    (tmp_path / "x.tsv").write_text(f"label\ttext\n{label}\tb\n")
    with pytest.raises(InputError, match=rf"line 2: label: '{label}' is not a number"):
        read_examples(tmp_path / "x.tsv", "label", ("text",), is_number=True)
