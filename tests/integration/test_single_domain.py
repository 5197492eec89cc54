"""A translation experiment of one domain: its base, the control, an adapter, own test sets, and a report."""

from pathlib import Path

import pytest

from fairseq_ext.experiments.metrics.comparison import read_comparisons
from fairseq_ext.experiments.metrics.records import read_records
from tests.experiments.translation.small_translation_experiment import PLAIN, TRAIN
from tests.small_corpus import write_config, write_corpora
from tests.verbs import verb

pytestmark = pytest.mark.slow

TINY = {**PLAIN, "arch": "transformer_tiny"}
AD = {**PLAIN, "from": "mix", "arch": "transformer_domain_adapter_tiny"}
SYSTEMS = {"mix": {**TINY, "max-epoch": 4}, "mix-continued": {**TINY, "from": "mix"}, "ad": AD}
OUTPUTS = {name: {"system": name} for name in ("mix", "mix-continued")} | {"ad": {"system": "ad", "domain": "bank"}}


def test_everything_is_made_but_what_needs_several_domains(tmp_path: Path) -> None:
    corpora = write_corpora(tmp_path / "corpora")
    (tmp_path / "mine.en").write_text("close the blue loan\n", encoding="utf-8")
    (tmp_path / "mine.de").write_text("schließe: Darlehen (blau)\n", encoding="utf-8")
    path = write_config(
        tmp_path / "single.yaml",
        corpora,
        corpora={"domains": {"bank": [f"{corpora}/bank.{{lang}}"]}},
        subwords={"vocab_size": 55},
        train={**TRAIN, "systems": SYSTEMS},
        translate={"common": {"beam": 2, "max-tokens": 400, "cpu": True, "max-len-b": 12}, "outputs": OUTPUTS},
        evaluate={"tests": {"MINE": f"{tmp_path}/mine.{{lang}}"}, "resamples": 50},
    )
    verb("run")([str(path)])
    work = tmp_path / "work"
    assert not (work / "teacher").exists()
    assert not (work / "analysis" / "distances").exists()
    records = read_records(work / "scores/records.jsonl")
    for output in OUTPUTS:
        assert set(records.domains("chrF")) == {"bank", "AVG", "wAVG", "test:MINE"}
        assert records.of(output, "chrF", "bank")[0].value == records.of(output, "chrF", "AVG")[0].value
    compared = read_comparisons(work / "scores/comparisons.jsonl")
    assert {each.system for each in compared if each.baseline == "mix-continued"} == {"mix", "ad"}
    report = (work / "report/report.md").read_text(encoding="utf-8")
    headings = [line.removeprefix("## ") for line in report.splitlines() if line.startswith("## ")]
    first = ["At a glance", "Side by side", "Quality by domain", "Gains and forgetting", "Your test sets"]
    assert headings == [*first, "Comparisons", "Data", "Training"]
