"""Scores of first-best, re-ranked and oracle choices on a test list, and comparisons of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from fairseq_ext.metrics.bootstrap import resampled_sums
from fairseq_ext.metrics.comparison import Comparison, compare_resamples
from fairseq_ext.metrics.corpus_metrics import SacrebleuMetric, bleu_metric
from fairseq_ext.metrics.records import Record, Records
from fairseq_ext.metrics.tables import Table
from fairseq_ext.recipes.report import metric_column
from fairseq_ext.recipes.reranking.nbest import FIRST_BEST, ORACLE, NBest

ALL = "all"  # the set of all sentences
_ORDERS = 4  # of n-grams that BLEU counts
_NOTES = (
    f"{FIRST_BEST}: the first hypothesis. {ORACLE}: the hypotheses of the highest sentence BLEU, or a better choice of "
    "the other rows, then changed one sentence at a time until corpus BLEU gains no more; it knows the references."
)


def choose(nbest: NBest, counts: np.ndarray, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Choose hypotheses: the first ones, those with the highest weighted scores, and the oracle.

    Shape:
        counts: S×K×10, what BLEU counts; weights: F by name; result: S by name
    """
    choices = {FIRST_BEST: np.zeros(len(counts), dtype=int)}
    choices |= {name: nbest.best(own) for name, own in weights.items()}
    return choices | {ORACLE: oracle_choice(counts, nbest.is_hypothesis, list(choices.values()))}


def evaluate(
    chosen: Mapping[str, Sequence[str]],
    references: Sequence[str],
    *,
    others: Mapping[str, Sequence[str]],
    groups: Mapping[str, np.ndarray],
    pairs: Sequence[tuple[str, str]],
    tokenizer: str,
    resamples: int,
    seed: int,
) -> tuple[list[Record], list[Comparison]]:
    """Score translations by row, and compare pairs of rows by a paired bootstrap over sentences.

    ``chosen`` are those of :func:`choose`, ``others`` any besides; ``groups`` are numbers of sentences by name, which
    are scored besides all sentences.
    """
    texts = {FIRST_BEST: chosen[FIRST_BEST], **others, **chosen}
    sets = {ALL: np.arange(len(references)), **groups}
    records: list[Record] = []
    scores: dict[tuple[str, str, str], np.ndarray] = {}  # by metric, row and set the score, then R resamples: 1+R
    for metric_name, metric in _metrics(tokenizer).items():
        for row, counts in zip(texts, metric.count(list(texts.values()), references), strict=True):
            for name, rows in sets.items():
                # The same seed draws the same sentences: the resamples are paired.
                sums = resampled_sums(counts[rows], resamples, [seed, *name.encode()])
                values = scores[metric_name, row, name] = np.array([metric.score(each) for each in sums.tolist()])
                of = Record(system=row, run=row, domain=name, metric=metric_name, value=float(values[0]), n=len(rows))
                records.append(of)
    comparisons = [
        compare_resamples(
            row, baseline, metric, name, scores[metric, row, name] - scores[metric, baseline, name], len(rows)
        )
        for row, baseline in pairs
        for metric in _metrics(tokenizer)
        for name, rows in sets.items()
    ]
    return records, comparisons


def score_tables(records: Records, tokenizer: str, title: str = "{}", notes: Iterable[str] = ()) -> list[Table]:
    """A table for each metric, which ``title`` has braces for, with rows of choices and columns of test sets."""
    return [
        Table(
            title.format(name),
            "Chosen by",
            records.systems(name),
            [metric_column(records, group, name, group, best=max, beside=[ORACLE]) for group in records.domains(name)],
            [_NOTES, *notes, f"{name}: {metric.signature}."],
        )
        for name, metric in _metrics(tokenizer).items()
    ]


def _metrics(tokenizer: str) -> dict[str, SacrebleuMetric]:
    return {"BLEU": bleu_metric(tokenizer), "chrF": SacrebleuMetric(CHRF)}


# BLEU of many choices, from the statistics of each hypothesis


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
