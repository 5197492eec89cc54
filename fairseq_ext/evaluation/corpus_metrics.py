"""Metrics as sums: what is counted in each sentence, and the corpus score that the sums of the counts give.

One count of a sentence then serves the score of its test set, of any subset and of every bootstrap resample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

# COMET's sentence scores as whole numbers, whose sums do not depend on their order.
_COMET_UNIT = 1e-6


class CorpusMetric(Protocol):
    """A metric whose corpus score is a function of the sums of S numbers counted in each sentence."""

    @property
    def signature(self) -> str:
        """All that the score depends on besides the text."""

    def score(self, sums: Sequence[float]) -> float:
        """The corpus score, from 0 to 100 for perfect, of S sums."""


class SacrebleuMetric:
    """BLEU or chrF, computed by sacrebleu with its defaults, or with others that ``kind`` binds.

    Its statistics by sentence are not public, but are what its own significance tests are made of; its version is
    pinned, and a test compares with the public ``corpus_score``. The public test would not do, see
    :func:`fairseq_ext.evaluation.bootstrap.p_value`.
    """

    def __init__(self, kind: Callable[..., BLEU | CHRF]):
        self._kind = kind
        self._scorer = kind()

    @property
    def signature(self) -> str:
        scorer = self._kind()
        scorer.corpus_score(["a"], [["a"]])
        return str(scorer.get_signature())

    def count(self, hypotheses: Sequence[Sequence[str]], references: Sequence[str]) -> list[np.ndarray]:
        """Count in each of several translations of N sentences.

        Shape:
            result: an N×S array a translation
        """
        scorer = self._kind(references=[list(references)])
        return [np.array(scorer._extract_corpus_statistics(lines, None), dtype=np.int64) for lines in hypotheses]

    def score(self, sums: Sequence[float]) -> float:
        # sacrebleu says they are whole numbers, which they are, but not of type int.
        statistics: Any = list(sums)
        return float(self._scorer._compute_score_from_stats(statistics).score)


class CometMetric:
    """COMET: the mean of the sentences' scores, times 100 as in Klimaszewski et al. (2023), footnote 5."""

    def __init__(self, model: str, version: str):
        self.signature = f"model:{model}|scale:100|version:{version}"

    @staticmethod
    def count(sentence_scores: Sequence[float]) -> np.ndarray:
        """Turn the scores of N sentences into counts.

        Shape:
            result: N×2
        """
        scores = np.asarray(sentence_scores, dtype=np.float64)
        return np.stack([np.rint(scores / _COMET_UNIT), np.ones(len(scores))], axis=1).astype(np.int64)

    def score(self, sums: Sequence[float]) -> float:
        total, number = sums
        return 100 * _COMET_UNIT * total / number


SACREBLEU_METRICS = {"chrF": SacrebleuMetric(CHRF), "BLEU": SacrebleuMetric(BLEU)}


def sacrebleu_signatures() -> dict[str, str]:
    """sacrebleu's signatures, without which scores cannot be compared."""
    return {name: metric.signature for name, metric in SACREBLEU_METRICS.items()}
