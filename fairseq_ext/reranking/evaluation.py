"""What re-ranking gains on a test list: scores of first-best, re-ranked and oracle choices, and comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from sacrebleu.metrics.chrf import CHRF

from fairseq_ext.metrics.bootstrap import resampled_sums
from fairseq_ext.metrics.corpus_metrics import SacrebleuMetric, bleu_metric
from fairseq_ext.report.comparison import Comparison, compare_resamples
from fairseq_ext.report.measurements import Record, Records
from fairseq_ext.report.tables import Column, Table, Value
from fairseq_ext.reranking.nbest import FIRST_BEST, ORACLE, NBest
from fairseq_ext.reranking.oracle import oracle_choice

ALL = "all"  # the set of all sentences
CHANGED = "changed"
_NOTES = (
    f"{FIRST_BEST}: the first hypothesis. {ORACLE}: the hypotheses of the highest sentence BLEU, or a better choice of "
    "the other rows, then changed one sentence at a time until corpus BLEU gains no more; it knows the references. "
    f"Changed: sentences whose translation is not that of {FIRST_BEST}."
)

Scores = Mapping[str, Mapping[str, np.ndarray]]  # by row and set: the score and that of each of R resamples, 1+R


def choose(nbest: NBest, counts: np.ndarray, weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A hypothesis of every sentence: the list's first, by weights of the list's features, and the oracle's.

    Args:
        nbest: the test list.
        counts: what BLEU counts in its hypotheses.
        weights: by name.

    Shape:
        counts: S×K×10; weights: F; result: S by name
    """
    choices = {FIRST_BEST: np.zeros(len(counts), dtype=int)}
    choices |= {name: nbest.best(own) for name, own in weights.items()}
    return choices | {ORACLE: oracle_choice(counts, nbest.is_hypothesis, list(choices.values()))}


def with_others(chosen: Mapping[str, list[str]], others: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Translations by row: the first hypotheses, those from elsewhere, then the re-ranked ones and the oracle's."""
    return {FIRST_BEST: chosen[FIRST_BEST], **others, **chosen}


def evaluate(
    texts: Mapping[str, Sequence[str]],
    references: Sequence[str],
    *,
    groups: Mapping[str, np.ndarray],
    pairs: Sequence[tuple[str, str]],
    tokenizer: str,
    resamples: int,
    seed: int,
) -> tuple[list[Record], list[Comparison]]:
    """Score translations and compare them by a paired bootstrap over sentences.

    Args:
        texts: translations by row, with those of ``first-best``.
        references: of the sentences.
        groups: numbers of sentences by name, to score besides all sentences.
        pairs: rows and their baselines.
        tokenizer: sacrebleu's, for BLEU.
        resamples: R, of the bootstrap.
        seed: of the resamples.
    """
    sets = {ALL: np.arange(len(references)), **groups}
    scores = {
        name: _score(metric, texts, references, sets, resamples, seed) for name, metric in _metrics(tokenizer).items()
    }
    records = [*_score_records(scores, sets), *_change_records(texts)]
    return records, [*_comparisons(scores, sets, pairs)]


def score_tables(records: Records, tokenizer: str, title: str = "{}", notes: Iterable[str] = ()) -> list[Table]:
    """A table for each metric: a row for each way to choose, a column for each set.

    Args:
        records: of :func:`evaluate`.
        tokenizer: sacrebleu's, for BLEU.
        title: of a table, with braces for the metric.
        notes: below every table.
    """
    return [
        Table(
            title.format(name),
            "Chosen by",
            records.systems(name),
            [_change_column(records), *(_score_column(records, name, group) for group in records.domains(name))],
            [_NOTES, *notes, f"{name}: {metric.signature}."],
        )
        for name, metric in _metrics(tokenizer).items()
    ]


def _metrics(tokenizer: str) -> dict[str, SacrebleuMetric]:
    return {"BLEU": bleu_metric(tokenizer), "chrF": SacrebleuMetric(CHRF)}


def _score(
    metric: SacrebleuMetric,
    texts: Mapping[str, Sequence[str]],
    references: Sequence[str],
    sets: Mapping[str, np.ndarray],
    resamples: int,
    seed: int,
) -> Scores:
    counted = zip(texts, metric.count(list(texts.values()), references), strict=True)

    def scores_of(counts: np.ndarray, name: str) -> np.ndarray:
        # The same seed draws the same sentences: the resamples are paired.
        sums = resampled_sums(counts[sets[name]], resamples, [seed, *name.encode()])
        return np.array([metric.score(row) for row in sums.tolist()])

    return {row: {name: scores_of(counts, name) for name in sets} for row, counts in counted}


def _score_records(scores: Mapping[str, Scores], sets: Mapping[str, np.ndarray]) -> Iterator[Record]:
    for metric, by_row in scores.items():
        for row, by_set in by_row.items():
            for name, values in by_set.items():
                n = len(sets[name])
                yield Record(system=row, run=row, domain=name, metric=metric, value=float(values[0]), n=n)


def _change_records(texts: Mapping[str, Sequence[str]]) -> Iterator[Record]:
    first_best = texts[FIRST_BEST]
    for row, own in texts.items():
        share = float(np.mean([one != first for one, first in zip(own, first_best, strict=True)]))
        yield Record(system=row, run=row, domain=ALL, metric=CHANGED, value=share, n=len(own))


def _comparisons(
    scores: Mapping[str, Scores], sets: Mapping[str, np.ndarray], pairs: Sequence[tuple[str, str]]
) -> Iterator[Comparison]:
    for row, baseline in pairs:
        for metric, by_row in scores.items():
            for name, rows in sets.items():
                gaps = by_row[row][name] - by_row[baseline][name]
                yield compare_resamples(row, baseline, metric, name, gaps, len(rows))


def _change_column(records: Records) -> Column:
    return Column("Changed", lambda row: records.mean(row, CHANGED, ALL), ".0%")


def _score_column(records: Records, metric: str, group: str) -> Column:
    def value(row: str) -> Value:
        mean = records.mean(row, metric, group)
        # As text: it is never the best, since no system can choose like it.
        return f"{mean.value:.2f}" if mean and row == ORACLE else mean

    return Column(group, value, best=max)
