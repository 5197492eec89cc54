"""The report says what happened to every pair, and text of the corpora stays text in it."""

from pathlib import Path

from fairseq_ext.cleaning.filters import Length
from fairseq_ext.cleaning.language_id import LanguageId
from fairseq_ext.cleaning.report import ALL, MAX_SAMPLES, Drop, Tally, write_cleaning_report
from fairseq_ext.corpora.normalise import Normalise

FILTERS = {"length": Length(max_words=7), "language": LanguageId()}
OPTIONS = {**FILTERS, "repeated": {"by": "pair"}, "normalise": Normalise()}


def tally(drops: list[Drop], kept: int = 3, imported: int = 0) -> Tally:
    result = Tally({"lines": kept + len(drops), "bad_utf8_dropped": imported})
    result.add_block({"pairs": kept + len(drops), "changed": 1, "kept": kept}, drops)
    return result


LAW = [
    Drop(1, "length", "9 source words", "a", "b"),
    Drop(3, "language", "target is cs (0.97), not pl (0.01)", "<b>All</b> | `that`", "![x](http://x)"),
    Drop(4, "language", "target is cs (0.91), not pl (0.00)", "All", "Všechno"),
]


def test_tables_have_counts_and_shares(tmp_path: Path) -> None:
    write_cleaning_report(tmp_path, ("en", "pl"), OPTIONS, {"law": tally(LAW, imported=7), "med": tally([], kept=4)})
    report = (tmp_path / "report.md").read_text(encoding="utf-8")

    def rows(name: str) -> list[list[str]]:
        lines = [line for line in report.splitlines() if line.startswith(f"| {name} |")]
        return [line.strip("| ").split(" | ")[1:] for line in lines]

    assert "70.0 % of 10 sentence pairs" in report
    found = [rows(name)[0] for name in ("outcome", "kept", "share kept", "length", "language")]
    assert found[0] == [ALL, "law", "med"]
    assert found[1:] == [["7", "3", "4"], ["70.0 %", "50.0 %", "100.0 %"], ["1", "1", "0"], ["2", "2", "0"]]
    assert rows("law") == [["6", "7"]]
    assert "min_words: 1, max_words: 7" in rows("length")[1][0]
    assert rows("law 4") == [[LAW[2].reason, "All", "Všechno"]]


def test_samples_are_few_and_do_not_depend_on_the_cut_into_blocks(tmp_path: Path) -> None:
    drops = [Drop(line, "length", "", str(line), "x") for line in range(1, 500)]
    whole, cut = tally(drops), Tally({})
    for start in range(0, 499, 7):
        cut.add_block({"pairs": 7, "changed": 0, "kept": 0}, drops[start : start + 7])
    lines = [drop.line for drop in whole.samples_of("length")]
    assert cut.samples_of("length") == whole.samples_of("length")
    assert len(lines) == MAX_SAMPLES
    assert lines == sorted(lines) != list(range(1, MAX_SAMPLES + 1))
