"""Corpus-level metrics as functions of sums of sentence-level counts.

The counts are computed once and used for the whole test set, subsets and bootstrap resamples. To add a metric, add an
entry to :data:`METRICS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from fairseq_ext.text.languages import has_spaces, is_chinese

# sacrebleu's default, for languages written with spaces.
USUAL_TOKENIZER = "13a"
# COMET's sentence scores are converted to integers of this unit, so that sums do not depend on the order.
_COMET_UNIT = 1e-6


class SacrebleuMetric:
    """A sacrebleu metric, with default options or the options bound in ``kind``.

    sacrebleu's sentence-level statistics are a private API. Its version is pinned, and a test compares results with
    the public ``corpus_score``.
    """

    def __init__(self, kind: Callable[..., BLEU | CHRF | TER]):
        self._kind = kind
        self._scorer = kind()

    @property
    def signature(self) -> str:
        """sacrebleu's signature: options and version that the score depends on."""
        scorer = self._kind()
        scorer.corpus_score(["a"], [["a"]])
        return str(scorer.get_signature())

    def count(self, hypotheses: Sequence[Sequence[str]], references: Sequence[str]) -> list[np.ndarray]:
        """Compute sentence-level statistics of several translations of N sentences.

        Shape:
            result: an N×S array of integers for each translation
        """
        scorer = self._kind(references=[list(references)])
        return [np.array(scorer._extract_corpus_statistics(lines, None), dtype=np.int64) for lines in hypotheses]

    def score(self, sums: Sequence[float]) -> float:
        """Compute the corpus score from S sums, in percent."""
        # sacrebleu's annotation is int; the sums are integers of another type.
        statistics: Any = list(sums)
        return float(self._scorer._compute_score_from_stats(statistics).score)


class CometMetric:
    """COMET: mean sentence score times 100, as in Klimaszewski et al. (2023), footnote 5."""

    def __init__(self, model: str, version: str):
        self.signature = f"model:{model}|scale:100|version:{version}"

    @staticmethod
    def count(sentence_scores: Sequence[float]) -> np.ndarray:
        """Convert the scores of N sentences to counts.

        Shape:
            result: N×2
        """
        scores = np.asarray(sentence_scores, dtype=np.float64)
        return np.stack([np.rint(scores / _COMET_UNIT), np.ones(len(scores))], axis=1).astype(np.int64)

    def score(self, sums: Sequence[float]) -> float:
        """Compute the mean sentence score times 100."""
        total, number = sums
        return 100 * _COMET_UNIT * total / number


CorpusMetric = SacrebleuMetric | CometMetric


@dataclass(frozen=True)
class Metric:
    """An entry of :data:`METRICS`."""

    text: SacrebleuMetric | None  # computes the metric from text; None for COMET
    is_error: bool = False  # whether lower is better

    @property
    def best(self) -> Callable[..., Any]:
        """The function that selects the best score: ``min`` or ``max``."""
        return min if self.is_error else max

    def gain(self, score: float, over: float) -> float:
        """Return the improvement of a score over another; negative if it is worse."""
        return over - score if self.is_error else score - over


# Most reliable first. COMET, chrF and BLEU follow Kocmi et al. (2021); we chose the positions of chrF++ and TER.
METRICS = {
    "COMET": Metric(None),
    "chrF": Metric(SacrebleuMetric(CHRF)),
    "chrF++": Metric(SacrebleuMetric(partial(CHRF, word_order=2))),
    "BLEU": Metric(SacrebleuMetric(BLEU)),
    "TER": Metric(SacrebleuMetric(TER), is_error=True),
}
TextMetric = Literal["chrF", "chrF++", "BLEU", "TER"]  # those that need only text
DEFAULT_METRICS: tuple[TextMetric, ...] = ("chrF", "BLEU")
_ASIAN_TER = partial(TER, normalized=True, asian_support=True)


def text_metrics(names: Iterable[str] = DEFAULT_METRICS, lang: str = "en") -> dict[str, SacrebleuMetric]:
    """Return the named metrics that need only text, in the order of :data:`METRICS`.

    Args:
        names: names of metrics.
        lang: language of the translations. BLEU and TER count characters in languages without spaces between words.
    """
    chosen = set(names)
    special = (
        {} if has_spaces(lang) else {"BLEU": bleu_metric(bleu_tokenizer(lang)), "TER": SacrebleuMetric(_ASIAN_TER)}
    )
    return {name: special.get(name, metric.text) for name, metric in METRICS.items() if metric.text and name in chosen}


def bleu_tokenizer(lang: str) -> str:
    """Return sacrebleu's tokeniser for a language; only tokenisers without additional dependencies are used."""
    return USUAL_TOKENIZER if has_spaces(lang) else "zh" if is_chinese(lang) else "char"


def bleu_metric(tokenizer: str) -> SacrebleuMetric:
    """Create BLEU with one of sacrebleu's tokenisers."""
    return SacrebleuMetric(partial(BLEU, tokenize=tokenizer))
