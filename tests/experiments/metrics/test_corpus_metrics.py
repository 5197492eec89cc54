import pytest
import sacrebleu
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from fairseq_ext.experiments.metrics.corpus_metrics import METRICS, CometMetric, text_metrics

REFERENCES = [
    "the court is open today",
    "all rights are reserved here",
    "take two tablets, twice a day",
    "",
    "keep out",
]
HYPOTHESES = ["the court is closed today", "all rights reserved are here", "", "never", "keep out"]


KINDS = {"chrF": (CHRF, {}, 18), "chrF++": (CHRF, {"word_order": 2}, 24), "BLEU": (BLEU, {}, 10), "TER": (TER, {}, 2)}


@pytest.mark.parametrize("name", text_metrics(METRICS))
@pytest.mark.parametrize("subset", [[0, 1, 2, 3, 4], [1, 2], [2], [3, 3, 0]])
def test_sums_give_sacrebleus_corpus_score(name: str, subset: list[int]) -> None:
    kind, options, width = KINDS[name]
    metric = METRICS[name].text
    assert metric is not None
    (counts,) = metric.count([HYPOTHESES], REFERENCES)
    assert counts.shape == (5, width)
    expected = kind(**options).corpus_score([HYPOTHESES[i] for i in subset], [[REFERENCES[i] for i in subset]]).score
    assert metric.score(counts[subset].sum(axis=0).tolist()) == expected


def test_comet_is_the_mean_times_100() -> None:
    counts = CometMetric.count([0.5, -0.25, 0.1234567])
    score = CometMetric("wmt20-comet-da", "2.2.7").score(counts.sum(axis=0).tolist())
    assert score == pytest.approx(100 * (0.5 - 0.25 + 0.123457) / 3)


def test_metrics_are_in_order_of_trust_and_a_gain_is_positive_when_better() -> None:
    assert list(text_metrics(["TER", "BLEU", "COMET", "chrF++"])) == ["chrF++", "BLEU", "TER"]
    assert METRICS["BLEU"].gain(31.0, over=30.0) == 1.0
    assert METRICS["TER"].gain(31.0, over=30.0) == -1.0
    assert METRICS["TER"].best([60.0, 59.5, 61.0]) == 59.5


@pytest.mark.parametrize(
    ("lang", "tokenizer"), [("pl", "13a"), ("zh_Hans", "zh"), ("yue", "zh"), ("ja", "char"), ("tha_Thai", "char")]
)
def test_words_without_spaces_are_counted_by_characters(lang: str, tokenizer: str) -> None:
    metrics = text_metrics(METRICS, lang)
    assert list(metrics) == list(text_metrics(METRICS))
    assert f"tok:{tokenizer}|" in metrics["BLEU"].signature
    assert f"version:{sacrebleu.__version__}" in metrics["BLEU"].signature
    assert ("asian:yes" in metrics["TER"].signature) == (tokenizer != "13a")
    assert metrics["chrF"] is text_metrics()["chrF"]
