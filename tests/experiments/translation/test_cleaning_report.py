"""The report says what happened to every pair, and text of the corpora stays text in it."""

from pathlib import Path

from fairseq_ext.experiments.translation.cleaning_report import ALL, write_cleaning_report
from fairseq_ext.text.cleaning.clean import Cleaning
from fairseq_ext.text.cleaning.filters import Length
from fairseq_ext.text.cleaning.language_id import LanguageId
from fairseq_ext.text.cleaning.tally import Drop, Tally
from fairseq_ext.text.normalise import Normalise

FILTERS = {"length": Length(max_words=7), "language": LanguageId()}
CLEANING = Cleaning(filters=FILTERS, deduplicate="pair", normalise=Normalise())


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
    write_cleaning_report(tmp_path, ("en", "pl"), CLEANING, {"law": tally(LAW, imported=7), "med": tally([], kept=4)})
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
