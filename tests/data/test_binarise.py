"""Of binarised files is told how much is unknown."""

from __future__ import annotations

from fairseq_ext.data.binarise import summary_of


def test_the_file_with_most_unknown_pieces_is_named() -> None:
    unknown = {"law/test.en": 10.0, "law/valid.en": 0.0, "law/train.en": 0.5}
    assert summary_of(unknown) == "unknown pieces in 2 of 3 files, most in law/test.en: 10.000 %"
    assert summary_of({"law/test.en": 0.0}) == "no unknown pieces"
