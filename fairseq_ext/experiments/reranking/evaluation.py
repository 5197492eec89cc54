"""Score first-best, re-ranked and oracle choices from a test list, and compare them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from fairseq_ext.experiments.metrics.bootstrap import resampled_sums
from fairseq_ext.experiments.metrics.comparison import Comparison, compare_resamples
from fairseq_ext.experiments.metrics.corpus_metrics import SacrebleuMetric, bleu_metric
from fairseq_ext.experiments.metrics.records import Record
from fairseq_ext.experiments.reranking.nbest import FIRST_BEST, ORACLE, NBest

ALL = "all"  # set of all sentences
_ORDERS = 4  # longest n-grams of BLEU


def choose(nbest: NBest, counts: np.ndarray, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Choose hypotheses: the first ones, those with the highest weighted scores, and the oracle.

    Shape:
        counts: S×K×10, statistics of BLEU; weights: F by name; result: S by name
    """
    choices = {FIRST_BEST: np.zeros(len(counts), dtype=int)}
    choices |= {name: nbest.best(of_row) for name, of_row in weights.items()}
    return choices | {ORACLE: oracle_choice(counts, nbest.is_hypothesis, list(choices.values()))}


def evaluate(
    texts: Mapping[str, Sequence[str]],
    references: Sequence[str],
    groups: Mapping[str, np.ndarray],
    pairs: Sequence[tuple[str, str]],
    *,
    tokenizer: str,
    resamples: int,
    seed: int,
) -> tuple[list[Record], list[Comparison]]:
    """Score translations by row, and compare pairs of rows with a paired bootstrap over sentences.

    Args:
        texts: translations by row.
        references: one reference per sentence.
        groups: indices of sentences by group, which are scored in addition to the set of all sentences.
        pairs: rows and their baselines.
        tokenizer: sacrebleu tokeniser for BLEU.
        resamples: number of bootstrap resamples.
        seed: random seed of the resamples.
    """
    sets = {ALL: np.arange(len(references)), **groups}
    records: list[Record] = []
    scores: dict[tuple[str, str, str], np.ndarray] = {}  # by metric, row and set: the score, then R resamples (1+R)
    for metric_name, metric in score_metrics(tokenizer).items():
        for row, counts in zip(texts, metric.count(list(texts.values()), references), strict=True):
            for name, rows in sets.items():
                # The same seed draws the same sentences, so resamples are paired.
                sums = resampled_sums(counts[rows], resamples, [seed, *name.encode()])
                values = scores[metric_name, row, name] = np.array([metric.score(draw) for draw in sums.tolist()])
                of = Record(system=row, run=row, domain=name, metric=metric_name, value=float(values[0]), n=len(rows))
                records.append(of)
    comparisons = [
        compare_resamples(
            row, baseline, metric, name, scores[metric, row, name] - scores[metric, baseline, name], len(rows)
        )
        for row, baseline in pairs
        for metric in score_metrics(tokenizer)
        for name, rows in sets.items()
    ]
    return records, comparisons


def score_metrics(tokenizer: str) -> dict[str, SacrebleuMetric]:
    """Return the metrics of translations, BLEU with a tokeniser of sacrebleu."""
    return {"BLEU": bleu_metric(tokenizer), "chrF": SacrebleuMetric(CHRF)}


# BLEU of many choices, from the statistics of each hypothesis


def count_hypotheses(metric: SacrebleuMetric, nbest: NBest, references: Sequence[str]) -> np.ndarray:
    """Compute the metric's statistics of each hypothesis against its reference.

    Shape:
        references: S; result: S×K×M, zero where there is no hypothesis
    """
    most = nbest.features.shape[1]
    # One translation of all sentences for each position in the list, so that references are processed only once.
    places = [[texts[place] if place < len(texts) else "" for texts in nbest.texts] for place in range(most)]
    return np.stack(metric.count(places, references), axis=1) * nbest.is_hypothesis[..., None]


def bleu_of_sums(sums: np.ndarray) -> np.ndarray:
    """Compute corpus BLEU of N sums of statistics, with sacrebleu's default (exponential) smoothing.

    The result is 0 if no n-gram matches or if there are too few words for 4-grams.

    Args:
        sums: length of the hypotheses, length of the references, then the numbers of matching n-grams and of all
            n-grams in the hypotheses, each for n from 1 to 4.

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
    """Compute corpus BLEU of one hypothesis per sentence: S×K×10, S."""
    return float(bleu_of_sums(counts[np.arange(len(choice)), choice].sum(axis=0)[None])[0])


def oracle_choice(counts: np.ndarray, is_hypothesis: np.ndarray, others: Sequence[np.ndarray]) -> np.ndarray:
    """Find a choice that cannot be improved by changing a single sentence and is at least as good as all ``others``.

    The search is hill climbing on corpus BLEU. It starts from the hypotheses with the highest sentence BLEU, or from
    the best of ``others`` if that is better. An exact search is infeasible.

    Shape:
        counts: S×K×10; is_hypothesis: S×K; others, result: S
    """
    starts = [best_sentences(counts, is_hypothesis), *others]
    choice = max(starts, key=lambda start: bleu_of_choice(counts, start)).copy()
    total = counts[np.arange(len(counts)), choice].sum(axis=0)
    gains = True
    while gains:
        gains = False
        for sentence, hypotheses in enumerate(counts):
            sums = total - hypotheses[choice[sentence]] + hypotheses
            scores = np.where(is_hypothesis[sentence], bleu_of_sums(sums), -1)
            best = int(scores.argmax())
            if scores[best] > scores[choice[sentence]]:
                total, choice[sentence], gains = sums[best], best, True
    return choice


def best_sentences(counts: np.ndarray, is_hypothesis: np.ndarray) -> np.ndarray:
    """Choose the hypothesis of each sentence with the highest sentence BLEU (sacrebleu's): S×K×10, S×K → S."""
    metric = SacrebleuMetric(partial(BLEU, effective_order=True))
    scores = np.full(is_hypothesis.shape, -1.0)
    scores[is_hypothesis] = [metric.score(row) for row in counts[is_hypothesis].tolist()]
    return scores.argmax(axis=1)
