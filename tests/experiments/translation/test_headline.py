"""The first sentences of a report name nobody as better who is not shown to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ext.experiments.translation.headline import headline
from fairseq_ext.experiments.translation.results import Design, Results
from tests.experiments.translation import made_up


@pytest.mark.parametrize(
    ("gains", "p", "said"),
    [
        (
            {"ad-classifier": 1.5, "gad": 2.5},
            0.01,
            "Shown to be better (p\u00a0<\u00a00.05): gad +2.5, ad-classifier +1.5.",
        ),
        ({"gad": 2.5}, 0.2, "No difference shown: gad +2.5."),
        ({"gad": -2.5}, 0.01, "Shown to be worse (p\u00a0<\u00a00.05): gad −2.5."),
        ({"gad": 2.5}, None, "Not tested: gad +2.5."),
    ],
)
def test_outputs_stand_under_what_is_shown_of_them(
    tmp_path: Path, gains: dict[str, float], p: float | None, said: str
) -> None:
    scores = made_up.make_scores(gains={"mix": 0.0, "ad-oracle": 3.0, **gains})
    for output in scores["outputs"].values():
        output["chrF"]["AVG"]["p"] = p
    found = headline(Results(scores=scores), Design.of(made_up.make_experiment(tmp_path)))
    assert "against mix (4" in found
    assert f". {said} Outputs that are told the domain are left out." in found
