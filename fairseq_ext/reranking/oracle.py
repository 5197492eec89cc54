"""The oracle: about the best BLEU that any choice among the hypotheses has, knowing the references."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from fairseq_ext.metrics.corpus_metrics import SacrebleuMetric
from fairseq_ext.reranking.bleu_counts import bleu_of_sums
from fairseq_ext.reranking.tuning import bleu_of_choice


def oracle_choice(counts: np.ndarray, is_hypothesis: np.ndarray, others: Sequence[np.ndarray]) -> np.ndarray:
    """A choice that no change of a single sentence makes better, in corpus BLEU.

    It starts from the hypotheses of the highest sentence BLEU, or from another choice that is better as a corpus, and
    changes sentences one after another while that gains. The highest of all choices may be higher, but finding
    it would take forever.

    Args:
        counts: what BLEU counts in the hypotheses.
        is_hypothesis: which rows are.
        others: choices that the oracle must not be below.

    Shape:
        counts: S×K×10; is_hypothesis: S×K; others, result: S
    """
    starts = [best_sentences(counts, is_hypothesis), *others]
    choice = max(starts, key=lambda start: bleu_of_choice(counts, start)).copy()
    total = counts[np.arange(len(counts)), choice].sum(axis=0)
    gains = True
    while gains:
        gains = False
        for sentence, own in enumerate(counts):
            sums = total - own[choice[sentence]] + own
            scores = np.where(is_hypothesis[sentence], bleu_of_sums(sums), -1)
            best = int(scores.argmax())
            if scores[best] > scores[choice[sentence]]:
                total, choice[sentence], gains = sums[best], best, True
    return choice


def best_sentences(counts: np.ndarray, is_hypothesis: np.ndarray) -> np.ndarray:
    """The hypothesis of each sentence with the highest sentence BLEU, as sacrebleu computes it: S×K×10, S×K → S."""
    metric = SacrebleuMetric(partial(BLEU, effective_order=True))
    scores = np.full(is_hypothesis.shape, -1.0)
    scores[is_hypothesis] = [metric.score(row) for row in counts[is_hypothesis].tolist()]
    return scores.argmax(axis=1)
