"""How decoding runs stand: gain over the base in the domains, gain or loss on general text, and what to deploy."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

from fairseq_ext.experiments.metrics.bootstrap import is_significant
from fairseq_ext.experiments.metrics.comparison import Comparison, mark, show_difference, signed
from fairseq_ext.experiments.metrics.corpus_metrics import METRICS
from fairseq_ext.experiments.metrics.plots import Span, draw_gains
from fairseq_ext.experiments.metrics.records import Records
from fairseq_ext.experiments.metrics.render import Plot
from fairseq_ext.experiments.metrics.tables import Column, Table
from fairseq_ext.experiments.report import metric_column
from fairseq_ext.experiments.translation import convergence
from fairseq_ext.experiments.translation.config import Translation
from fairseq_ext.experiments.translation.extra_sets import OOD, TEST
from fairseq_ext.experiments.translation.set_scores import AVERAGE, GENERAL

# Translations with lower BLEU or chrF are useless. A rule of thumb: both depend on language and text.
_LEAST = {"BLEU": 10, "chrF": 30}
_TOLERATED = 0.3  # loss on general text that readers do not notice. A rule of thumb.


@dataclass(frozen=True)
class Standing:
    """Decoding runs in the most trusted metric, and their differences to the base."""

    config: Translation
    records: Records
    comparisons: Sequence[Comparison]

    @cached_property
    def metrics(self) -> list[str]:
        """The metrics of translation quality that were measured, most trusted first."""
        return [metric for metric in METRICS if self.records.systems(metric)]

    @property
    def metric(self) -> str:
        """The most trusted metric that was measured; empty if there is none."""
        return next(iter(self.metrics), "")

    @cached_property
    def averages(self) -> dict[str, float]:
        """Mean scores over domains, of all decoding runs that have one."""
        means = {name: self.records.value(name, self.metric, AVERAGE) for name in self.config.outputs}
        return {name: mean for name, mean in means.items() if mean is not None}

    @property
    def base(self) -> str:
        """The decoding run that gains and losses refer to; empty if it was not scored."""
        return self.config.reference if self.config.reference in self.averages else ""

    @cached_property
    def _by_key(self) -> dict[tuple[str, str, str, str], Comparison]:
        key = attrgetter("system", "baseline", "metric", "domain")
        return {key(comparison): comparison for comparison in self.comparisons}

    @property
    def candidates(self) -> list[str]:
        """Decoding runs of the main tables that need no true domain."""
        return [name for name in self.config.main if name in self.averages and not self.needs_domain(name)]

    @property
    def has_general_text(self) -> bool:
        """Whether there are sets of general text."""
        return GENERAL in self.records.domains(self.metric)

    def needs_domain(self, name: str) -> bool:
        """Return whether a decoding run needs the true domain of every sentence."""
        return self.config.outputs[name].uses_oracle

    def best(self, names: Collection[str]) -> str:
        """Return the decoding run with the best mean over domains."""
        return METRICS[self.metric].best(names, key=self.averages.__getitem__)

    def change(self, name: str, domain: str = AVERAGE, over: str = "") -> Comparison | None:
        """Return the difference of a decoding run to another, by default the base; None if it was not measured."""
        return self._by_key.get((name, over or self.base, self.metric, domain))

    def is_better(self, name: str, other: str) -> bool:
        """Return whether the gain in the domains is significant and above the standard deviation of training runs."""
        change = self.change(name, over=other)
        spreads = [mean.sd or 0.0 for run in (name, other) if (mean := self.records.mean(run, self.metric, AVERAGE))]
        return change is not None and is_significant(change.p) and self._gain(change) > max(spreads)

    def forgets(self, name: str) -> bool:
        """Return whether a decoding run's loss on general text is significant and more than is tolerated."""
        change = self.change(name, GENERAL)
        return change is not None and is_significant(change.p) and self._gain(change) < -_TOLERATED

    def _gain(self, change: Comparison) -> float:
        return METRICS[self.metric].gain(change.difference, 0)

    def shown(self, name: str, domain: str = AVERAGE, over: str = "") -> str:
        """Write a difference with its interval."""
        change = self.change(name, domain, over)
        return show_difference(change, self.metric) if change else "not measured"


class Advice(NamedTuple):
    """A recommendation."""

    headline: str  # one sentence: what to deploy
    details: str = ""
    compared: str = ""  # the decoding run to look at beside the base; empty if there is none


def recommend(standing: Standing) -> Advice:
    """Recommend a decoding run to deploy, or none yet, by the rule in docs/experiment.md, "What to deploy".

    Candidates with a higher mean that lose on general text, and a better system that needs the true domain, are named
    beside it with their numbers.
    """
    candidates, base = standing.candidates, standing.base
    if not candidates:
        return Advice("Nothing has been scored yet.")
    best = standing.best(candidates)
    if problem := _problem(standing, best):
        return Advice(f"Deploy nothing yet: {problem}", compared=best)
    if not base:
        return Advice(f"Deploy {best}. No base model was scored, so its gain is unknown.")
    keeping = [name for name in candidates if not standing.forgets(name)]
    chosen = _simplest(standing, keeping)
    if chosen == base:
        chosen = _simplest(standing, candidates)
    others = [name for name in candidates if name != base]
    compared = chosen if chosen != base else standing.best(others) if others else ""
    return Advice(_headline(standing, chosen), " ".join(_details(standing, chosen)), compared)


def _problem(standing: Standing, best: str) -> str:
    records = standing.records
    scores = {metric: records.value(best, metric, AVERAGE) for metric in _LEAST}
    known = next((metric for metric, score in scores.items() if score is not None), None)
    if known and (scores[known] or 0.0) < _LEAST[known]:
        return (
            f"with {scores[known]:.0f} {known}, most translations of the best system, {best}, do not have the meaning "
            "of the source. Train longer, or on more text."
        )
    return next((f"{warning}." for warning in convergence.warnings_of(standing.config, records)), "")


def _simplest(standing: Standing, names: Collection[str]) -> str:
    """Return the best decoding run, or a simpler one that it is not better than: the base, or the best control."""
    best, base = standing.best(names), standing.base
    controls = [name for name in standing.config.plain_outputs if name in names and standing.is_better(name, base)]
    simpler = [base, *([standing.best(controls)] if controls else [])]
    return next((name for name in simpler if not standing.is_better(best, name)), best)


def _headline(standing: Standing, chosen: str) -> str:
    if chosen == standing.base:
        return f"Deploy {chosen}: no other system that works without domain labels is better."
    only = " for text of the domains only" if standing.forgets(chosen) else ""
    on_general = standing.change(chosen, GENERAL)
    general = f", {show_difference(on_general)} on general text" if on_general else ""
    domain = (
        "a classifier finds the domain" if standing.config.outputs[chosen].uses_classifier else "it needs no domain"
    )
    return f"Deploy {chosen}{only}: {standing.shown(chosen)} over {standing.base} in the domains{general}; {domain}."


def _details(standing: Standing, chosen: str) -> Iterator[str]:
    """Yield what else to consider."""
    base, candidates = standing.base, standing.candidates
    if chosen != base and not standing.change(chosen, GENERAL):
        yield "General text was not measured."
    keeping = [name for name in candidates if name == chosen or not standing.forgets(name)]
    best, of_all = standing.best(keeping), standing.best(candidates)
    if best != chosen:
        yield (
            f"{best}, {standing.shown(best, over=chosen)} over {chosen}, is not significantly better, or by less than "
            "the standard deviation over training runs. Use adapters where domains are added or removed, or where the "
            "base model must not change."
        )
    if of_all not in (best, chosen):
        gain, loss = standing.shown(of_all), standing.shown(of_all, GENERAL)
        yield f"{of_all} gains more in the domains, {gain}, but loses on general text, {loss}."
    told = [name for name in standing.averages if standing.needs_domain(name)]
    if told and standing.best([*candidates, *told]) in told:
        known = standing.best(told)
        yield f"If the domain of every text is known, deploy {known}: {standing.shown(known)} over {base}."


# At a glance


def at_a_glance(standing: Standing) -> Table:
    """Make the table of all decoding runs: the mean over domains, general text, and differences to the base."""
    outputs, base, metric = standing.config.outputs, standing.base, standing.metric
    told = [name for name in outputs if standing.needs_domain(name)]

    def columns_of(heading: str, domain: str) -> list[Column]:
        best = METRICS[metric].best if metric else None
        mean = metric_column(standing.records, heading, metric, domain, form=".1f", best=best, beside=told)
        changes = {name: show_difference(change) for name in outputs if (change := standing.change(name, domain))}
        return [mean, *([Column(f"over {base}", changes.get, is_text=False)] if base else [])]

    def need(name: str) -> str:
        return "yes" if name in told else "no: classifier" if outputs[name].uses_classifier else "no"

    columns = columns_of("Domains", AVERAGE)
    columns += columns_of("General text", GENERAL) if standing.has_general_text else []
    notes = ["Means over domains" + (", and over the sets of general text." if standing.has_general_text else ".")]
    notes += ["In brackets: the 95 % interval, from a paired bootstrap over sentences."] if base else []
    rows = [name for name in standing.config.main if name in standing.averages]
    return Table(f"Systems: {metric}", "System", rows, [*columns, Column("Needs the domain", need)], notes)


def changes(standing: Standing) -> Table:
    """Make the matrix of forgetting: differences to the base of each system, on each set."""
    over_base = standing.base, standing.metric
    differences = [change for change in standing.comparisons if (change.baseline, change.metric) == over_base]

    def column(domain: str) -> Column:
        of_domain = [change for change in differences if change.domain == domain]
        cells = {change.system: f"{signed(change.difference, 1)} {mark(change)}" for change in of_domain}
        return Column(domain.removeprefix(OOD).removeprefix(TEST), cells.get, is_text=False)

    rows = dict.fromkeys(change.system for change in differences)
    columns = list(map(column, dict.fromkeys(change.domain for change in differences)))
    note = "▲ better, ▼ worse (p < 0.05, paired bootstrap over sentences, not corrected for the number of comparisons)."
    return Table(f"{standing.metric} over {standing.base}, by set", "System", list(rows), columns, [note])


def gains_plot(standing: Standing, chosen: str) -> list[Plot]:
    """Plot the differences of all decoding runs to the base: in the domains, and on general text."""
    base, metric = standing.base, standing.metric
    changes = {name: change for name in standing.config.main if (change := standing.change(name))}
    if not changes:
        return []
    start = Span(0.0) if standing.has_general_text else None
    points = {base: (Span(0.0), start), **{name: (_span(change), None) for name, change in changes.items()}}
    points |= {name: (points[name][0], _span(change)) for name in changes if (change := standing.change(name, GENERAL))}
    title = "Gain in the domains" + (", gain or loss on general text" if start else "")
    note = "Lines are 95 % intervals, from a paired bootstrap over sentences."
    if told := [name for name, (_, general) in points.items() if start and not general]:
        note += f" Below, because they need the domain of every text: {', '.join(told)}."
    labels = f"{metric} over {base} in the domains", f"{metric} over {base} on general text"
    return [Plot("gains", title, draw_gains(points, *labels, chosen), note)]


def _span(change: Comparison) -> Span:
    return Span(change.difference, change.low, change.high)
