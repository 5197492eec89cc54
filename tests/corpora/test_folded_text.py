"""Normal forms are Unicode's, and take no time quadratic in a text's length."""

from fairseq_ext.corpora.folded_text import normal_form


def test_marks_in_a_row_stay() -> None:
    for count, is_sorted in ((499, True), (500, False)):
        marks = "\u0301\u0323" * count
        assert (normal_form("NFC", f"q{marks}") == "q" + "\u0323" * count + "\u0301" * count) is is_sorted
