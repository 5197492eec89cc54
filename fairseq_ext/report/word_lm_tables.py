"""The tables of a report on word language models: the paper's Table 2 and findings beside what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from fairseq_ext.pipeline.word_lm_training import KNESER_NEY
from fairseq_ext.report.content import NOTHING, Below, Cell, Missing, Row, Table
from fairseq_ext.report.word_lm_results import (
    COUNTS_FILE,
    COVERAGE_FILE,
    PERPLEXITY_FILE,
    TRAINING_FILE,
    WordLmDesign,
    WordLmResults,
)

Shown = Table | Missing
NOT_MEASURED = "not measured"
# Zhang et al. (2016), Table 2: perplexity of validation and test set, by combination.
PAPER = {
    KNESER_NEY: (148.007, 141.186),
    "fixed": (121.871, 117.730),
    "none": (92.983, 89.295),
    "wvc": (95.149, 91.414),
    "wvs": (88.398, 85.231),
    "cvc": (90.337, 86.168),
    "wcvc": (88.551, 85.067),
    "cvs": (88.244, 84.721),
    "wcvs": (90.293, 86.679),
    "wvg": (90.937, 87.853),
    "cvg": (90.301, 86.832),
    "dagru": (86.247, 81.900),
}
GROUPS = {
    "Baselines": (KNESER_NEY, "fixed", "none"),
    "Adaptation on words": ("wvc", "wvs"),
    "Adaptation on contexts": ("cvc", "wcvc", "cvs", "wcvs"),
    "Gated adaptation": ("wvg", "cvg", "dagru"),
}


@dataclass(frozen=True)
class Finding:
    """That one combination has a lower perplexity on the test set than others.

    Attributes:
        text: in words.
        lower: the combination that is lower.
        higher: those that are higher.
    """

    text: str
    lower: str
    higher: Sequence[str]


FINDINGS = (
    Finding("A GRU beats the n-gram model", "none", [KNESER_NEY]),
    Finding("Trained word vectors beat fixed ones", "none", ["fixed"]),
    Finding("Summing words beats the standard model", "wvs", ["none"]),
    Finding("Concatenating words beats the standard model", "wvc", ["none"]),
    Finding("Summing words beats concatenating them", "wvs", ["wvc"]),
    Finding("Summing contexts beats concatenating them", "cvs", ["cvc"]),
    Finding("Weights help where contexts are concatenated", "wcvc", ["cvc"]),
    Finding("Weights help where contexts are summed", "wcvs", ["cvs"]),
    Finding("DAGRU beats the standard model", "dagru", ["none"]),
    Finding("DAGRU beats either of its gates alone", "dagru", ["wvg", "cvg"]),
    Finding("DAGRU beats all others", "dagru", [name for name in PAPER if name != "dagru"]),
)


def perplexities(results: WordLmResults, design: WordLmDesign) -> Shown:
    """Table 2."""
    title = "Table 2. Perplexity"
    groups = [(heading, _rows(results, design, members)) for heading, members in GROUPS.items()]
    if not any(rows for _, rows in groups):
        return Missing(title, NOT_MEASURED)
    notes = [
        "Per token: every word, and one end a line; <unk> is a word like any other. Sets are read from their first "
        "word to their last, in one row. The checkpoint is that of the lowest perplexity on the validation set."
    ]
    if design.order:
        how = "fitted to the validation set" if design.discounts == "held-out" else "found on the training text"
        notes.append(
            f"{KNESER_NEY}: all {design.order}-grams, modified Kneser-Ney smoothing, discounts {how}; its parameters "
            "are n-grams. The other models’ do not count general-domain word vectors, which are not trained."
        )
    if any(len(runs) > 1 for runs in design.runs.values()):
        notes.append("± is the standard deviation over training runs.")
    notes.append("Seconds are those of the training, validation after every epoch included. Bold is the best.")
    columns = [
        "Validation",
        "Test",
        "Paper: validation",
        "Paper: test",
        "Parameters",
        "Best epoch",
        "Epochs",
        "Seconds",
    ]
    below = Below(notes, [PERPLEXITY_FILE.format("*"), TRAINING_FILE.format("*")])
    return Table(title, "System", columns, _mark_best([group for group in groups if group[1]]), below=below)


def findings(results: WordLmResults, design: WordLmDesign) -> Shown:
    """One row a finding of the paper."""
    title = "The paper’s findings"
    rows = []
    for finding in FINDINGS:
        paper = _verdict([PAPER[finding.lower][1]], [[PAPER[name][1]] for name in finding.higher])
        lower = _measured(results, design, finding.lower)
        higher = [found for name in finding.higher if (found := _measured(results, design, name))]
        rows.append(Row(finding.text, [Cell(paper), Cell(_verdict(lower, higher) if lower else NOT_MEASURED)]))
    if all(row.cells[1].text == NOT_MEASURED for row in rows):
        return Missing(title, NOT_MEASURED)
    notes = [
        "Perplexity on the test set; of several others, the lowest one measured. Yes and no say which is lower, and "
        "are no test of significance."
    ]
    below = Below(notes, [PERPLEXITY_FILE.format("*")])
    return Table(title, "Finding", ["In the paper", "Here"], [("", rows)], is_text=True, below=below)


def word_vectors(results: WordLmResults) -> Shown:
    """How many words of the text have a general-domain vector."""
    title = "Words and their general-domain vectors"
    if not results.coverage:
        return Missing(title, "there are no word vectors")
    rows = [
        Row(
            file.rpartition("/")[2],
            [
                Cell(f"{entry['dimension']:,}"),
                Cell(f"{entry['found']:,}"),
                Cell(f"{entry['missing']:,}"),
                Cell(f"{100 * (1 - entry['coverage']):.1f}%"),
                Cell(", ".join(entry["missing_words"][:8])),
            ],
        )
        for file, entry in results.coverage.items()
    ]
    notes = [
        "Of the training text; <unk> and the ends of lines are left out. Missing words have the same fixed vector."
    ]
    columns = ["Dimensions", "Found", "Missing", "Of the running text", "The most frequent of them"]
    return Table(title, "File", columns, [("", rows)], below=Below(notes, [COVERAGE_FILE]))


def texts(results: WordLmResults) -> Shown:
    """Table 1: how large the text is."""
    title = "Table 1. The text"
    if not results.counts:
        return Missing(title, "not available: it has not been prepared")
    rows = [
        Row(split, [Cell(f"{entry[key]:,}") for key in ("lines", "tokens", "unknown")])
        for split, entry in results.counts.items()
    ]
    notes = [
        f"{results.counts['train']['words']:,} different words. Tokens are words and the ends of lines; unknown words "
        "are those that the training text does not have."
    ]
    columns = ["Sentences", "Tokens", "Unknown words"]
    return Table(title, "Set", columns, [("", rows)], below=Below(notes, [COUNTS_FILE]))


def _rows(results: WordLmResults, design: WordLmDesign, members: Sequence[str]) -> list[Row]:
    rows = []
    for combination in members:
        names = [KNESER_NEY] if combination == KNESER_NEY else design.with_combination(combination)
        rows += [
            Row(name, _cells(results, design.runs_of(name), combination))
            for name in names
            if results.perplexities(design.runs_of(name), "test")
        ]
    return rows


def _cells(results: WordLmResults, runs: Sequence[str], combination: str) -> list[Cell]:
    valid, test = (_mean_cell(results.perplexities(runs, split)) for split in ("valid", "test"))
    paper = [Cell(f"{figure:.1f}") for figure in PAPER[combination]]
    parameters = next(results.perplexity[run]["parameters"] for run in runs if run in results.perplexity)
    logs = [results.logs[run] for run in runs if run in results.logs]
    best = [log.best_epoch for log in logs if log.best_epoch]
    seconds = [log.seconds for log in logs if log.seconds is not None]
    return [
        valid,
        test,
        *paper,
        Cell(f"{parameters:,}"),
        Cell(", ".join(map(str, best))) if best else NOTHING,
        Cell(str(max(max(log.valid) for log in logs if log.valid))) if best else NOTHING,
        Cell(f"{statistics.fmean(seconds):,.0f}") if seconds else NOTHING,
    ]


def _mean_cell(values: Sequence[float]) -> Cell:
    note = f"±{statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return Cell(f"{statistics.fmean(values):.2f}", note)


def _mark_best(groups: Sequence[tuple[str, Sequence[Row]]]) -> list[tuple[str, Sequence[Row]]]:
    """Mark the lowest figures measured of validation and test set."""
    lowest = [min(float(row.cells[place].text) for _, rows in groups for row in rows) for place in (0, 1)]

    def marked(row: Row) -> Row:
        first = [Cell(c.text, c.note, float(c.text) == low) for c, low in zip(row.cells[:2], lowest, strict=True)]
        return Row(row.name, [*first, *row.cells[2:]])

    return [(heading, [marked(row) for row in rows]) for heading, rows in groups]


def _measured(results: WordLmResults, design: WordLmDesign, combination: str) -> list[float]:
    """Mean test perplexities of the systems of a combination."""
    names = [KNESER_NEY] if combination == KNESER_NEY else design.with_combination(combination)
    found = (results.perplexities(design.runs_of(name), "test") for name in names)
    return [statistics.fmean(values) for values in found if values]


def _verdict(lower: Sequence[float], higher: Sequence[Sequence[float]]) -> str:
    """Whether the best of some is lower than the best of others."""
    if not higher:
        return NOT_MEASURED
    low, high = min(lower), min(min(found) for found in higher)
    return f"{'yes' if low < high else 'no'}: {low:.1f}, {high:.1f}"
