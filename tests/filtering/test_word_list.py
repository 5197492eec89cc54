"""Word lists are read strictly, and words compared by how they begin."""

from pathlib import Path

import pytest

from fairseq_ext.filtering.word_list import load_word_list, stems, stems_in_order
from fairseq_ext.inputs.errors import InputError


def write_list(folder: Path, text: str) -> Path:
    path = folder / "words.tsv"
    path.write_text(text, encoding="utf-8")
    return path


def test_words_are_compared_by_their_first_six_letters_in_any_case(tmp_path: Path) -> None:
    path = write_list(tmp_path, "Translation\tTłumaczenie\nSTRASSE\tulica\n")
    assert load_word_list(str(path)) == {"transl": {"tłumac"}, "strass": {"ulica"}}
    assert stems("Translated, translations, STRAẞE") == {"transl", "strass"}
    assert stems_in_order("A cat, a Dog") == ["a", "cat", "a", "dog"]


def test_entries_of_several_words_are_left_out(tmp_path: Path) -> None:
    path = write_list(tmp_path, "take off\tstartować\ncat\tkot\nput\tbrać udział\n")
    assert load_word_list(str(path)) == {"cat": {"kot"}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cat\tkot\ndog pies\n", r"words\.tsv, line 2: expected source<TAB>target, got 'dog pies'"),
        ("cat\t\n", r"line 1: expected source<TAB>target"),
        ("cat\tkot\n\ndog\tpies\n", r"line 2: expected source<TAB>target"),
        ("cat\tkot\t0.5\tnoun\n", r"line 1: expected source<TAB>target"),
        ("cat\tkot\tnoun\n", r"line 1: 'noun' is no probability"),
        ("cat\tkot\t1.5\n", r"line 1: '1\.5' is no probability"),
        ("take off\tstartować\n", r"words\.tsv: holds no entry of one word"),
        ("", r"words\.tsv: is empty"),
    ],
)
def test_bad_lists_are_errors(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_word_list(str(write_list(tmp_path, text)))
