"""The report's tables, numbered as in Klimaszewski et al. (2023)."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fairseq_ext.evaluation.bootstrap import SIGNIFICANT, is_significant
from fairseq_ext.report.content import NOTHING, Below, Cell, Missing, Row, Table, TextBlock
from fairseq_ext.report.results import FILES, Design, Results

Shown = Table | Missing
AVERAGES = ("AVG", "wAVG")
MISCLASSIFIED = "misclassified"
OOD = "ood:"
QUALITY_TABLES = {"COMET": 4, "chrF": 10, "BLEU": 11}
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
    counts = parameters_by_system(results)
    base = design.systems.get(design.baseline)
    reference = counts[base]["total"] if base in counts else None
    rows = []
    for name in sorted(counts, key=_by_order(list(design.starts))):
        count, models = counts[name], counts[name]["models"] if name in design.per_domain else 1
        times = f"{models} × " if models > 1 else ""
        more = models * count["total"] - reference if reference is not None else 0
        cells = [
            Cell(f"{times}{count['total']:,}", f"[{more:+,}]" if more else ""),
            Cell(f"{times}{count['trained']:,}"),
            Cell(str(count.get("arch") or "–")),
        ]
        rows.append(Row(name, cells))
    notes = [f"In brackets: more than {base}."] if reference is not None else []
    return Table(
        title,
        "System",
        ["Parameters", "Trained", "Architecture"],
        [("", rows)],
        below=Below(notes, [FILES["parameters"]]),
    )


def parameters_by_system(results: Results) -> dict[str, dict[str, Any]]:
    """The parameters of one run of each system, and as ``models`` how many runs there are."""
    counts: dict[str, dict[str, Any]] = {}
    for run, count in (results.parameters or {}).items():
        entry = counts.setdefault(run.split("@")[0], {**count, "models": 0})
        entry["models"] += 1
    return counts


def classifier(results: Results) -> Shown:
    """Table 3, by domain."""
    title = "Table 3. The classifier"
    if results.teacher is None:
        return Missing(title, _not_made(FILES["teacher"]))
    metrics = results.teacher["metrics"]
    test = metrics["test"]["per_domain"]
    rows = [
        Row(
            name,
            [
                *(Cell(_percent(metrics[split]["per_domain"][name]["f1"])) for split in ("train", "test")),
                *(Cell(_percent(test[name][key])) for key in ("precision", "recall")),
            ],
        )
        for name in results.teacher["domains"]
    ]
    total = Row(
        "micro-averaged F1",
        [*(Cell(_percent(metrics[split]["micro_f1"])) for split in ("train", "test")), NOTHING, NOTHING],
    )
    columns = ["F1, training text", "F1, test sets", "Precision, test sets", "Recall, test sets"]
    notes = ["In percent. Training text is labelled by classifiers that did not see it."]
    return Table(title, "Domain", columns, [("", rows)], total, below=Below(notes, [FILES["teacher"]]))


def quality(results: Results, design: Design, metric: str) -> Shown:
    """Table 4 (COMET), 10 (chrF) or 11 (BLEU)."""
    title = f"Table {QUALITY_TABLES[metric]}. Translation quality: {metric}"
    if results.scores is None:
        return Missing(title, _not_made(FILES["scores"]))
    if metric not in results.metrics:
        return Missing(title, _why_no_metric(results, metric))
    columns = [(metric, column) for column in [*results.domains, *AVERAGES]]
    headings = [column for _, column in columns]
    return _scores(results, design, title, design.main, columns, headings, [])


def how_to_read(results: Results, design: Design) -> list[TextBlock]:
    """A paragraph on the marks of all tables of scores."""
    if not results.metrics:
        return []
    bold = "Bold is the best of a column"
    if design.told & set(design.main):
        bold += " among the outputs that are not told the domain; the others know what a user would have to find out"
    record = results.scores or {}
    test = record.get("significance") or f"paired bootstrap, {design.resamples} resamples"
    text = (
        f"{bold}. ▲ and ▼ mark what is better or worse than {design.baseline} with p < {SIGNIFICANT:g} ({test}). AVG "
        "is the mean over the domains, wAVG that weighted by training sentences."
    )
    if record.get("missing"):
        text += f" Not translated when the scores were made: {', '.join(record['missing'])}."
    return [TextBlock("p", [[("plain", text)]])]


def misclassified(results: Results, design: Design) -> Shown:
    """Table 5."""
    title = "Table 5. Test sentences that the classifier takes for another domain’s"
    if results.scores is None:
        return Missing(title, _not_made(FILES["scores"]))
    columns = [(metric, MISCLASSIFIED) for metric in results.metrics]
    count, total = results.scores.get("num_misclassified"), sum(results.scores["test_sizes"].values())
    if not any(results.score(name, *column) for name in design.main for column in columns):
        return Missing(title, "not measured: no classifier, or it is never wrong" if not count else "not measured")
    notes = [f"{count:,} of {total:,} test sentences ({_percent(count / total)}%), scored as one corpus."]
    return _scores(results, design, title, design.main, columns, results.metrics, notes)


def speed(results: Results, design: Design) -> Shown:
    """Table 7."""
    title = "Table 7. Speed"
    if results.speed is None:
        return Missing(title, f"not measured: there is no {FILES['speed']} (evaluate: speed names the outputs to time)")
    timed = {name: entry for name, entry in results.speed.items() if isinstance(entry, Mapping)}
    names = sorted(timed, key=_by_order(list(design.systems)))
    rows = []
    for name in names:
        total = sum(domain["seconds"] for domain in timed[name]["domains"].values())
        spent = sum(domain.get("classifier_seconds") or 0 for domain in timed[name]["domains"].values())
        rates = (timed[name]["sentences_per_second"], timed[name]["tokens_per_second"])
        rows.append(
            Row(name, [*(Cell(f"{rate:,.2f}") for rate in rates), Cell(f"{total:,.1f}"), Cell(f"{spent:,.1f}")])
        )
    columns = ["Sentences/s", "Tokens/s", "Seconds", "Classifier’s seconds"]
    notes = [f"{key.capitalize()}: {results.speed[key]}." for key in ("method", "machine") if results.speed.get(key)]
    groups = _by_knowledge(_mark_best(rows, names, design, 2), design)
    return Table(title, "Output", columns, groups, below=Below(notes, [FILES["speed"]]))


def out_of_domain(results: Results, design: Design) -> Shown:
    """Table 8."""
    title = "Table 8. Out of domain"
    if results.scores is None:
        return Missing(title, _not_made(FILES["scores"]))
    columns = [(metric, column) for column in ood_columns(results) for metric in results.metrics]
    if not columns:
        return Missing(title, "not measured: no sets under evaluate: ood")
    names = [name for name in design.main if any(results.score(name, *column) for column in columns)]
    headings = [f"{column.removeprefix(OOD)}: {metric}" for metric, column in columns]
    notes = (
        ["Outputs that must be told the domain cannot translate these sets."] if len(names) < len(design.main) else []
    )
    return _scores(results, design, title, names, columns, headings, notes)


def ood_columns(results: Results) -> list[str]:
    """The columns of out-of-domain sets that any output has, in the order of their first mention."""
    columns = (column for scores in results.outputs.values() for score in scores.values() for column in score)
    return list(dict.fromkeys(column for column in columns if column.startswith(OOD)))


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
        layers = tuple(runs[0]["layers"])
        rows = []
        for name, key in (("the classifier’s choice", "agreement"), ("the true domain", "correct")):
            shares = [[*run[key], statistics.fmean(run[key])] for run in runs]
            rows.append(
                Row(name, [_mean_cell([100 * share for share in layer]) for layer in zip(*shares, strict=True)])
            )
        tables.setdefault(layers, []).append((output, rows))
        right.append(_percent(runs[0]["teacher_correct"]))
    notes = ["In percent of all test sentences; in a decoder layer, gates are averaged over the target words."]
    if len(set(right)) == 1:
        notes.append(f"The classifier’s own choice is the true domain in {right[0]}%.")
    return [
        Table(
            "Agreement of gates and classifier",
            "Largest gate is …",
            [*layers, "mean"],
            groups,
            below=Below(notes, [FILES["gates"]]),
        )
        for layers, groups in tables.items()
    ]


def gate_runs(gates: Mapping[str, Any], output: str) -> list[str]:
    """The runs of an output whose gates were looked at."""
    return [run for run in gates if run == output or run.startswith(f"{output}@")]


def _scores(
    results: Results,
    design: Design,
    title: str,
    outputs: Sequence[str],
    columns: Sequence[tuple[str, str]],
    headings: Sequence[str],
    notes: Sequence[str],
) -> Table:
    """Outputs by columns, each a metric and a column of it."""
    names = [name for name in outputs if any(results.score(name, *column) for column in columns)]
    rows = [Row(name, [_score_cell(results, design, name, *column) for column in columns]) for name in names]
    cells = [cell for row in rows for cell in row.cells]
    notes = [*notes, *_legend(design, cells)]
    signed = (results.scores or {}).get("signatures", {})
    signatures = {metric: signed[metric] for metric, _ in columns if metric in signed}
    groups = _by_knowledge(_mark_best(rows, names, design, len(columns)), design)
    return Table(title, "Output", headings, groups, below=Below(notes, [FILES["scores"]], signatures))


def _score_cell(results: Results, design: Design, output: str, metric: str, column: str) -> Cell:
    score = results.score(output, metric, column)
    if score is None:
        return NOTHING
    note = f"±{score['sd']:.2f}" if score.get("sd") is not None else ""
    gain = results.gain(output, design.baseline, metric, column)
    mark = ("▲" if gain > 0 else "▼") if gain and output != design.baseline and is_significant(score.get("p")) else ""
    return Cell(f"{score['mean']:.2f}", note, mark=mark)


def _mark_best(rows: Sequence[Row], names: Sequence[str], design: Design, num_columns: int) -> list[Row]:
    """Mark the best of each column, equal figures alike; outputs that are told the domain do not compete."""
    competing = [row for row, name in zip(rows, names, strict=True) if name not in design.told] or rows
    if len(competing) < 2:
        return list(rows)
    best = {}
    for column in range(num_columns):
        figures = [_figure(row.cells[column]) for row in competing if row.cells[column] != NOTHING]
        best[column] = max(figures, default=None)
    return [
        Row(
            row.name,
            [
                Cell(cell.text, cell.note, _is_best(cell, best.get(column)) and row in competing, cell.mark)
                for column, cell in enumerate(row.cells)
            ],
        )
        for row in rows
    ]


def _is_best(cell: Cell, best: float | None) -> bool:
    return best is not None and cell != NOTHING and _figure(cell) == best


def _figure(cell: Cell) -> float:
    # As it is shown: what a reader sees as equal is equal.
    return float(cell.text.replace(",", ""))


def _by_knowledge(rows: Sequence[Row], design: Design) -> list[tuple[str, list[Row]]]:
    """As in the paper, first the outputs that know more than a user would give them."""
    told = [row for row in rows if row.name in design.told]
    others = [row for row in rows if row.name not in design.told]
    if not told or not others:
        return [("", list(rows))]
    return [(_TOLD, told), (_NOT_TOLD, others)]


def _legend(design: Design, cells: Sequence[Cell]) -> list[str]:
    """What marks and numbers in small print mean, where there are any."""
    notes = ["± is the standard deviation over training runs."] if any(cell.note for cell in cells) else []
    if any(cell.mark for cell in cells):
        notes.append(f"▲ better, ▼ worse than {design.baseline} (p < {SIGNIFICANT:g}).")
    return notes


def _mean_cell(values: Sequence[float]) -> Cell:
    deviation = f"±{statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return Cell(f"{statistics.fmean(values):.1f}", deviation)


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
