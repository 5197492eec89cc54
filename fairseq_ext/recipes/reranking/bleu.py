"""BLEU of many choices of hypotheses, from sacrebleu's statistics of each hypothesis.

The oracle approximates the best BLEU of any choice, given the references.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from fairseq_ext.metrics.corpus_metrics import SacrebleuMetric
from fairseq_ext.recipes.reranking.nbest import NBest

# sacrebleu has more; they need further packages, or fetch models.
_ORDERS = 4


def count_hypotheses(metric: SacrebleuMetric, nbest: NBest, references: Sequence[str]) -> np.ndarray:
    """The metric's statistics of every hypothesis against its reference.

    Shape:
        references: S; result: S×K×M, zero where there is no hypothesis
    """
    most = nbest.features.shape[1]
    # A translation of all sentences by each place in the list, so that references are only read once.
    places = [[own[place] if place < len(own) else "" for own in nbest.texts] for place in range(most)]
    return np.stack(metric.count(places, references), axis=1) * nbest.is_hypothesis[..., None]


def bleu_of_sums(sums: np.ndarray) -> np.ndarray:
    """Corpus BLEU of N sums of counts, with sacrebleu's default smoothing (exponential).

    The result is 0 without any match, and for too few words for 4-grams.

    Args:
        sums: length of the hypotheses and of the references, then matching and all n-grams, for n from 1 to 4.

    Shape:
        sums: N×10; result: N, from 0 to 100
    """
    sums = sums.astype(np.float64)
    length, reference_length = sums[:, 0], sums[:, 1]
    correct, total = sums[:, 2 : 2 + _ORDERS], sums[:, 2 + _ORDERS :]
    smoothed = np.where(correct > 0, correct, 0.5 ** np.cumsum(correct == 0, axis=1))
    can_score = (total > 0).all(axis=1) & (correct > 0).any(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precisions = np.log(100 * smoothed / total).mean(axis=1)
        brevity = np.minimum(0, 1 - reference_length / length)
        return np.where(can_score, np.exp(precisions + brevity), 0.0)


def bleu_of_choice(counts: np.ndarray, choice: np.ndarray) -> float:
    """Corpus BLEU of one hypothesis for each sentence: S×K×10, S."""
    return float(bleu_of_sums(counts[np.arange(len(choice)), choice].sum(axis=0)[None])[0])


def oracle_choice(counts: np.ndarray, is_hypothesis: np.ndarray, others: Sequence[np.ndarray]) -> np.ndarray:
    """A choice that no change of a single sentence improves, at least as good as each of ``others``.

    Hill climbing on corpus BLEU from the best sentences by sentence BLEU, or from a better one of ``others``. An
    exact search is infeasible.

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
