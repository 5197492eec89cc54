"""Normal forms are Unicode's, and take no time quadratic in a text's length."""

import time

import pytest

from fairseq_ext.corpora.folded_text import fold, normal_form


def test_marks_in_a_row_stay() -> None:
    for count, is_sorted in ((499, True), (500, False)):
        marks = "\u0301\u0323" * count
        assert (normal_form("NFC", f"q{marks}") == "q" + "\u0323" * count + "\u0301" * count) is is_sorted


@pytest.mark.slow
def test_time_does_not_grow_with_the_square_of_marks() -> None:
    start = time.process_time()
    fold("a" + "\u0301\u0323" * 200_000)
    fold(("a" + "\u0301\u0323" * 499) * 200)
    # The square would take some ten minutes.
    assert time.process_time() - start < 5
