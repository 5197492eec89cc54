"""The report's tables, numbered as in Klimaszewski et al. (2023)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fairseq_ext.experiments.translation.convergence import LOGS, ValidationCurve
from fairseq_ext.experiments.translation.extra_sets import OOD, TEST
from fairseq_ext.experiments.translation.results import (
    ALONE,
    CHOICES,
    FILES,
    PARAMETERS,
    TRAINED,
    Design,
    Results,
    agreement_with,
)
from fairseq_ext.metrics.bootstrap import SIGNIFICANT, is_significant
from fairseq_ext.metrics.corpus_metrics import METRICS
from fairseq_ext.report.content import NOTHING, Below, Cell, Missing, Row, Table, Text
from fairseq_ext.report.figures import BEST, SPREAD, Figure, figure_rows, figure_table
from fairseq_ext.report.markdown import escape
from fairseq_ext.report.page import signed
from fairseq_ext.report.records import Measured
from fairseq_ext.report.significance import BETTER, WORSE

Shown = Table | Missing
AVERAGES = ("AVG", "wAVG")
MISCLASSIFIED = "misclassified"
_NUMBERS = {"COMET": 4, "chrF": 10, "BLEU": 11}  # of the paper's tables of quality
_TOLD = "told the true domain of every sentence"
_NOT_TOLD = "not told the domain"


def training_sizes(results: Results) -> Shown:
    """Table 1."""
    title = "Table 1. Sentence pairs"
    if results.scores is None:
        return Missing(title, _not_made(FILES["scores"]))
    columns = {"Training": results.scores["train_sizes"], "Test": results.scores["test_sizes"]}
    rows = [Row(name, [Cell(f"{sizes[name]:,}") for sizes in columns.values()]) for name in results.domains]
    total = Row("SUM", [Cell(f"{sum(sizes.values()):,}") for sizes in columns.values()])
    notes = ["Training sentences are the weights of wAVG."]
    return Table(title, "Domain", list(columns), [("", rows)], total, below=Below(notes, [FILES["scores"]]))


def parameters(results: Results, design: Design) -> Shown:
    """Table 2: of each system its parameters, and in brackets what they exceed the baseline's by."""
    title = "Table 2. Parameters"
    if results.parameters is None:
        return Missing(title, _not_made(FILES["parameters"]))
    base = design.systems.get(design.baseline, "")
    reference = results.records.mean(base, PARAMETERS)
    archs = {run.split("@")[0]: str(count.get("arch") or "–") for run, count in results.parameters.items()}
    rows = []
    for name in sorted(archs, key=_by_order(list(design.starts))):
        totals, trained = (results.records.by_run(name, metric) for metric in (PARAMETERS, TRAINED))
        [total, *others], [of_these, *_] = totals.values(), trained.values()
        models = 1 + len(others) if name in design.per_domain else 1
        times = f"{models} × " if models > 1 else ""
        more = models * total - reference if reference is not None else 0
        cells = [Cell(f"{times}{total:,.0f}", f"[{more:+,.0f}]" if more else ""), Cell(f"{times}{of_these:,.0f}")]
        rows.append(Row(name, [*cells, Cell(archs[name])]))
    notes = [f"In brackets: more than {base}."] if reference is not None else []
    return Table(
        title,
        "System",
        ["Parameters", "Trained", "Architecture"],
        [("", rows)],
        below=Below(notes, [FILES["parameters"]]),
    )


def classifier(results: Results) -> Shown:
    """Table 3, by domain."""
    title = "Table 3. The classifier"
    if results.teacher is None:
        return Missing(title, _not_made(FILES["teacher"]))
    headings = {
        "F1, training text": "f1, train",
        "F1, test sets": "f1, test",
        "Precision, test sets": "precision, test",
        "Recall, test sets": "recall, test",
    }
    columns = [Figure(heading, results.records.of_domains(metric), ".1f") for heading, metric in headings.items()]
    rows = figure_rows(columns, results.teacher["domains"])
    micro = [
        Figure("", results.records.of_domains(f"micro-averaged F1, {split}"), ".1f") for split in ("train", "test")
    ]
    total = Row("micro-averaged F1", [*figure_rows(micro, [""])[0].cells, NOTHING, NOTHING])
    notes = ["In percent. Training text is labelled by classifiers that did not see it."]
    sentences = results.teacher.get("sentences", {})
    if sentences.get("trained_on", 0) < sentences.get("all", 0):
        share = f"{sentences['trained_on']:,} of {sentences['all']:,} sentences"
        notes.append(f"It was trained on {share}, the same share of every domain (teacher: max_sentences).")
    return Table(title, "Domain", list(headings), [("", rows)], total, below=Below(notes, [FILES["teacher"]]))


def quality_metrics(results: Results) -> list[str]:
    """The metrics that have a table of quality: those of the paper and those that were computed."""
    return [metric for metric in METRICS if metric in _NUMBERS or metric in results.metrics]


def quality(results: Results, design: Design, metric: str) -> Shown:
    """Table 4 (COMET), 10 (chrF) or 11 (BLEU), or one that the paper does not have."""
    number = f"Table {_NUMBERS[metric]}. " if metric in _NUMBERS else ""
    title = f"{number}Translation quality: {metric}"
    if results.scores is None:
        return Missing(title, _not_made(FILES["scores"]))
    if metric not in results.metrics:
        return Missing(title, _why_no_metric(results, metric))
    columns = [(metric, column) for column in [*results.domains, *AVERAGES]]
    headings = [column for _, column in columns]
    return _scores(results, design, title, design.main, columns, headings, [])


def how_to_read(results: Results, design: Design) -> list[Text]:
    """A paragraph on the marks of all tables of scores."""
    if not results.metrics:
        return []
    bold = BEST.removesuffix(".")
    if design.told & set(design.main):
        bold += ". Outputs that are told the domain do not compete: they know what a user would have to find out"
    record = results.scores or {}
    test = record.get("significance") or f"paired bootstrap, {design.resamples} resamples"
    text = (
        f"{bold}. ▲ and ▼ mark what is better or worse than {design.baseline} with p < {SIGNIFICANT:g} ({test}). AVG "
        "is the mean over the domains, wAVG that weighted by training sentences."
    )
    if errors := [metric for metric in results.metrics if METRICS[metric].is_error]:
        text += f" The lower the better: {', '.join(errors)}."
    if record.get("missing"):
        text += f" Not translated when the scores were made: {', '.join(record['missing'])}."
    return [Text(escape(text))]


def misclassified(results: Results, design: Design) -> Shown:
    """Table 5."""
    title = "Table 5. Test sentences that the classifier takes for another domain’s"
    if results.scores is None:
        return Missing(title, _not_made(FILES["scores"]))
    columns = [(metric, MISCLASSIFIED) for metric in results.metrics]
    count, total = results.scores.get("num_misclassified"), sum(results.scores["test_sizes"].values())
    if not any(results.records.figure(name, *column) for name in design.main for column in columns):
        return Missing(title, "not measured: no classifier, or it is never wrong" if not count else "not measured")
    notes = [f"{count:,} of {total:,} test sentences ({_percent(count / total)}%), scored as one corpus."]
    return _scores(results, design, title, design.main, columns, results.metrics, notes)


def comparisons(results: Results, design: Design) -> list[Shown]:
    """Every output beside every baseline: the difference, its interval and p, a table a metric."""
    return [_comparisons(results, design, metric) for metric in results.metrics]


def _comparisons(results: Results, design: Design, metric: str) -> Shown:
    title = f"Comparisons: {metric}"
    baselines = [name for name in dict.fromkeys([design.baseline, *design.compare]) if name in results.outputs]
    names = [name for name in dict.fromkeys([*design.main, *design.ablation]) if name in results.outputs]
    columns = ["AVG", MISCLASSIFIED, *extra_columns(results)]
    columns = [column for column in columns if any(results.records.figure(n, metric, column) for n in names)]
    groups = []
    for baseline in baselines:
        found = {name: [_compared(results, name, baseline, metric, column) for column in columns] for name in names}
        rows = [Row(name, cells) for name, cells in found.items() if any(cell != NOTHING for cell in cells)]
        groups += [(f"over {baseline}", rows)] if rows else []
    if not groups:
        return Missing(title, "not measured: there is nothing to compare")
    notes = [
        "Difference, above zero where the output is better, and its 95 % interval; ▲ better, ▼ worse "
        f"(p < {SIGNIFICANT:g}; {(results.scores or {}).get('significance', 'paired bootstrap')})."
    ]
    return Table(title, "Output", columns, groups, below=Below(notes, [FILES["scores"]]))


def _compared(results: Results, output: str, baseline: str, metric: str, column: str) -> Cell:
    found = results.comparison(output, baseline, metric, column)
    if found is None or found["difference"] is None:
        return NOTHING
    mark = "" if not is_significant(found["p"]) else BETTER if found["difference"] > 0 else WORSE
    low, high = found["low"], found["high"]
    interval = "not tested" if low is None or high is None else f"[{signed(low)}, {signed(high)}]"
    return Cell(signed(found["difference"]), interval, mark=mark)


def trainings(curves: Mapping[str, ValidationCurve], updates: Mapping[str, int]) -> Shown:
    """How long each run was trained, alone and with all that it started from, and the best loss on validation text."""
    title = "Trainings"
    if not curves:
        return Missing(title, "not measured: nothing has been trained")
    rows = []
    for name, curve in curves.items():
        best = min(curve.bits)
        cells = [f"{curve.updates[-1]:,}", f"{updates[name]:,}", f"{best:.3f}", f"{2**best:.1f}"]
        rows.append(Row(name, [Cell(text) for text in cells]))
    headings = ["Updates", "… with those before", "Bits a token", "Perplexity"]
    return Table(
        title, "Run", headings, [("", rows)], below=Below(["On the validation sets, at the best update."], [LOGS])
    )


def own_tests(results: Results, design: Design) -> Shown:
    """The user's own test sets."""
    title = "Your own test sets"
    columns = [(metric, column) for column in extra_columns(results, TEST) for metric in results.metrics]
    if results.scores is None or not columns:
        return Missing(title, "not measured: no sets under evaluate: tests")
    headings = [f"{column.removeprefix(TEST)}: {metric}" for metric, column in columns]
    notes = ["Outputs that must be told the domain translate sets of a known domain alone."]
    return _scores(results, design, title, design.main, columns, headings, notes)


def speed(results: Results, design: Design) -> Shown:
    """Table 7."""
    title = "Table 7. Speed"
    if results.speed is None:
        return Missing(title, f"not measured: there is no {FILES['speed']} (evaluate: speed names the outputs to time)")
    timed = [name for name, entry in results.speed.items() if isinstance(entry, Mapping)]
    names = sorted(timed, key=_by_order(list(design.systems)))
    columns = [
        Figure("Sentences/s", results.records.of_systems("sentences_per_second"), ",.2f", max),
        Figure("Tokens/s", results.records.of_systems("tokens_per_second"), ",.2f", max),
        Figure("Seconds", results.records.of_systems("seconds"), ",.1f"),
        Figure("Classifier’s seconds", results.records.of_systems("classifier_seconds"), ",.1f"),
    ]
    notes = [f"{key.capitalize()}: {results.speed[key]}." for key in ("method", "machine") if results.speed.get(key)]
    below = Below(notes, [FILES["speed"]])
    return figure_table(title, "Output", columns, _by_knowledge(names, design), below, _competing(names, design))


def out_of_domain(results: Results, design: Design) -> Shown:
    """Table 8."""
    title = "Table 8. Out of domain"
    if results.scores is None:
        return Missing(title, _not_made(FILES["scores"]))
    columns = [(metric, column) for column in extra_columns(results, OOD) for metric in results.metrics]
    if not columns:
        return Missing(title, "not measured: no sets under evaluate: ood")
    names = [name for name in design.main if any(results.records.figure(name, *column) for column in columns)]
    headings = [f"{column.removeprefix(OOD)}: {metric}" for metric, column in columns]
    notes = (
        ["Outputs that must be told the domain cannot translate these sets."] if len(names) < len(design.main) else []
    )
    return _scores(results, design, title, names, columns, headings, notes)


def extra_columns(results: Results, *kinds: str) -> list[str]:
    """The columns of sets beside the held-out ones that any output has, in the order of their first mention."""
    domains = dict.fromkeys(record.domain for record in results.records)
    return [domain for domain in domains if domain.startswith(kinds or (TEST, OOD))]


def ablation(results: Results, design: Design) -> Shown:
    """Table 9."""
    title = "Table 9. Ablation"
    if not design.ablation:
        return Missing(title, "none: evaluate: report: ablation names no outputs")
    if results.scores is None:
        return Missing(title, _not_made(FILES["scores"]))
    columns = [(metric, column) for metric in results.metrics for column in AVERAGES]
    headings = [f"{metric}: {column}" for metric, column in columns]
    notes = [f"On the test sets. {design.ablation[0]} is the whole system, the others change a part of it."]
    return _scores(results, design, title, design.ablation, columns, headings, notes)


def agreement(results: Results, outputs: Sequence[str]) -> list[Table]:
    """How often the largest gate is the classifier's first choice, and how often the true domain, by layer."""
    tables: dict[tuple[str, ...], list[tuple[str, list[Row]]]] = {}
    gates, right = results.gates or {}, []
    for output in outputs:
        runs = [gates[run] for run in gate_runs(gates, output)]
        if not runs:
            continue
        layers = (*runs[0]["layers"], "mean")
        columns = [Figure(layer, _agreement(results, output, layer), ".1f") for layer in layers]
        inputs = ["", *(f"{name} alone" for name in ALONE if name in runs[0])]
        rows = [", ".join(filter(None, pair)) for pair in itertools.product(CHOICES, inputs)]
        tables.setdefault(layers, []).append((output, figure_rows(columns, rows)))
        right.append(_percent(runs[0]["teacher_correct"]))
    notes = ["In percent of all test sentences; in a decoder layer, gates are averaged over the target words."]
    if any(name in found for found in gates.values() for name in ALONE):
        notes.append(
            "States alone, source alone: what the largest gate would be if the layer’s states, or the source’s words, "
            "which all layers share, decided without the other."
        )
    if len(set(right)) == 1:
        notes.append(f"The classifier’s own choice is the true domain in {right[0]}%.")
    return [
        Table(
            "Agreement of gates and classifier",
            "Largest gate is …",
            layers,
            groups,
            below=Below(notes, [FILES["gates"]]),
        )
        for layers, groups in tables.items()
    ]


def gate_runs(gates: Mapping[str, Any], output: str) -> list[str]:
    """The runs of an output whose gates were looked at."""
    return [run for run in gates if run == output or run.startswith(f"{output}@")]


def _agreement(results: Results, output: str, layer: str) -> Callable[[str], Measured | None]:
    def figure(row: str) -> Measured | None:
        choice, _, inputs = row.partition(", ")
        return results.records.figure(output, agreement_with(choice, layer, inputs))

    return figure


def _scores(
    results: Results,
    design: Design,
    title: str,
    outputs: Sequence[str],
    columns: Sequence[tuple[str, str]],
    headings: Sequence[str],
    notes: Sequence[str],
) -> Shown:
    """Outputs by columns, each a metric and a column of it."""
    figures = [
        Figure(
            heading,
            results.records.of_systems(*column),
            best=METRICS[column[0]].best,
            mark=_mark(results, design, *column),
            baseline=design.baseline,
        )
        for heading, column in zip(headings, columns, strict=True)
    ]
    names = [name for name in outputs if any(figure.of(name) for figure in figures)]
    notes = [*notes, SPREAD]
    if any(figure.mark(name) for figure in figures for name in names):
        notes.append(f"▲ better, ▼ worse than {design.baseline} (p < {SIGNIFICANT:g}).")
    signed = (results.scores or {}).get("signatures", {})
    signatures = {metric: signed[metric] for metric, _ in columns if metric in signed}
    below = Below(notes, [FILES["scores"]], signatures)
    return figure_table(title, "Output", figures, _by_knowledge(names, design), below, _competing(names, design))


def _mark(results: Results, design: Design, metric: str, column: str) -> Callable[[str], str]:
    def mark(output: str) -> str:
        gain = results.gain(output, design.baseline, metric, column)
        if not gain or output == design.baseline or not is_significant(results.p(output, metric, column)):
            return ""
        return BETTER if gain > 0 else WORSE

    return mark


def _competing(names: Sequence[str], design: Design) -> list[str]:
    """Outputs that are told the domain do not compete with others."""
    return [name for name in names if name not in design.told] or list(names)


def _by_knowledge(names: Sequence[str], design: Design) -> list[tuple[str, list[str]]]:
    """As in the paper, first the outputs that know more than a user would give them."""
    told = [name for name in names if name in design.told]
    others = [name for name in names if name not in design.told]
    return [(_TOLD, told), (_NOT_TOLD, others)] if told and others else [("", list(names))]


def _why_no_metric(results: Results, metric: str) -> str:
    said = (results.scores or {}).get(metric.lower())
    return str(said) if said else "not run"


def _not_made(path: str) -> str:
    return f"not available: there is no {path}"


def _by_order(names: Sequence[str]) -> Callable[[str], tuple[int, str]]:
    """A key that sorts by a list, and what is not in it by name behind."""
    order = {name: number for number, name in enumerate(names)}
    return lambda name: (order.get(name, len(order)), name)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
