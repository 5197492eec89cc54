"""The report: the tables and figures of Klimaszewski et al. (2023), training runs, and a recommendation.

*Gated Adapters for Multi-Domain Neural Machine Translation*, ECAI 2023.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from fairseq_ext.base.origin import read_origin
from fairseq_ext.experiments.base import BASE
from fairseq_ext.experiments.metrics.comparison import Comparison
from fairseq_ext.experiments.metrics.corpus_metrics import METRICS
from fairseq_ext.experiments.metrics.plots import heat_map, line_panels
from fairseq_ext.experiments.metrics.records import Mean, Records
from fairseq_ext.experiments.metrics.render import Page, Plot, Sections
from fairseq_ext.experiments.metrics.tables import Column, Table
from fairseq_ext.experiments.report import domain_column, metric_column, tuning_tables
from fairseq_ext.experiments.translation import analyses, convergence, measure
from fairseq_ext.experiments.translation.config import Translation
from fairseq_ext.experiments.translation.examples import Example, examples_table
from fairseq_ext.experiments.translation.extra_sets import OOD, TEST
from fairseq_ext.experiments.translation.set_scores import AVERAGE, ERRORS, WEIGHTED_AVERAGE
from fairseq_ext.experiments.translation.speed import METHOD, SENTENCES_PER_SECOND, TOKENS_PER_SECOND
from fairseq_ext.experiments.translation.standing import Standing, at_a_glance, changes, gains_plot, recommend

_PAPER = "{} in Klimaszewski et al. (2023)."
_NUMBERS = {"COMET": 4, "chrF": 10, "BLEU": 11}  # of the paper's tables
_HIGHEST = 3  # times the lowest perplexity; higher values are not drawn


def page(standing: Standing, examples: Sequence[Example], machine: str) -> Page:
    """Make the report.

    Args:
        examples: of all decoding runs.
        machine: description of the machine that was timed; empty if none was.
    """
    config, records = standing.config, standing.records
    advice = recommend(standing)
    gated = [name for name in config.outputs if name in records.systems(analyses.AGREES)]
    shown = [example for example in examples if example.system == advice.compared]
    sections: Sections = {
        "At a glance": [*gains_plot(standing, advice.compared), at_a_glance(standing)],
        "Side by side": [examples_table(shown, standing.base, records, config.target_lang)] if shown else [],
        "Quality by domain": [quality(standing, metric) for metric in standing.metrics],
        "General text": _with_rows(further_sets(standing, "Quality on general text", OOD, _PAPER.format("Table 8"))),
        "Gains and forgetting": _with_rows(changes(standing)),
        "Your test sets": _with_rows(further_sets(standing, "Quality on your test sets", TEST)),
        "Variants": _with_rows(ablation(standing)),
        "Speed": _with_rows(speed(config, records, machine)),
        "Gates": [*(agreement(records, name) for name in gated), *(mean_gates(records, name) for name in gated)],
        "Classifier": [*_with_rows(classifier(records)), *confusion(records)],
        "Data": [data_sizes(records), *distances(records)],
        "Training": [systems(config, records), *curves(config, records)],
        "Tuning": tuning_tables(records),
    }
    source, target = config.langs
    scored = {name for metric in standing.metrics for name in records.systems(metric)} & config.outputs.keys()
    summary = f"Translation from {source} to {target}: {len(scored)} decoding runs."
    if origin := read_origin(config.subwords_dir):
        summary += f" {BASE} is an unchanged model: {origin.text}."
    compared = chosen_comparisons(config, standing.comparisons)
    name = config.work_dir.name
    return Page(name, summary, sections, compared, list(sections).index("Variants"), advice.headline, advice.details)


def domains_of(records: Records) -> list[str]:
    """Return the domains with test sets."""
    return records.domains(measure.TRAINING_PAIRS)


def chosen_comparisons(config: Translation, comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Select comparisons with the baselines of the experiment file, over all domains and over classifier errors.

    Comparisons on other sets are too many for the report. Classifier errors that are too few for a test are omitted.
    """
    sets = [AVERAGE, ERRORS]
    shown = [
        comparison
        for comparison in comparisons
        if comparison.baseline in config.pairs.get(comparison.system, ()) and comparison.domain in sets
        if comparison.domain != ERRORS or comparison.p is not None
    ]
    metrics = list(METRICS)
    return sorted(shown, key=lambda shown: (metrics.index(shown.metric), sets.index(shown.domain)))


# Scores


def quality(standing: Standing, metric: str) -> Table:
    """Make Table 4 (COMET), 10 (chrF) or 11 (BLEU), or one for another metric. Table 5 is the last column."""
    records = standing.records
    columns = {name: (metric, name) for name in [*domains_of(records), AVERAGE, WEIGHTED_AVERAGE]}
    notes = [f"{AVERAGE} is the mean over domains, {WEIGHTED_AVERAGE} the mean weighted by training sentences."]
    if ERRORS in records.domains(metric):  # Table 5
        columns[ERRORS] = (metric, ERRORS)
        wrong = records.value("", measure.TEST_SENTENCES, ERRORS) or 0
        notes.append(f"Classifier errors are the {wrong:,.0f} sentences that it assigns to a wrong domain.")
    notes += [_PAPER.format(f"Table {_NUMBERS[metric]}")] if metric in _NUMBERS else []
    return _scores(standing, f"Quality by domain: {metric}", standing.config.main, columns, notes)


def further_sets(standing: Standing, title: str, prefix: str, *further_notes: str) -> Table:
    """Make Table 8 (out-of-domain sets), or the table of the user's sets; ``prefix`` is that of the set names."""
    sets = [name for name in dict.fromkeys(record.domain for record in standing.records) if name.startswith(prefix)]
    columns = {f"{name.removeprefix(prefix)}: {metric}": (metric, name) for name in sets for metric in standing.metrics}
    notes = ["Decoding runs with an oracle domain translate only sets of a known domain.", *further_notes]
    return _scores(standing, title, standing.config.main, columns, notes)


def ablation(standing: Standing) -> Table:
    """Make Table 9: the full system and its variants."""
    sets = (AVERAGE, WEIGHTED_AVERAGE)
    columns = {f"{metric}: {name}": (metric, name) for metric in standing.metrics for name in sets}
    notes = ["The first is the full system, the others are its variants.", _PAPER.format("Table 9")]
    return _scores(standing, "Variants", standing.config.evaluate.report.ablation, columns, notes)


def _scores(
    standing: Standing, title: str, outputs: Sequence[str], columns: Mapping[str, tuple[str, str]], notes: Sequence[str]
) -> Table:
    """Make a table of decoding runs. Columns are pairs of a metric and a set. Runs without any scores are left out."""
    records, oracle = standing.records, list(filter(standing.needs_domain, outputs))
    shown = [name for name in outputs if any(records.of(name, *column) for column in columns.values())]
    made = [
        metric_column(records, heading, metric, name, best=METRICS[metric].best, beside=oracle)
        for heading, (metric, name) in columns.items()
    ]
    if any(name in oracle for name in shown):
        notes = [*notes, "The best excludes decoding runs with an oracle domain."]
    return Table(title, "Decoding run", shown, made, notes, _labels(standing.config))


def _labels(config: Translation) -> Callable[[str], str]:
    return lambda name: f"{name} (oracle domain)" if config.outputs[name].uses_oracle else name


def _with_rows(table: Table) -> list[Table]:
    """Return the table, or an empty list if it has no rows."""
    return [table] if table.rows else []


def speed(config: Translation, records: Records, machine: str) -> Table:
    """Make Table 7."""
    of = partial(metric_column, records)
    columns = [
        of("Sentences/s", SENTENCES_PER_SECOND, form=",.2f", best=max),
        of("Tokens/s", TOKENS_PER_SECOND, form=",.2f", best=max),
    ]
    timed = [name for name in config.outputs if name in records.systems(SENTENCES_PER_SECOND)]
    notes = [f"Method: {METHOD}.", *([f"Machine: {machine}."] if machine else []), _PAPER.format("Table 7")]
    return Table("Speed", "Decoding run", timed, columns, notes, _labels(config))


# Gates


def agreement(records: Records, output: str) -> Table:
    """Make a table of how often the largest gate of a layer is the classifier's choice or the true domain."""
    layers = dict.fromkeys(str(record.dims["layer"]) for record in records.select(analyses.AGREES, output))
    alone: dict[str, dict[str, str]] = {"": {}, **{f", {name} alone": {"alone": name} for name in analyses.ALONE}}
    rows = {
        f"{metric}{suffix}": (metric, dims)
        for metric in (analyses.AGREES, analyses.CORRECT)
        for suffix, dims in alone.items()
        if records.select(metric, output, **dims)
    }

    def mean(layer: str, row: str) -> Mean | None:
        metric, dims = rows[row]
        return records.mean(output, metric, layer=layer, **dims)

    ordered = sorted(layers, key=lambda layer: layer == analyses.OVER_LAYERS)
    columns = [Column(layer, partial(mean, layer), ".1f") for layer in ordered]
    share = records.value(output, analyses.CLASSIFIER_CORRECT)
    notes = ["In percent of the test sentences. Gates of decoder layers are averaged over target tokens."]
    notes += [f"{analyses.CLASSIFIER_CORRECT.capitalize()} in {share:.1f} %."] if share else []
    if len(rows) > 2:
        notes.append("Alone: the choice from the layer's states only, or from the source words only.")
    return Table(f"Largest gate by layer: {output}", "In percent", list(rows), columns, notes)


def mean_gates(records: Records, output: str) -> Plot:
    """Plot the mean gate weights by true domain, over layers and runs."""
    domains = domains_of(records)
    svg = heat_map(_matrix(records, output, analyses.WEIGHT, domains, "gate"), domains, domains, "gate", "true domain")
    note = (
        "Rows are true domains of the test sentences, columns are gates. Weights are in percent, averaged over layers."
    )
    return Plot(f"gates-{output}", f"Gate weights by true domain: {output}", svg, note)


def _matrix(records: Records, system: str, metric: str, domains: Sequence[str], dim: str) -> list[list[float]]:
    """Return the values of a metric by domain, in rows, and by a dimension with the same names."""
    return [[records.value(system, metric, row, **{dim: name}) or 0.0 for name in domains] for row in domains]


# Data and the classifier


def data_sizes(records: Records) -> Table:
    """Make Table 1."""
    headings = {"Training": measure.TRAINING_PAIRS, "Test": measure.TEST_SENTENCES}
    columns = [domain_column(records, heading, metric) for heading, metric in headings.items()]
    return Table("Sentence pairs by domain", "Domain", domains_of(records), columns, [_PAPER.format("Table 1")])


def distances(records: Records) -> list[Plot]:
    """Plot Figure 3."""
    domains = domains_of(records)
    if not records.select(analyses.DISTANCE):
        return []
    matrix = _matrix(records, "", analyses.DISTANCE, domains, "to")
    texts = [
        ["" if domain == other else f"{value:.2f}" for other, value in zip(domains, row, strict=True)]
        for domain, row in zip(domains, matrix, strict=True)
    ]
    shares = [[value / 2 for value in row] for row in matrix]
    note = "0: a classifier cannot distinguish the domains; 2: it makes no errors. Sentences are embedded with TF-IDF. "
    note += _PAPER.format("Figure 3")
    svg = heat_map(shares, domains, domains, "domain", "domain", texts)
    return [Plot("distances", "How far apart the domains are (proxy A-distance)", svg, note)]


def classifier(records: Records) -> Table:
    """Make Table 3."""
    columns = [
        domain_column(records, heading, metric, ".1f", dims={"split": split})
        for heading, (metric, split) in {
            "F1, training text": (measure.F1, "train"),
            "F1, test sets": (measure.F1, "test"),
            "Precision, test sets": ("precision", "test"),
            "Recall, test sets": ("recall", "test"),
        }.items()
    ]
    rows = [name for name in records.domains(measure.F1, split="test") if name]
    micro = {split: records.value("", measure.F1, split=split) for split in ("train", "test")}
    shown = [f"{value:.1f} ({split})" for split, value in micro.items() if value is not None]
    notes = ["In percent. Training text is labelled by classifiers that were not trained on it."]
    notes += [f"Micro-averaged F1: {', '.join(shown)}."] if shown else []
    notes.append(_PAPER.format("Table 3"))
    return Table("How well the classifier knows the domains", "Domain", rows, columns, notes)


def confusion(records: Records) -> list[Plot]:
    """Plot Figure 4."""
    classified = {
        (record.domain, record.dims["class"]): record.value
        for record in records.select(measure.CLASSIFIED, split="test")
    }
    if not classified:
        return []
    domains, classes = (list(dict.fromkeys(map(str, names))) for names in zip(*classified, strict=True))
    counts = [[classified[domain, other] for other in classes] for domain in domains]
    shares = [[count / max(sum(row), 1) for count in row] for row in counts]
    texts = [[f"{count:,.0f}" if count else "" for count in row] for row in counts]
    svg = heat_map(shares, domains, classes, "the classifier's choice", "true domain", texts)
    note = f"Test sentences. Shades are shares of a row. {_PAPER.format('Figure 4')}"
    return [Plot("confusion", "Where the classifier errs", svg, note)]


# Training runs


def systems(config: Translation, records: Records) -> Table:
    """Make Table 2, with the updates and validation loss of each system."""

    def first(metric: str) -> Callable[[str], float | None]:
        return lambda name: next((record.value for record in records.of(name, metric)), None)

    columns = [
        Column("Parameters", first(analyses.PARAMETERS), ",.0f"),
        Column("Trained", first(analyses.TRAINED), ",.0f"),
        Column("Models", lambda name: float(len(config.runs[name])), ".0f"),
        metric_column(records, "Updates", convergence.UPDATES, form=",.0f"),
        metric_column(records, "Bits per token", convergence.BITS, form=".3f"),
        Column("Architecture", lambda name: config.systems[name].arch),
    ]
    rows = [name for name in config.systems if first(analyses.PARAMETERS)(name) or records.of(name, convergence.BITS)]
    notes = ["Parameters are those of one model; there is one per seed or, if trained per domain, per domain."]
    notes += ["Bits per token are measured on the validation sets, at the best update."]
    notes += [f"Warning: {warning}." for warning in convergence.warnings_of(config, records)]
    notes.append(_PAPER.format("Table 2"))
    return Table("Size and training of the systems", "System", rows, columns, notes)


def curves(config: Translation, records: Records) -> list[Plot]:
    """Plot the validation perplexity of base models by update."""
    all_curves = convergence.curves_of(records)
    of_bases = {name: curve for name, curve in all_curves.items() if name.split("@")[0] in config.base_systems}
    if not of_bases:
        return []
    highest = _HIGHEST * 2 ** min(bits for curve in of_bases.values() for bits in curve.values())
    lines = {
        name: {float(update): 2**bits for update, bits in curve.items() if 2**bits <= highest}
        for name, curve in of_bases.items()
    }
    note = f"On the validation sets. Perplexities above {_HIGHEST} times the lowest are omitted."
    svg = line_panels({"": lines}, "update", "perplexity")
    return [Plot("curves", "Validation curves of the base models", svg, note)]
