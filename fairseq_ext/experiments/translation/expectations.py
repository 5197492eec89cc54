"""What people expect of a multi-domain system (Pham, Crego & Yvon 2021), answered by numbers alone.

An answer says what was measured and no more: a difference, whether a test found it significant, or that nothing
was measured.
"""

from __future__ import annotations

from fairseq_ext.experiments.translation.results import FILES, PARAMETERS, Design, Results
from fairseq_ext.experiments.translation.tables import MISCLASSIFIED, OOD, ood_columns
from fairseq_ext.metrics.bootstrap import SIGNIFICANT, is_significant
from fairseq_ext.metrics.corpus_metrics import METRICS
from fairseq_ext.report.content import Below, Cell, Missing, Row, Table
from fairseq_ext.report.page import signed

NOT_MEASURED = "not measured"
_TITLE = "Checklist"


def checklist(results: Results, design: Design) -> Table | Missing:
    """One row a multi-domain output, one column an expectation."""
    if not results.metrics:
        return Missing(_TITLE, f"{NOT_MEASURED}: there is no {FILES['scores']}")
    metric = results.metrics[0]
    fine_tuned = fine_tuned_output(results, design, metric)
    columns = [f"Better than {design.baseline}", f"As good as {fine_tuned or 'a model a domain'}"]
    columns += ["Better where the classifier is wrong", "Better out of domain", "Cost of a domain"]
    rows = []
    for name in design.main:
        if name in (design.baseline, fine_tuned) or name not in results.outputs:
            continue
        answers = [
            beats(results, design, metric, name, "AVG"),
            approaches(results, design, metric, name, fine_tuned),
            beats(results, design, metric, name, MISCLASSIFIED),
            _out_of_domain(results, design, metric, name),
            cost_of_domain(results, design, name),
        ]
        if name in design.told:
            # Told the truth, it shows nothing of what happens without.
            answers[2] = "not applicable: told the true domain"
        rows.append(Row(name, [Cell(answer) for answer in answers]))
    if not rows:
        return Missing(_TITLE, f"{NOT_MEASURED}: there is no output beside {design.baseline}")
    untested = f" Differences to {fine_tuned} were not tested." if fine_tuned else ""
    notes = [
        f"Differences in {metric} points against {design.baseline}, of AVG or of the sentences named. p is that of a "
        f"paired bootstrap; only below {SIGNIFICANT:g} does a difference count as shown.{untested}",
        "Where the classifier is wrong: test sentences that it takes for another domain’s. Out of domain: sets of none "
        "of the domains. Cost of a domain: the parameters that each domain adds; adding one later was not tried.",
    ]
    if METRICS[metric].is_error:
        notes.insert(1, f"Of {metric}, lower is better: a difference above zero says by how much it is lower.")
    sources = [FILES["scores"], *([FILES["parameters"]] if results.parameters is not None else [])]
    return Table(_TITLE, "Output", columns, [("", rows)], is_text=True, below=Below(notes, sources))


def beats(results: Results, design: Design, metric: str, output: str, column: str) -> str:
    """Whether an output is better than the baseline in one column."""
    gain = results.gain(output, design.baseline, metric, column)
    return NOT_MEASURED if gain is None else describe_gain(gain, metric, results.p(output, metric, column))


def describe_gain(gain: float, metric: str, p: float | None) -> str:
    """Whether a difference is a gain, as far as that was shown."""
    difference = describe_difference(gain, metric, p)
    if signed(gain) == "0.0":
        return f"no difference, {difference}"
    if gain < 0:
        return f"no, {difference}"
    if p is None:
        return f"{'lower' if METRICS[metric].is_error else 'higher'}, {difference}"
    return f"yes, {difference}" if is_significant(p) else f"not shown, {difference}"


def describe_difference(gain: float, metric: str, p: float | None) -> str:
    """A difference and what the test said of it."""
    # The spaces do not break.
    tested = "not tested" if p is None else f"p < {SIGNIFICANT:g}" if is_significant(p) else f"p = {p:.2f}"
    return f"{signed(gain)} {metric} ({tested})".replace("p < ", "p\u00a0<\u00a0").replace("p = ", "p\u00a0=\u00a0")


def approaches(results: Results, design: Design, metric: str, output: str, fine_tuned: str | None) -> str:
    """How far an output is from one model a domain, and what share of the baseline's distance it covers."""
    if fine_tuned is None:
        return f"{NOT_MEASURED}: no model a domain"
    gain = results.gain(output, fine_tuned, metric, "AVG")
    whole = results.gain(fine_tuned, design.baseline, metric, "AVG")
    if gain is None or whole is None:
        return NOT_MEASURED
    difference = f"{signed(gain)} {metric}"
    if signed(gain) == "0.0":
        return f"equal, {difference}"
    if gain > 0:
        return f"yes, {difference}"
    covered = gain + whole
    if whole <= 0:
        return f"no, {difference} ({fine_tuned} is itself {signed(whole)} against {design.baseline})"
    if covered <= 0:
        return f"no, {difference}, no nearer than {design.baseline}"
    return f"no, {difference}, but {100 * covered / whole:.0f}% of the way from {design.baseline}"


def cost_of_domain(results: Results, design: Design, output: str) -> str:
    """The parameters of a system beyond those of the one it was made from, by domain."""
    system = design.systems[output]
    total = results.records.mean(system, PARAMETERS)
    if total is None:
        return NOT_MEASURED
    if system in design.per_domain:
        return f"a whole model, {total:,.0f} parameters"
    base = _base_of(results, design, system)
    if base is None:
        return "none; the model is one for all domains"
    base_total = results.records.mean(base, PARAMETERS) or 0
    if total <= base_total:
        return f"no parameters beyond {base}’s"
    each = (total - base_total) / len(results.domains)
    return f"{each:,.0f} parameters, {100 * each / base_total:.2g}% of {base}"


def fine_tuned_output(results: Results, design: Design, metric: str) -> str | None:
    """The output of a system with a model a domain; of several, the best."""
    names = [name for name in design.systems if design.systems[name] in design.per_domain]
    return results.best(names, metric)


def _out_of_domain(results: Results, design: Design, metric: str, output: str) -> str:
    columns = ood_columns(results)
    measured = [column for column in columns if results.records.figure(output, metric, column)]
    if not measured:
        return NOT_MEASURED
    answers = (beats(results, design, metric, output, column) for column in measured)
    return "; ".join(f"{column.removeprefix(OOD)}: {answer}" for column, answer in zip(measured, answers, strict=True))


def _base_of(results: Results, design: Design, system: str) -> str | None:
    """The smallest system that a system descends from, as far as parameters were counted; of several the nearest."""
    base, start = None, design.starts.get(system)
    while start is not None:
        total = results.records.mean(start, PARAMETERS)
        if total is not None and (base is None or total < base[0]):
            base = total, start
        start = design.starts.get(start)
    return base and base[1]
