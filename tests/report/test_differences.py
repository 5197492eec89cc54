from __future__ import annotations

import pytest

from fairseq_ext.report.content import Example
from fairseq_ext.report.differences import changed_words


@pytest.mark.parametrize(
    ("before", "after", "pieces"),
    [
        ("a b c", "a x y c", [("a", False), ("x y", True), ("c", False)]),
        ("a b", "a", [("a", False)]),
        ("", "a  b", [("a b", True)]),
        ("a", "", [("", False)]),
        ("a b", "b a", [("b", True), ("a", False)]),
    ],
)
def test_words_that_the_other_does_not_have_are_told(before: str, after: str, pieces: list[tuple[str, bool]]) -> None:
    assert changed_words(before, after) == pieces


def test_equal_texts_are_one_version_but_the_first_stays_alone() -> None:
    example = Example("t", [("Source", "x"), ("Reference", "y"), ("mix", "x"), ("ad", "y"), ("gad", "x")])
    assert example.versions == [(["Source"], "x"), (["Reference", "ad"], "y"), (["mix", "gad"], "x")]
    assert example.text_of("ad") == "y"
    assert example.text_of("none") is None
