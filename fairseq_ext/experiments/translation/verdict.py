"""What an experiment says about deployment: how good translations are, in words, and which system to deploy, if any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fairseq_ext.experiments.translation.comparisons import Comparison
from fairseq_ext.experiments.translation.results import Design, Results
from fairseq_ext.metrics.bootstrap import SIGNIFICANT, is_significant
from fairseq_ext.metrics.corpus_metrics import METRICS
from fairseq_ext.report.page import signed

_AVERAGE = "AVG"
_NOT_USABLE = "not usable: most sentences do not say what the source says"
# By the upper end of a range of BLEU and of chrF. A rule of thumb, which BLEU's users share; both differ by language
# and by text.
_IN_WORDS = (
    (10, 30, _NOT_USABLE),
    (20, 42, "the topic can be told, the meaning often not: not for publication, hardly as a draft"),
    (30, 53, "the meaning is mostly clear, with many errors: a draft to be corrected"),
    (40, 62, "understandable to good: a draft that needs less correction"),
    (101, 101, "good"),
)


def in_words(bleu: float | None, chrf: float | None) -> str | None:
    """How good translations with such scores are to a reader; None without a score."""
    if bleu is not None:
        return next(words for limit, _, words in _IN_WORDS if bleu < limit)
    if chrf is not None:
        return next(words for _, limit, words in _IN_WORDS if chrf < limit)
    return None


def quality_of(results: Results, output: str) -> str | None:
    """:func:`in_words` of an output's average over the domains."""
    return in_words(*(results.records.mean(output, metric, _AVERAGE) for metric in ("BLEU", "chrF")))


def summary(results: Results, design: Design, warnings: Sequence[str]) -> str:
    """The best system that needs no domain, its quality in words, and the warnings."""
    candidates = _candidates(results, design)
    if not candidates:
        return "Nothing has been scored yet."
    best = _best(results, candidates)
    means = {metric: _mean(results, best, metric) for metric in results.metrics}
    scores = [f"{metric} {mean:.1f}" for metric, mean in means.items() if mean is not None]
    words = quality_of(results, best)
    quality = f": {words}" if words else ""
    parts = [f"The best system that needs no domain is {best}, with {', '.join(scores)}{quality}."]
    return " ".join([*parts, *(f"Warning: {warning}." for warning in warnings)])


def recommend(results: Results, design: Design, warnings: Sequence[str]) -> str | None:
    """One line: which system to deploy, or none yet, and why; None where nothing has been scored.

    Args:
        results: what has been measured.
        design: what the experiment file says.
        warnings: about base models that have not converged.
    """
    candidates = _candidates(results, design)
    if not candidates:
        return None
    best = _best(results, candidates)
    if quality_of(results, best) == _NOT_USABLE:
        return f"Deploy nothing yet: {best} is the best system, and it is {_NOT_USABLE}. Train longer, or on more text."
    if warnings:
        return f"Deploy nothing yet: {warnings[0]}."
    plain = {name: mean for name, mean in candidates.items() if name in design.plain}
    if not plain:
        return f"Deploy {best}. No base model was scored beside it, so nothing says whether its adapters help."
    return f"{_recommend_beside(results, design, best, _best(results, plain))}{_if_known(results, design, candidates)}"


def _recommend_beside(results: Results, design: Design, best: str, plain: str) -> str:
    if best in design.plain:
        return f"Deploy {best}: no system with adapters that needs no domain is ahead of it."
    metric = results.metrics[0]
    found = results.comparison(best, plain, metric, _AVERAGE)
    if is_shown(found, _spread(results, best, plain)):
        assert found is not None
        return f"Deploy {best}: {signed(found['difference'] or 0)} {metric} over {plain} (p < {SIGNIFICANT:g})."
    gain = results.gain(best, plain, metric, _AVERAGE) or 0
    return (
        f"Deploy {plain}: {best} is {signed(gain)} {metric} ahead of it, which is not shown to be more than chance. "
        "Take adapters where domains come and go, or where the base model must stay as it is."
    )


def is_shown(found: Comparison | None, spread: float = 0.0) -> bool:
    """Whether a comparison shows that an output is better: p is low, and training runs differ by less."""
    if found is None or found["difference"] is None:
        return False
    return is_significant(found["p"]) and found["difference"] > spread


def _if_known(results: Results, design: Design, candidates: Mapping[str, float]) -> str:
    """What to take instead where the domain of every text is known, if that is better."""
    metric = results.metrics[0]
    told = {name: mean for name in sorted(design.told) if (mean := _mean(results, name, metric)) is not None}
    best = _best(results, {**candidates, **told})
    if best not in told:
        return ""
    return f" If the domain of every text is known: {best} ({metric} {told[best]:.1f})."


def _candidates(results: Results, design: Design) -> dict[str, float]:
    """The outputs that need no domain, with their average."""
    if not results.metrics:
        return {}
    found = {name: _mean(results, name, results.metrics[0]) for name in design.main if name not in design.told}
    return {name: mean for name, mean in found.items() if mean is not None}


def _best(results: Results, means: Mapping[str, float]) -> str:
    """The output with the best mean of the first metric; of equal ones the first."""
    return str(METRICS[results.metrics[0]].best(means, key=lambda name: means[name]))


def _mean(results: Results, output: str, metric: str) -> float | None:
    return results.records.mean(output, metric, _AVERAGE)


def _spread(results: Results, *outputs: str) -> float:
    """The larger standard deviation over runs; 0 where each has one run."""
    figures = [results.records.figure(name, results.metrics[0], _AVERAGE) for name in outputs]
    return max((figure.sd for figure in figures if figure and figure.sd is not None), default=0.0)
