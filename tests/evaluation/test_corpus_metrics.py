from __future__ import annotations

import pytest
import sacrebleu
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from fairseq_ext.evaluation.corpus_metrics import SACREBLEU_METRICS, CometMetric, sacrebleu_signatures

REFERENCES = [
    "the court is open today",
    "all rights are reserved here",
    "take two tablets, twice a day",
    "",
    "keep out",
]
HYPOTHESES = ["the court is closed today", "all rights reserved are here", "", "never", "keep out"]


@pytest.mark.parametrize(("name", "kind"), [("chrF", CHRF), ("BLEU", BLEU)])
@pytest.mark.parametrize("subset", [[0, 1, 2, 3, 4], [1, 2], [2], [3, 3, 0]])
def test_sums_give_sacrebleus_corpus_score(name: str, kind: type, subset: list[int]) -> None:
    metric = SACREBLEU_METRICS[name]
    (counts,) = metric.count([HYPOTHESES], REFERENCES)
    assert counts.shape == (5, {"chrF": 18, "BLEU": 10}[name])
    expected = kind().corpus_score([HYPOTHESES[i] for i in subset], [[REFERENCES[i] for i in subset]]).score
    assert metric.score(counts[subset].sum(axis=0).tolist()) == expected


def test_comet_is_the_mean_times_100() -> None:
    metric = CometMetric("wmt20-comet-da", "2.2.7")
    counts = CometMetric.count([0.5, -0.25, 0.1234567])
    assert metric.score(counts.sum(axis=0).tolist()) == pytest.approx(100 * (0.5 - 0.25 + 0.123457) / 3)
    assert metric.signature == "model:wmt20-comet-da|scale:100|version:2.2.7"


def test_signatures_name_the_version() -> None:
    signatures = sacrebleu_signatures()
    assert list(signatures) == ["chrF", "BLEU"]
    assert all(f"version:{sacrebleu.__version__}" in signature for signature in signatures.values())
    assert "tok:13a" in signatures["BLEU"]
    assert "nc:6" in signatures["chrF"]
