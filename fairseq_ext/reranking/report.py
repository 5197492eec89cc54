"""What re-ranking gains on a test list: first-best, each file of weights, the oracle; with significance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from sacrebleu.metrics.chrf import CHRF

from fairseq_ext.metrics.bootstrap import SIGNIFICANT, format_p, is_significant, p_value, resampled_sums
from fairseq_ext.metrics.corpus_metrics import SacrebleuMetric, bleu_metric
from fairseq_ext.report.score_tables import MARK
from fairseq_ext.reranking.nbest import NBest
from fairseq_ext.reranking.oracle import oracle_choice

FIRST_BEST, ORACLE, ALL = "first-best", "oracle", "all"

Columns = Mapping[str, np.ndarray]  # by group of sentences, the score and that of each of R resamples: 1+R


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


def compare(
    nbest: NBest,
    references: Sequence[str],
    choices: Mapping[str, np.ndarray],
    *,
    others: Mapping[str, Sequence[str]],
    groups: Mapping[str, np.ndarray],
    tokenizer: str,
    resamples: int,
    seed: int,
) -> dict[str, Any]:
    """All figures of the report.

    Args:
        nbest: the test list.
        references: of its sentences.
        choices: by name, as :func:`choose` makes them.
        others: translations from elsewhere, by name.
        groups: numbers of sentences by name, that figures are wanted of besides those of all.
        tokenizer: sacrebleu's, for BLEU.
        resamples: R, of the bootstrap.
        seed: of the resamples.
    """
    metrics = {"BLEU": bleu_metric(tokenizer), "chrF": SacrebleuMetric(CHRF)}
    chosen = {name: nbest.chosen(choice) for name, choice in choices.items()}
    first_best = chosen.pop(FIRST_BEST)
    texts: dict[str, Sequence[str]] = {FIRST_BEST: first_best, **others, **chosen}
    groups = {ALL: np.arange(len(references)), **groups}
    columns = {
        name: score_systems(metric, texts, references, groups, resamples, seed) for name, metric in metrics.items()
    }
    return {
        "sentences": len(references),
        "hypotheses": round(float(nbest.is_hypothesis.sum(axis=1).mean()), 2),
        "groups": {name: len(rows) for name, rows in groups.items()},
        "resamples": resamples,
        "signatures": {name: metric.signature for name, metric in metrics.items()},
        "systems": {
            name: {
                "changed": round(float(np.mean([one != first for one, first in zip(own, first_best, strict=True)])), 4),
                **{metric: scores_of(columns[metric][name]) for metric in metrics},
            }
            for name, own in texts.items()
        },
        "comparisons": [
            {"system": one, "than": other}
            | {metric: differences(found[one], found[other]) for metric, found in columns.items()}
            for other, one in combinations([name for name in texts if name != ORACLE], 2)
        ],
    }


def score_systems(
    metric: SacrebleuMetric,
    texts: Mapping[str, Sequence[str]],
    references: Sequence[str],
    groups: Mapping[str, np.ndarray],
    resamples: int,
    seed: int,
) -> dict[str, Columns]:
    """Scores of several translations, on the sentences of each group and on resamples of them."""
    counted = metric.count(list(texts.values()), references)
    found: dict[str, dict[str, np.ndarray]] = {name: {} for name in texts}
    for group, rows in groups.items():
        for name, counts in zip(texts, counted, strict=True):
            # The same seed draws the same sentences: the resamples are paired.
            sums = resampled_sums(counts[rows], resamples, [seed, *group.encode()])
            found[name][group] = np.array([metric.score(row) for row in sums.tolist()])
    return dict(found)


def scores_of(columns: Columns) -> dict[str, float]:
    """The plain score by group."""
    return {group: round(float(values[0]), 2) for group, values in columns.items()}


def differences(one: Columns, other: Columns) -> dict[str, dict[str, float | None]]:
    """By group how much higher the first is, and how likely chance makes it so, see :func:`p_value`."""
    found = {}
    for group, values in one.items():
        gaps = values - other[group]
        found[group] = {"difference": round(float(gaps[0]), 2), "p": p_value(gaps[1:])}
    return found


def format_report(record: Mapping[str, Any]) -> str:
    """The figures as Markdown."""
    groups = list(record["groups"])
    parts = [f"{record['sentences']} sentences, {record['hypotheses']:g} hypotheses each on average."]
    for metric in record["signatures"]:
        rows = [
            [name, f"{100 * system['changed']:.0f} %", *_scores(record, name, metric, groups)]
            for name, system in record["systems"].items()
        ]
        parts.append(_table([metric, "changed", *groups], rows))
    parts.append(
        _table(
            ["on all sentences", *(f"{metric} {part}" for metric in record["signatures"] for part in ("+", "p"))],
            [[f"{c['system']} over {c['than']}", *_comparison(c, record)] for c in record["comparisons"]],
        )
    )
    parts.append("\n".join(_notes(record)))
    return "\n\n".join(parts) + "\n"


def _scores(record: Mapping[str, Any], name: str, metric: str, groups: Sequence[str]) -> list[str]:
    """The cells of a system's row, marked where it differs significantly from first-best."""
    against = next((c for c in record["comparisons"] if (c["system"], c["than"]) == (name, FIRST_BEST)), None)
    cells = []
    for group in groups:
        is_marked = against is not None and is_significant(against[metric][group]["p"])
        cells.append(f"{record['systems'][name][metric][group]:.2f}{MARK if is_marked else ''}")
    return cells


def _comparison(comparison: Mapping[str, Any], record: Mapping[str, Any]) -> list[str]:
    cells = []
    for metric in record["signatures"]:
        found = comparison[metric][ALL]
        cells += [f"{found['difference']:+.2f}", format_p(found["p"])]
    return cells


def _notes(record: Mapping[str, Any]) -> list[str]:
    return [
        f"{MARK} p < {SIGNIFICANT} against {FIRST_BEST}: paired bootstrap, two-sided, {record['resamples']} resamples. "
        "changed: sentences whose translation is not that of first-best.",
        f"{ORACLE}: the hypotheses of the highest sentence BLEU, or a better choice of the rows above, then changed "
        "one sentence at a time until corpus BLEU gains no more.",
        *(f"{metric}: `{signature}`." for metric, signature in record["signatures"].items()),
    ]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
