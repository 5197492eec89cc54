"""The report of a tiny real run: its records to the last digit, and one rendered page."""

from __future__ import annotations

import pytest

from fairseq_ext.engine.steps import run_steps
from fairseq_ext.recipes.recurrent.config import Recurrent
from fairseq_ext.recipes.recurrent.report import GROUPS, PAPER, curves, report
from fairseq_ext.recipes.report import VALID_BY_EPOCH
from fairseq_ext.report.measurements import Record, Records
from tests.recipes.recurrent.small_experiment import write_word_lm_experiment
from tests.recorded import restore

# Perplexity by run and set.
GOLDEN = {
    ("dagru@1", "test"): 3.121930323153055,
    ("dagru@1", "valid"): 2.6192783206263988,
    ("dagru@2", "test"): 3.2542483334127486,
    ("dagru@2", "valid"): 2.5822326467906014,
    ("fixed", "test"): 5.436314723122715,
    ("fixed", "valid"): 3.851309716274739,
    ("kneser-ney", "test"): 2.611995316391127,
    ("kneser-ney", "valid"): 2.305923113818338,
    ("standard", "test"): 4.273966132744356,
    ("standard", "valid"): 3.1436689453481157,
}


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Recurrent:
    found: Recurrent = restore("recurrent", write_word_lm_experiment(tmp_path_factory.mktemp("words")))
    run_steps([report(found)])
    return found


def test_every_combination_of_the_paper_is_in_a_panel() -> None:
    assert {*PAPER} - {"kneser-ney"} == {name for members in GROUPS.values() for name in members}
    records = [
        Record(system=name, run=name, domain=str(epoch), metric=VALID_BY_EPOCH, value=value)
        for name in PAPER
        for epoch, value in ((1, 1000.0), (2, 100.0), (3, 90.0))
    ]
    [figure] = curves(Records(records), {name: name for name in PAPER if name != "kneser-ney"})
    # The standard model is in every panel; the first epoch is too high to be drawn.
    assert figure.svg.count(">none<") == len(GROUPS)
    assert "1000" not in figure.svg
