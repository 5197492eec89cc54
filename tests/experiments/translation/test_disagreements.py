"""Examples are few, of different domains, and show what every output said."""

from pathlib import Path

import pytest
from fairseq_ext.experiments.translation.disagreements import choose, read_examples
from fairseq_ext.experiments.translation.results import Design, read_results

from fairseq_ext.report.content import Examples, Missing
from tests.experiments.translation import made_up


def test_domains_take_turns() -> None:
    entries = [{"domain": name, "line": number} for number, name in enumerate("AABAC")]
    assert [entry["line"] for entry in choose(entries, 4)] == [0, 2, 4, 1]
    assert choose(entries, 0) == []


def test_all_outputs_side_by_side(tmp_path: Path) -> None:
    config = made_up.make_experiment(tmp_path, examples=2)
    found = read_examples(config, Design.of(config), read_results(config.work_dir))
    assert isinstance(found, Examples)
    # The first sentence of each domain, which all translate alike, is passed over.
    assert [example.title for example in found.examples] == [
        "IT, test sentence 2: the classifier says TALK (0.81), the gates IT (0.60)",
        "LAW, test sentence 2: the classifier says TALK (0.81), the gates LAW (0.60)",
    ]
    assert found.examples[1].lines == [
        ("Source", "second harmless"),
        ("Reference", "drugi harmless"),
        ("mix", "mix harmless"),
        ("ft", "ft@LAW harmless"),
        ("ad-oracle", "ad-oracle harmless"),
        ("ad-classifier", "ad-classifier harmless"),
        ("gad", "gad@1 harmless"),
    ]


def test_long_sentences_are_cut(tmp_path: Path) -> None:
    config = made_up.make_experiment(tmp_path, text="long " * 200)
    found = read_examples(config, Design.of(config), read_results(config.work_dir))
    assert isinstance(found, Examples)
    lines = [text for example in found.examples for _, text in example.lines]
    assert {len(text) for text in lines} == {300}
    assert all(text.endswith("…") for text in lines)


@pytest.mark.parametrize("gone", ["analysis/gates/gates.json", "analysis/gates/disagreements.jsonl"])
def test_without_gates_there_are_none(tmp_path: Path, gone: str) -> None:
    config = made_up.make_experiment(tmp_path)
    (config.work_dir / gone).unlink()
    found = read_examples(config, Design.of(config), read_results(config.work_dir))
    assert isinstance(found, Missing)
    assert found.reason == "not available: there are no gates in analysis/gates/disagreements.jsonl"


def test_none_are_shown_if_none_are_wanted(tmp_path: Path) -> None:
    config = made_up.make_experiment(tmp_path, examples=0)
    assert isinstance(read_examples(config, Design.of(config), read_results(config.work_dir)), Missing)
