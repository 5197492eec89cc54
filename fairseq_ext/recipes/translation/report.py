"""The report: the tables and figures of Klimaszewski et al. (2023), training runs, and a recommendation.

*Gated Adapters for Multi-Domain Neural Machine Translation*, ECAI 2023.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from fairseq_ext.engine.steps import Step
from fairseq_ext.inputs.origin import ORIGIN_FILE, read_origin
from fairseq_ext.metrics.bootstrap import SIGNIFICANT, is_significant
from fairseq_ext.metrics.comparison import COMPARISONS_FILE, Comparison, read_comparisons
from fairseq_ext.metrics.corpus_metrics import METRICS
from fairseq_ext.metrics.plots import heat_map, line_panels
from fairseq_ext.metrics.records import Mean, Records
from fairseq_ext.metrics.render import Page, Plot, Sections
from fairseq_ext.metrics.tables import Column, Table
from fairseq_ext.recipes.report import (
    comparisons_in,
    domain_column,
    metric_column,
    report_step,
    training_files,
    tuning_tables,
)
from fairseq_ext.recipes.translation import analyses, convergence, gates, measurement
from fairseq_ext.recipes.translation.config import BASE, Translation
from fairseq_ext.recipes.translation.extra_sets import OOD, TEST
from fairseq_ext.recipes.translation.set_scores import AVERAGE, ERRORS, WEIGHTED_AVERAGE
from fairseq_ext.recipes.translation.speed import MACHINE_FILE, METHOD, SENTENCES_PER_SECOND, TOKENS_PER_SECOND

_VERSION = 9
_NUMBERS = {"COMET": 4, "chrF": 10, "BLEU": 11}  # of the paper's tables
_HIGHEST = 3  # times the lowest perplexity; higher values are not drawn
_NOT_USABLE = "not usable: most translations do not have the meaning of the source"
# Translations with lower BLEU or chrF are useless. A rule of thumb: both depend on language and text.
_LEAST = {"BLEU": 10, "chrF": 30}


def report(config: Translation) -> Step:
    """Return the step that writes the report."""
    comparisons_file = config.work_dir / "scores" / COMPARISONS_FILE
    machine_file = config.work_dir / "analysis/speed" / MACHINE_FILE
    sources = [*measurement.result_files(config), comparisons_file, config.work_dir / measurement.TEACHER_FILE]
    sources.append(config.subwords_dir / ORIGIN_FILE)

    def make(records: Records) -> Page:
        machine = machine_file.read_text(encoding="utf-8").strip() if machine_file.is_file() else ""
        return page(config, records, comparisons_in(comparisons_file), machine)

    read = partial(measurement.all_records, config)
    step = report_step(config, [*sources, machine_file, *training_files(config)], _VERSION, read, make)
    shown = {"main": config.main, "ablation": config.evaluate.report.ablation, "pairs": dict(config.pairs)}
    return replace(step, options={**step.options, **shown})


def page(config: Translation, records: Records, comparisons: Sequence[Comparison], machine: str = "") -> Page:
    """Make the report. ``comparisons`` are with baselines and base models; ``machine`` describes the timed machine."""
    gated = [name for name in config.outputs if name in records.systems(gates.AGREES)]
    sections: Sections = {
        "Translation quality": [
            recommend(config, records, comparisons),
            *(quality(config, records, metric) for metric in metrics_of(records)),
        ],
        "Own test sets": _with_rows(further_sets(config, records, "Own test sets", TEST)),
        "Out of domain": _with_rows(further_sets(config, records, "Table 8. Out of domain", OOD)),
        "Ablation": _with_rows(ablation(config, records)),
        "Speed": _with_rows(speed(config, records, machine)),
        "Gates": [*(agreement(records, name) for name in gated), *(mean_gates(records, name) for name in gated)],
        "Classifier": [*_with_rows(classifier(records)), *confusion(records)],
        "Data": [data_sizes(records), *distances(records)],
        "Systems": [systems(config, records), *curves(config, records)],
        "Tuning": tuning_tables(records),
    }
    source, target = config.langs
    scored = {name for metric in metrics_of(records) for name in records.systems(metric)}
    summary = f"Translation from {source} to {target}: {len(scored)} decoding runs."
    if origin := read_origin(config.subwords_dir):
        summary += f" {BASE} is an unchanged model: {origin.text}."
    return Page(config.work_dir.name, summary, sections, chosen_comparisons(config, comparisons))


def quality_and_advice(config: Translation) -> list[str]:
    """Return the tables of translation quality and the recommendation, as Markdown."""
    records = measurement.all_records(config)
    comparisons = read_comparisons(config.work_dir / "scores" / COMPARISONS_FILE)
    tables = [quality(config, records, metric).markdown() for metric in metrics_of(records)]
    return [*tables, recommend(config, records, comparisons)]


def metrics_of(records: Records) -> list[str]:
    """Return the measured metrics of translation quality, most trusted first."""
    return [metric for metric in METRICS if records.systems(metric)]


def domains_of(records: Records) -> list[str]:
    """Return the domains with test sets."""
    return records.domains(measurement.TRAINING_PAIRS)


def chosen_comparisons(config: Translation, comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Select comparisons with the baselines of the experiment file, over all domains and over classifier errors.

    Comparisons on other sets are too many for the report. Classifier errors that are too few for a test are omitted.
    """
    sets = [measurement.ALL, measurement.SET_NAMES[ERRORS]]
    of_pairs = [each for each in comparisons if each.baseline in config.pairs.get(each.system, ())]
    shown = [each for each in of_pairs if each.domain == sets[0] or (each.domain == sets[1] and each.p is not None)]
    return sorted(shown, key=lambda each: (list(METRICS).index(each.metric), sets.index(each.domain)))


# Scores


def quality(config: Translation, records: Records, metric: str) -> Table:
    """Make Table 4 (COMET), 10 (chrF) or 11 (BLEU), or one for another metric. Table 5 is the last column."""
    number = f"Table {_NUMBERS[metric]}. " if metric in _NUMBERS else ""
    columns = {name: (metric, name) for name in [*domains_of(records), AVERAGE, WEIGHTED_AVERAGE]}
    notes = [f"{AVERAGE} is the mean over domains, {WEIGHTED_AVERAGE} the mean weighted by training sentences."]
    if ERRORS in records.domains(metric):  # Table 5
        columns["classifier errors"] = (metric, ERRORS)
        wrong = records.value("", measurement.TEST_SENTENCES, ERRORS) or 0
        notes.append(f"Classifier errors are the {wrong:,.0f} sentences that it assigns to a wrong domain.")
    return _scores(config, records, f"{number}Translation quality: {metric}", config.main, columns, notes)


def further_sets(config: Translation, records: Records, title: str, prefix: str) -> Table:
    """Make Table 8 (out-of-domain sets), or the table of the user's sets; ``prefix`` is that of the set names."""
    metrics = metrics_of(records)
    sets = [name for name in dict.fromkeys(record.domain for record in records) if name.startswith(prefix)]
    columns = {f"{name.removeprefix(prefix)}: {metric}": (metric, name) for name in sets for metric in metrics}
    notes = ["Decoding runs with an oracle domain translate only sets of a known domain."]
    return _scores(config, records, title, config.main, columns, notes)


def ablation(config: Translation, records: Records) -> Table:
    """Make Table 9: the full system and its variants."""
    sets = (AVERAGE, WEIGHTED_AVERAGE)
    columns = {f"{metric}: {name}": (metric, name) for metric in metrics_of(records) for name in sets}
    return _scores(config, records, "Table 9. Ablation", config.evaluate.report.ablation, columns, [])


def _scores(
    config: Translation,
    records: Records,
    title: str,
    outputs: Sequence[str],
    columns: Mapping[str, tuple[str, str]],
    notes: Sequence[str],
) -> Table:
    """Make a table of decoding runs. Columns are pairs of a metric and a set. Runs without any scores are left out."""
    oracle = [name for name in outputs if config.outputs[name].uses_oracle]
    shown = [name for name in outputs if any(records.of(name, *column) for column in columns.values())]
    made = [
        metric_column(records, heading, metric, name, best=METRICS[metric].best, beside=oracle)
        for heading, (metric, name) in columns.items()
    ]
    if any(name in oracle for name in shown):
        notes = [*notes, "The best excludes decoding runs with an oracle domain."]
    return Table(title, "Decoding run", shown, made, notes, _labels(config))


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
    notes = [f"Method: {METHOD}.", *([f"Machine: {machine}."] if machine else [])]
    return Table("Table 7. Speed", "Decoding run", timed, columns, notes, _labels(config))


# Gates


def agreement(records: Records, output: str) -> Table:
    """Make a table of how often the largest gate of a layer is the classifier's choice or the true domain."""
    of_output = [record for record in records if record.system == output and record.metric == gates.AGREES]
    layers = dict.fromkeys(record.domain for record in of_output if record.domain != gates.OVER_LAYERS)
    inputs = ["", *(f", {name} alone" for name in gates.ALONE)]
    metrics = [f"{metric}{each}" for metric in (gates.AGREES, gates.CORRECT) for each in inputs]
    rows = [metric for metric in metrics if output in records.systems(metric)]

    def mean(layer: str, metric: str) -> Mean | None:
        return records.mean(output, metric, layer)

    columns = [Column(layer, partial(mean, layer), ".1f") for layer in (*layers, gates.OVER_LAYERS)]
    share = records.value(output, gates.CLASSIFIER_CORRECT)
    notes = ["In percent of the test sentences. Gates of decoder layers are averaged over target tokens."]
    notes += [f"{gates.CLASSIFIER_CORRECT.capitalize()} in {share:.1f} %."] if share else []
    if len(rows) > 2:
        notes.append("Alone: the choice from the layer's states only, or from the source words only.")
    return Table(f"Largest gate by layer: {output}", "In percent", rows, columns, notes)


def mean_gates(records: Records, output: str) -> Plot:
    """Plot the mean gate weights by true domain, over layers and runs."""
    domains = domains_of(records)
    svg = heat_map(_matrix(records, output, gates.weight_of, domains), domains, domains, "gate", "true domain")
    note = (
        "Rows are true domains of the test sentences, columns are gates. Weights are in percent, averaged over layers."
    )
    return Plot(f"gates-{output}", f"Gate weights by true domain: {output}", svg, note)


# Data and the classifier


def data_sizes(records: Records) -> Table:
    """Make Table 1."""
    headings = {"Training": measurement.TRAINING_PAIRS, "Test": measurement.TEST_SENTENCES}
    columns = [domain_column(records, heading, metric) for heading, metric in headings.items()]
    return Table("Table 1. Sentence pairs", "Domain", domains_of(records), columns)


def distances(records: Records) -> list[Plot]:
    """Plot Figure 3."""
    domains = domains_of(records)
    if not domains or not records.domains(analyses.distance_to(domains[0])):
        return []
    matrix = _matrix(records, "", analyses.distance_to, domains)
    texts = [
        ["" if domain == other else f"{value:.2f}" for other, value in zip(domains, row, strict=True)]
        for domain, row in zip(domains, matrix, strict=True)
    ]
    shares = [[value / 2 for value in row] for row in matrix]
    note = "0: a classifier cannot distinguish the domains; 2: it makes no errors. Sentences are embedded with TF-IDF."
    svg = heat_map(shares, domains, domains, "domain", "domain", texts)
    return [Plot("distances", "Figure 3. Proxy A-distance between domains", svg, note)]


def classifier(records: Records) -> Table:
    """Make Table 3."""
    headings = {
        "F1, training text": "F1, train",
        "F1, test sets": "F1, test",
        "Precision, test sets": "precision, test",
        "Recall, test sets": "recall, test",
    }
    columns = [domain_column(records, heading, metric, ".1f") for heading, metric in headings.items()]
    rows = [name for name in records.domains("F1, test") if name]
    micro = {split: records.value("", f"F1, {split}", "") for split in ("train", "test")}
    shown = [f"{value:.1f} ({split})" for split, value in micro.items() if value is not None]
    notes = ["In percent. Training text is labelled by classifiers that were not trained on it."]
    notes += [f"Micro-averaged F1: {', '.join(shown)}."] if shown else []
    return Table("Table 3. The classifier", "Domain", rows, columns, notes)


def confusion(records: Records) -> list[Plot]:
    """Plot Figure 4."""
    domains = [name for name in records.domains("F1, test") if name]
    if not domains:
        return []
    counts = _matrix(records, "", lambda other: measurement.classified_as(other, "test"), domains)
    shares = [[count / max(sum(row), 1) for count in row] for row in counts]
    texts = [[f"{count:,.0f}" if count else "" for count in row] for row in counts]
    svg = heat_map(shares, domains, domains, "the classifier's choice", "true domain", texts)
    note = "Test sentences. Shades are shares of a row."
    return [Plot("confusion", "Figure 4. Confusion matrix of the classifier", svg, note)]


def _matrix(
    records: Records, system: str, metric_to: Callable[[str], str], domains: Sequence[str]
) -> list[list[float]]:
    """Return D×D values: for each domain (row), the metric with respect to each domain (column)."""
    return [[records.value(system, metric_to(other), domain) or 0.0 for other in domains] for domain in domains]


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
    return Table("Table 2. Systems", "System", rows, columns, notes)


def curves(config: Translation, records: Records) -> list[Plot]:
    """Plot the validation perplexity of base models by update."""
    all_curves = convergence.curves_of(records)
    found = {name: curve for name, curve in all_curves.items() if name.split("@")[0] in config.base_systems}
    if not found:
        return []
    highest = _HIGHEST * 2 ** min(bits for curve in found.values() for bits in curve.values())
    lines = {
        name: {float(update): 2**bits for update, bits in curve.items() if 2**bits <= highest}
        for name, curve in found.items()
    }
    note = f"On the validation sets. Perplexities above {_HIGHEST} times the lowest are omitted."
    svg = line_panels({"": lines}, "update", "perplexity")
    return [Plot("curves", "Validation curves of the base models", svg, note)]


# Recommendation


def recommend(config: Translation, records: Records, comparisons: Sequence[Comparison]) -> str:
    """Recommend a system to deploy, or none yet, with the reason."""
    metric = next(iter(metrics_of(records)), "")
    averages = {name: score for name in config.outputs if (score := records.value(name, metric, AVERAGE)) is not None}
    oracle = {name for name in averages if config.outputs[name].uses_oracle}
    candidates = [name for name in config.main if name in averages and name not in oracle]
    if not candidates:
        return "Nothing has been scored yet."
    best_of = partial(METRICS[metric].best, key=averages.__getitem__)
    best, plain = best_of(candidates), [name for name in candidates if name in config.plain_outputs]
    usable = next((name for name in _LEAST if best in records.systems(name)), "")
    if usable and (records.value(best, usable, AVERAGE) or 0.0) < _LEAST[usable]:
        return f"Deploy nothing yet: the best system, {best}, is {_NOT_USABLE}. Train longer, or on more text."
    if warnings := convergence.warnings_of(config, records):
        return f"Deploy nothing yet: {warnings[0]}."
    if not plain:
        return f"Deploy {best}. No base model was scored, so the gain of its adapters is unknown."
    advice = _against_base(records, comparisons, metric, best, best_of(plain))
    of_all = best_of([*candidates, *oracle])
    if of_all in oracle:
        advice += f" If the domain of every text is known, deploy {of_all} ({metric} {averages[of_all]:.1f})."
    return advice


def _against_base(records: Records, comparisons: Sequence[Comparison], metric: str, best: str, base: str) -> str:
    if best == base:
        return f"Deploy {best}: no other system that works without domain labels is better."
    wanted = (best, base, metric, measurement.ALL)
    found = [each for each in comparisons if (each.system, each.baseline, each.metric, each.domain) == wanted]
    gain = METRICS[metric].gain(found[0].difference, 0) if found else 0.0
    means = [records.mean(name, metric, AVERAGE) for name in (best, base)]
    largest_sd = max(mean.sd or 0.0 for mean in means if mean)
    if found and is_significant(found[0].p) and gain > largest_sd:
        return f"Deploy {best}: {gain:+.2f} {metric} over {base} (p < {SIGNIFICANT:g})."
    return (
        f"Deploy {base}: {best} gains {gain:+.2f} {metric}, which is not significant, or less than the standard "
        "deviation over training runs. Use adapters where domains are added or removed, or where the base model must "
        "not change."
    )
