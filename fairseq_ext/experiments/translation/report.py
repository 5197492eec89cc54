"""The report of an experiment: one page for people, the same as Markdown, and its pictures.

Its tables and figures are numbered as in Klimaszewski et al. (2023). All figures come from the records that other
steps left (:data:`fairseq_ext.experiments.translation.results.FILES`); what was not measured is said to be missing.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from fairseq_ext.engine.steps import Step, add_step_options, run_steps
from fairseq_ext.experiments.translation import gate_pictures, pictures, tables
from fairseq_ext.experiments.translation.config import load_config
from fairseq_ext.experiments.translation.control import base_systems, continued_systems
from fairseq_ext.experiments.translation.convergence import (
    ValidationCurve,
    log_files,
    read_curves,
    total_updates,
    warnings_of,
)
from fairseq_ext.experiments.translation.disagreements import example_files, read_examples
from fairseq_ext.experiments.translation.experiment import TranslationExperiment
from fairseq_ext.experiments.translation.results import DISAGREEMENTS, FILES, Design, Results, read_results
from fairseq_ext.experiments.translation.verdict import recommend, summary
from fairseq_ext.experiments.tuning_report import TuningReport
from fairseq_ext.inputs.errors import run_command
from fairseq_ext.report.content import Block, Missing, Report, Section, Text
from fairseq_ext.report.markdown import escape
from fairseq_ext.report.writing import PAGE_FILE, find_reading, reading_sections

_VERSION = 5


def report_step(config: TranslationExperiment) -> Step:
    """The step that writes ``report/``: ``report.md``, ``report.html`` and pictures.

    It reports on what there is, so make it when the other steps have run.

    Args:
        config: the experiment.

    Raises:
        InputError: if ``evaluate: report`` names a file that is not there.
    """
    design, reading = Design.of(config), reading_path(config)
    tuning = TuningReport.of(config, config.systems, config.runs)
    files = [config.work_dir / name for name in [*FILES.values(), DISAGREEMENTS]]
    logs = log_files(config)
    if config.evaluate.report.examples and files[-1].is_file():
        files += example_files(config, design.main, read_results(config.work_dir).domains)
    options = {
        "version": _VERSION,
        "name": design.name,
        "langs": list(design.langs),
        "main": list(design.main),
        "ablation": list(design.ablation),
        "baseline": design.baseline,
        "compare": list(design.compare),
        "told": sorted(design.told),
        "sources": dict(design.sources),
        "gated": sorted(design.gated),
        "systems": dict(design.systems),
        "starts": dict(design.starts),
        "per_domain": sorted(design.per_domain),
        "resamples": design.resamples,
        "examples": config.evaluate.report.examples,
    }
    return tuning.step([*files, *logs], reading, options, lambda: make_report(config))


def make_report(config: TranslationExperiment) -> Report:
    """Everything that the report says."""
    design, results, curves = Design.of(config), read_results(config.work_dir), read_curves(config)
    warnings = warnings_of(config, curves)
    sections = [
        *reading_sections(reading_path(config)),
        Section("trainings", "Has the base model converged?", _trainings(config, results, design, curves, warnings)),
        Section("data", "Data", [tables.training_sizes(results), *_distances(results)]),
        Section("systems", "Systems", [tables.parameters(results, design)]),
        Section("classifier", "The classifier", [tables.classifier(results), _confusion(results)]),
        Section("quality", "Translation quality", _quality(results, design)),
        Section("comparisons", "Compared with the controls", _comparisons(config, results, design)),
        Section("tests", "Your own test sets", [tables.own_tests(results, design)]),
        Section(
            "misclassified",
            "Where the classifier is wrong",
            [tables.misclassified(results, design), read_examples(config, design, results)],
        ),
        Section("speed", "Speed", [tables.speed(results, design)]),
        Section("ood", "Out of domain", [tables.out_of_domain(results, design)]),
        Section("ablation", "Ablation", [tables.ablation(results, design)]),
        Section("gates", "What the gates decide", _gates(results, design, config.evaluate.report.examples)),
    ]
    if advice := recommend(results, design, warnings):
        sections.append(Section("recommendation", "Which system to deploy", [Text(escape(advice))]))
    return Report(
        f"Experiment report: {design.name}, {design.langs[0]}–{design.langs[1]}",
        summary(results, design, warnings),
        _tiles(results, design),
        [section for section in sections if not all(isinstance(block, Missing) for block in section.blocks)],
        [
            "Tables and figures are numbered as in Klimaszewski et al. (2023), “Gated Adapters for Multi-Domain Neural "
            "Machine Translation”. Files are named relative to the experiment’s folder."
        ],
        results.records,
    )


def reading_path(config: TranslationExperiment) -> Path | None:
    """The Markdown file with words on the results, if any; see :func:`find_reading`."""
    return find_reading(config.path, "evaluate: report: reading", config.evaluate.report.reading)


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/report.sh``."""
    parser = argparse.ArgumentParser(
        prog="scripts/report.sh",
        description="Write the report of an experiment: what has been measured, as a page, Markdown and pictures.",
    )
    parser.add_argument("config", type=Path, help="experiment file (YAML), see configs/")
    add_step_options(parser)
    options = parser.parse_args(arguments)
    step = report_step(load_config(options.config))
    run_steps([step], dry_run=options.dry_run)
    if not options.dry_run:
        print(step.output / PAGE_FILE)


def _quality(results: Results, design: Design) -> list[Block]:
    gains = pictures.draw_gains(results, design)
    metrics = [tables.quality(results, design, metric) for metric in tables.quality_metrics(results)]
    return [*tables.how_to_read(results, design), *([gains] if gains else []), *metrics]


def _trainings(
    config: TranslationExperiment,
    results: Results,
    design: Design,
    curves: dict[str, ValidationCurve],
    warnings: Sequence[str],
) -> list[Block]:
    bases = {name: curve for name, curve in curves.items() if name.partition("@")[0] in base_systems(config.systems)}
    updates = {name: total_updates(config, curves, name) for name in curves}
    said = [Text(escape(f"Warning: {warning}.")) for warning in warnings]
    drawn = [pictures.draw_curves(bases)] if bases else []
    return [*said, *drawn, tables.trainings(curves, updates)]


def _comparisons(config: TranslationExperiment, results: Results, design: Design) -> list[Block]:
    return [_controls(config), *tables.comparisons(results, design)]


def _controls(config: TranslationExperiment) -> Text:
    """A sentence on what the controls are."""
    continued = continued_systems(config.systems)
    if not continued:
        return Text(
            "No system continues the base model on all domains, so nothing here tells what adapters gain from what "
            "longer training gains."
        )
    names = ", ".join(f"*{escape(name)}* continues *{escape(base)}*" for name, base in continued.items())
    return Text(f"{names} on all domains: what further training gains without adapters.")


def _distances(results: Results) -> list[Block]:
    title = "Figure 3. A-Proxy distance between the domains"
    if results.distances is None:
        missing = Missing(title, f"not available: there is no {FILES['distances']}")
        return [] if len(results.domains) == 1 else [missing]
    return [pictures.draw_distances(results.distances)]


def _confusion(results: Results) -> Block:
    if results.teacher is None:
        return Missing("Figure 4. The classifier’s confusion matrix", f"not available: there is no {FILES['teacher']}")
    return pictures.draw_confusion(results.teacher)


def _gates(results: Results, design: Design, examples: int) -> list[Block]:
    gates = results.gates or {}
    named = dict.fromkeys([*design.main, *design.ablation])
    outputs = [name for name in named if tables.gate_runs(gates, name)]
    if not outputs:
        return [Missing("Gate weights", f"not available: no output has gates in {FILES['gates']}")]
    firsts = [tables.gate_runs(gates, output)[0] for output in outputs]
    blocks: list[Block] = [*tables.agreement(results, outputs), gate_pictures.draw_agreement(gates, firsts)]
    if results.joined:
        blocks += [gate_pictures.draw_change(results.joined), *gate_pictures.draw_sentences(results.joined, examples)]
    for output in outputs:
        if output in design.main:
            # Of several runs the first: they were trained alike.
            run = tables.gate_runs(gates, output)[0]
            blocks += [pictures.draw_mean_gates(run, gates[run]), pictures.draw_gate_layers(run, gates[run])]
    return blocks


def _tiles(results: Results, design: Design) -> list[tuple[str, str]]:
    if results.scores is None:
        return []
    sizes = {key: sum(results.scores[f"{key}_sizes"].values()) for key in ("train", "test")}
    wrong = results.scores.get("num_misclassified")
    return [
        ("Domains", f"{len(results.domains)}"),
        ("Training pairs", f"{sizes['train']:,}"),
        ("Test sentences", f"{sizes['test']:,}"),
        *([("The classifier is wrong", f"{100 * wrong / sizes['test']:.1f}%")] if wrong and sizes["test"] else []),
        ("Outputs", f"{len(results.outputs)}"),
    ]


if __name__ == "__main__":
    run_command(main)
