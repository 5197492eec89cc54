"""Of binarised files those with unknown pieces are told."""

from __future__ import annotations

from fairseq_ext.text.binarise import summary_of


def test_only_files_with_unknown_pieces_are_told_one_by_one() -> None:
    odd = "law/test.en: 75 sentences, 10000 tokens, 10.000 % <unk>"
    fine = [f"law/{role}.en: 75 sentences, 900 tokens, 0.000 % <unk>" for role in ("valid", "train")]
    assert summary_of([fine[0], odd, fine[1]]) == [odd, "3 files, 2 of them without unknown pieces"]
