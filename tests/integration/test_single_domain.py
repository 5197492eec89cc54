"""A translation experiment of one domain: its base, the control, an adapter, own test sets, and a report."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ext.metrics.comparison import read_comparisons
from fairseq_ext.metrics.records import read_records
from fairseq_ext.recipes.translation.config import load_config
from fairseq_ext.recipes.translation.stages import stages_of
from tests.recipes.translation.small_translation_experiment import PLAIN, TRAIN
from tests.small_corpus import write_config, write_corpora
from tests.verbs import verb

pytestmark = pytest.mark.slow

SYSTEMS = {
    "mix": {**PLAIN, "arch": "transformer_tiny", "max-epoch": 4},
    "mix-continued": {**PLAIN, "from": "mix", "arch": "transformer_tiny"},
    "ad": {**PLAIN, "from": "mix", "arch": "transformer_domain_adapter_tiny"},
}
OUTPUTS = {"mix": {"system": "mix"}, "mix-continued": {"system": "mix-continued"},
           "ad": {"system": "ad", "domain": "bank"}}  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The experiment file, after its run; its work is beside it."""
    folder = tmp_path_factory.mktemp("single")
    corpora = write_corpora(folder / "corpora")
    (folder / "mine.en").write_text("close the blue loan\n", encoding="utf-8")
    (folder / "mine.de").write_text("schließe: Darlehen (blau)\n", encoding="utf-8")
    path = write_config(
        folder / "single.yaml",
        corpora,
        corpora={"domains": {"bank": [f"{corpora}/bank.{{lang}}"]}},
        subwords={"vocab_size": 55},
        train={**TRAIN, "systems": SYSTEMS},
        translate={"common": {"beam": 2, "max-tokens": 400, "cpu": True, "max-len-b": 12}, "outputs": OUTPUTS},
        evaluate={"tests": {"MINE": f"{folder}/mine.{{lang}}"}, "resamples": 50},
    )
    verb("run")([str(path)])
    return path


def test_there_is_nothing_to_classify(path: Path) -> None:
    stages = {stage.name: stage.steps() for stage in stages_of(load_config(path))}
    assert stages["teacher"] == []
    assert [step.output.name for step in stages["analyse"]] == ["parameters"]
    assert not (path.parent / "work" / "teacher").exists()
    assert not (path.parent / "work" / "analysis" / "distances").exists()


def test_everything_is_translated_and_compared_with_the_control(path: Path) -> None:
    records = read_records(path.parent / "work/scores/records.jsonl")
    for output in OUTPUTS:
        found = {
            record.domain: record.value for record in records if (record.system, record.metric) == (output, "chrF")
        }
        assert found.keys() == {"bank", "AVG", "wAVG", "test:MINE"}
        assert found["bank"] == found["AVG"]
    compared = read_comparisons(path.parent / "work/scores/comparisons.jsonl")
    assert {each.system for each in compared if each.baseline == "mix-continued"} == {"mix", "ad"}


def test_the_report_has_no_section_on_what_there_cannot_be(path: Path) -> None:
    report = (path.parent / "work/report/report.md").read_text(encoding="utf-8")
    headings = [line.removeprefix("## ") for line in report.splitlines() if line.startswith("## ")]
    assert headings == ["Translation quality", "Comparison", "Own test sets", "Data", "Trainings"]
    assert "Deploy " in report.partition("## Translation quality")[2].partition("\n## ")[0]  # the recommendation
    assert "Figure 3." not in report
