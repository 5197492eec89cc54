"""The report of an experiment with word language models: a page for people, the same as Markdown, and its picture.

All figures come from the records that other steps left; what was not measured is said to be missing.
"""

from __future__ import annotations

from functools import partial

from fairseq_ext.engine.steps import Step
from fairseq_ext.experiments.tuning_report import TuningReport
from fairseq_ext.experiments.word_lm import tables
from fairseq_ext.experiments.word_lm.config import WordLmExperiment
from fairseq_ext.experiments.word_lm.results import (
    PERPLEXITY,
    TRAINING_FILE,
    WordLmDesign,
    WordLmResults,
    read_results,
    result_files,
)
from fairseq_ext.report.content import Below, Block, Missing, Picture, Report, Section
from fairseq_ext.report.figures import NOT_MEASURED
from fairseq_ext.report.line_charts import Panel, Point, line_panels, plain_number
from fairseq_ext.report.page import NUM_COLOURS, NUM_SERIES
from fairseq_ext.report.significance import describe_range
from fairseq_ext.report.writing import find_reading, reading_sections

_VERSION = 5
_CURVES = "Figure 5. Perplexity of the validation set by epoch"
_MOST_STANDARD = NUM_COLOURS // 2
_HIGHEST = 2.5  # times the lowest perplexity; what is above is not drawn


def report_step(config: WordLmExperiment) -> Step:
    """The step that writes ``report/`` of what there is, so make it when the other steps have run.

    Raises:
        InputError: naming a key of the file, or a reading that is not there.
    """
    reading = find_reading(config.path, "evaluate: reading", config.evaluate.reading)
    systems = {name: each.system for name, each in config.systems.items()}
    tuning = TuningReport.of(config, systems, config.runs.__getitem__)
    options = {"version": _VERSION, "design": repr(WordLmDesign.of(config))}
    return tuning.step(result_files(config), reading, options, lambda: make_report(config))


def make_report(config: WordLmExperiment) -> Report:
    """Everything that the report says."""
    design, results = WordLmDesign.of(config), read_results(config)
    reading = find_reading(config.path, "evaluate: reading", config.evaluate.reading)
    curves: Block = draw_curves(results, design) or Missing(_CURVES, NOT_MEASURED)
    return Report(
        f"Experiment report: {design.name}",
        _lead(results, design),
        _tiles(results, design),
        [
            *reading_sections(reading),
            Section("findings", "Against the paper", [tables.findings(results, design)]),
            Section("perplexity", "Perplexity", [tables.perplexities(results, design), curves]),
            Section("text", "Text and word vectors", [tables.texts(results), tables.word_vectors(results)]),
        ],
        [
            "Tables and figures are numbered as in “Fast Gated Neural Domain Adaptation: Language Model as a Case "
            "Study”. Files are named relative to the experiment’s folder."
        ],
        results.records,
    )


def draw_curves(results: WordLmResults, design: WordLmDesign) -> Picture | None:
    """Figure 5: learning curves by group, the standard models in every panel; None if nothing was trained."""
    logs = {name: results.logs[runs[0]].valid for name, runs in design.runs.items() if runs[0] in results.logs}
    lowest = min((min(valid.values()) for valid in logs.values() if valid), default=None)
    if lowest is None:
        return None
    lines = {
        name: [
            Point(epoch, ppl, f"{name}, epoch {epoch}: {ppl:.1f}")
            for epoch, ppl in valid.items()
            if ppl <= _HIGHEST * lowest
        ]
        for name, valid in logs.items()
    }
    drawn = [name for name, line in lines.items() if line]
    standard = [name for name in drawn if design.systems[name] == "none"][:_MOST_STANDARD]
    shared = {name: number for number, name in enumerate(standard)}
    panels, hidden = [], []
    # The standard models' colours are the same in every panel, and nobody else's.
    free = (number for number in range(NUM_SERIES) if number % NUM_COLOURS >= len(standard))
    for heading, members in tables.GROUPS.items():
        if not any(design.systems[name] in members for name in drawn):
            continue
        own = [name for name in drawn if design.systems[name] in members and name not in standard]
        series = dict(zip(own, free, strict=False))
        numbers = shared | series
        panels.append(Panel(heading, [(number, lines[name]) for name, number in numbers.items()], series=series))
        hidden += own[len(series) :]
    draw = partial(line_panels, panels, shared, "epoch", "perplexity", plain_number, is_log=False)
    shapes, size = draw()
    notes = [f"Perplexities above {_HIGHEST:g} times the lowest are not drawn. Of several runs, the first."]
    if hidden:
        notes.append(f"Not drawn: {', '.join(hidden)}.")
    below = Below(notes, [TRAINING_FILE.format("*")])
    return Picture("curves", _CURVES, *size, shapes, below, draw(is_narrow=True))


def _lead(results: WordLmResults, design: WordLmDesign) -> str:
    """What came out, in a sentence."""
    figures = {name: results.records.figure(name, PERPLEXITY, "test") for name in design.systems}
    found = {name: figure for name, figure in figures.items() if figure is not None}
    if not found:
        return "Nothing has been measured yet."
    standard = [name for name in design.with_combination("none") if name in found]
    return f"Perplexity on the test set: {describe_range(found, min, *standard[:1])}."


def _tiles(results: WordLmResults, design: WordLmDesign) -> list[tuple[str, str]]:
    tiles = [("Systems", f"{len(design.systems)}")]
    if results.sets:
        tiles.insert(0, ("Training tokens", f"{results.records.mean('', 'tokens', 'train'):,.0f}"))
        tiles.insert(1, ("Different words", f"{results.records.mean('', 'words', 'train'):,.0f}"))
    return tiles
