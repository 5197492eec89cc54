from __future__ import annotations

from typing import Any

from fairseq_ext.report.figures import BEST
from fairseq_ext.report.score_tables import columns_of, format_table, gain_label


def figure(mean: float, sd: float | None = None, p: float | None = None) -> dict[str, Any]:
    return {"mean": mean, "sd": sd, "values": [mean], "p": p}


def record_of(outputs: dict[str, dict], **changes: Any) -> dict[str, Any]:
    named = {name: {"runs": [name], "chrF": row} for name, row in outputs.items()}
    record = {"signatures": {"chrF": "…"}, "domains": ["law", "med"], "outputs": named, "baseline": "mix"}
    return record | {"significance": "paired bootstrap", "comet": "wmt20", "missing": []} | changes


def test_table_marks_what_is_shown_to_be_the_best_of_a_column() -> None:
    table = format_table(
        record_of(
            {
                "mix": {"law": figure(10), "AVG": figure(20)},
                "gad": {"law": figure(12, 0.34, 0.0499), "AVG": figure(19, 0.1, 0.05)},
            }
        )
    )
    assert table.splitlines() == [
        "| chrF | law | AVG |",
        "|---|---:|---:|",
        "| mix | 10.0 | 20.0 |",
        "| gad | **12.0 ± 0.34**† | 19.0 ± 0.10 |",
        "",
        "± sample standard deviation over runs.",
        BEST.replace("▲ and ▼", "†"),
        "† p < 0.05 against mix: paired bootstrap.",
    ]


def test_notes_say_what_is_not_there() -> None:
    outputs = {"mix": {"law": figure(10)}}
    table = format_table(record_of(outputs, comet="not run: no model", missing=["translations/gad", "ood/mix"]))
    assert table.splitlines()[4:] == ["COMET: not run: no model.", "Not there yet: translations/gad, ood/mix."]
    assert "†" not in format_table(record_of(outputs))


def test_columns_are_in_order_and_may_have_gaps() -> None:
    outputs = {
        "ft": {"med": figure(1), "law": figure(2)},
        "mix": {
            "law": figure(3),
            "ood:NEWS": figure(4),
            "wAVG": figure(5),
            "AVG": figure(6),
            "misclassified": figure(7),
        },
    }
    record = record_of(outputs)
    assert columns_of(record, "chrF") == ["law", "med", "AVG", "wAVG", "misclassified", "ood:NEWS"]
    assert "| ft | 2.0 | 1.0 |  |  |  |  |" in format_table(record)


def test_the_lowest_error_rate_is_the_best() -> None:
    outputs = {"mix": {"TER": {"law": figure(60)}}, "gad": {"TER": {"law": figure(58, p=0.01)}}}
    table = format_table({**record_of({}), "signatures": {"TER": "…"}, "outputs": outputs})
    assert "| gad | **58.0**† |" in table
    assert "| mix | 60.0 |" in table
    assert "TER: lower is better." in table
    assert gain_label("TER", "mix") == "TER points below mix"
