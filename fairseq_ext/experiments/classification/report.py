"""The report of an experiment with tasks: a page for people, the same as Markdown, and its pictures.

All figures come from the records that other steps left; what was not measured is said to be missing.
"""

from __future__ import annotations

from fairseq_ext.engine.steps import Step
from fairseq_ext.experiments.classification import pictures, tables
from fairseq_ext.experiments.classification.claims import best_adapters, findings
from fairseq_ext.experiments.classification.config import ClassificationExperiment
from fairseq_ext.experiments.classification.results import SHARE, TaskDesign, TaskResults, read_results, result_files
from fairseq_ext.experiments.tuning_report import TuningReport
from fairseq_ext.report.content import Block, Missing, Picture, Report, Section
from fairseq_ext.report.writing import find_reading, reading_sections

_VERSION = 3


def report_step(config: ClassificationExperiment) -> Step:
    """The step that writes ``report/`` of what there is, so make it when the other steps have run.

    Raises:
        InputError: naming a key of the file, or a reading that is not there.
    """
    reading = find_reading(config.path, "evaluate: reading", config.evaluate.reading)
    systems = {name: each.system for name, each in config.systems.items() if each.checkpoint is None}
    tuning = TuningReport.of(config, systems, config.runs.__getitem__)
    options = {"version": _VERSION, "design": repr(TaskDesign.of(config))}
    return tuning.step(result_files(config), reading, options, lambda: make_report(config))


def make_report(config: ClassificationExperiment) -> Report:
    """Everything that the report says."""
    design, results = TaskDesign.of(config), read_results(config)
    reading = find_reading(config.path, "evaluate: reading", config.evaluate.reading)
    sections = [
        *reading_sections(reading),
        Section("findings", "Against the paper", [findings(results, design)]),
        Section("results", "Results", _results_blocks(results, design)),
        Section(
            "parameters",
            "Parameters",
            [
                _or_missing(pictures.draw_trade_off(results, design), "Distance to full fine-tuning"),
                _or_missing(pictures.draw_trade_off_by_task(results, design), "Results by trained parameters"),
            ],
        ),
        Section("tasks", "Tasks", [tables.tasks(results, design)]),
    ]
    return Report(
        f"Experiment report: {design.name}",
        _lead(results, design),
        _tiles(results, design),
        sections,
        [
            "Tables and figures are numbered as in “Parameter-Efficient Transfer Learning for NLP”. Files are named "
            "relative to the experiment’s folder."
        ],
        results.records,
    )


def _results_blocks(results: TaskResults, design: TaskDesign) -> list[Block]:
    return [
        tables.main_results(results, design),
        *tables.other_metrics(results, design),
        tables.validation(results, design),
    ]


def _or_missing(picture: Picture | None, title: str) -> Block:
    return picture or Missing(title, "not measured")


def _lead(results: TaskResults, design: TaskDesign) -> str:
    """What came out, in a sentence of numbers."""
    adapters, full = best_adapters(results, design), design.full
    average = results.average(design, adapters) if adapters else None
    if adapters is None or average is None:
        return "Nothing has been measured yet."
    share = tables.percent(results.over_tasks(adapters, SHARE) or 0)
    said = (
        f"{adapters.name}, the best adapters on the validation sets, reach {average:.1f} on the test sets of "
        f"{len(design.tasks)} tasks on average, and train {share} of the base’s parameters for each"
    )
    other = results.average(design, full) if full else None
    if full is None or other is None:
        return f"{said}."
    return f"{said}; {full.name} reaches {other:.1f}."


def _tiles(results: TaskResults, design: TaskDesign) -> list[tuple[str, str]]:
    counts = {record["task"]: record["counts"].get("train", 0) for record in results.predictions.values()}
    bases = {record["parameters"]["base"] for record in results.predictions.values()}
    tiles = [("Tasks", f"{len(design.tasks)}")]
    tiles += [("Training examples", f"{sum(counts.values()):,}")] if counts else []
    tiles += [("Parameters of the base", f"{min(bases):,}")] if bases else []
    return [*tiles, ("Systems", f"{len(design.methods)}"), ("Trainings", f"{len(design.runs)}")]
