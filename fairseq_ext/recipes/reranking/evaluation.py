"""Scores of first-best, re-ranked and oracle choices on a test list, and comparisons of them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np
from sacrebleu.metrics.chrf import CHRF

from fairseq_ext.metrics.bootstrap import resampled_sums
from fairseq_ext.metrics.comparison import Comparison, compare_resamples
from fairseq_ext.metrics.corpus_metrics import SacrebleuMetric, bleu_metric
from fairseq_ext.metrics.records import Record, Records
from fairseq_ext.metrics.tables import Column, Table
from fairseq_ext.recipes.report import metric_column
from fairseq_ext.recipes.reranking.bleu import oracle_choice
from fairseq_ext.recipes.reranking.nbest import FIRST_BEST, ORACLE, NBest

ALL = "all"  # the set of all sentences
CHANGED = "changed"
_NOTES = (
    f"{FIRST_BEST}: the first hypothesis. {ORACLE}: the hypotheses of the highest sentence BLEU, or a better choice of "
    "the other rows, then changed one sentence at a time until corpus BLEU gains no more; it knows the references. "
    f"Changed: sentences whose translation is not that of {FIRST_BEST}."
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
    """Score translations and compare them by a paired bootstrap over sentences.

    Args:
        chosen: hypotheses by row, as :func:`choose` chose them.
        references: of the sentences.
        others: other translations by row.
        groups: numbers of sentences by name, to score besides all sentences.
        pairs: rows and their baselines.
        tokenizer: sacrebleu's, for BLEU.
        resamples: R, of the bootstrap.
        seed: of the resamples.
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
                records.append(_record(row, name, metric_name, values[0], len(rows)))
    comparisons = [
        compare_resamples(
            row, baseline, metric, name, scores[metric, row, name] - scores[metric, baseline, name], len(rows)
        )
        for row, baseline in pairs
        for metric in _metrics(tokenizer)
        for name, rows in sets.items()
    ]
    for row, own in texts.items():
        changed = [one != first for one, first in zip(own, texts[FIRST_BEST], strict=True)]
        records.append(_record(row, ALL, CHANGED, statistics.fmean(changed), len(changed)))
    return records, comparisons


def score_tables(records: Records, tokenizer: str, title: str = "{}", notes: Iterable[str] = ()) -> list[Table]:
    """A table for each metric, with a row for each choice and a column for each test set.

    The braces of ``title`` stand for the metric.
    """

    def columns(metric: str) -> list[Column]:
        of = partial(metric_column, records, best=max, beside=[ORACLE])
        return [
            metric_column(records, "Changed", CHANGED, ALL, form=".0%"),
            *(of(group, metric, group) for group in records.domains(metric)),
        ]

    return [
        Table(
            title.format(name),
            "Chosen by",
            records.systems(name),
            columns(name),
            [_NOTES, *notes, f"{name}: {metric.signature}."],
        )
        for name, metric in _metrics(tokenizer).items()
    ]


def _metrics(tokenizer: str) -> dict[str, SacrebleuMetric]:
    return {"BLEU": bleu_metric(tokenizer), "chrF": SacrebleuMetric(CHRF)}


def _record(row: str, group: str, metric: str, value: float, n: int) -> Record:
    return Record(system=row, run=row, domain=group, metric=metric, value=float(value), n=n)
