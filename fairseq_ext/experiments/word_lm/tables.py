"""The tables of a report on word language models: the paper's Table 2 and findings beside what was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from fairseq_ext.experiments.word_lm.results import (
    BEST_EPOCH,
    COUNTS_FILE,
    COVERAGE_FILE,
    EPOCHS,
    PARAMETERS,
    PERPLEXITY,
    PERPLEXITY_FILE,
    SECONDS,
    TRAINING_FILE,
    WordLmDesign,
    WordLmResults,
)
from fairseq_ext.experiments.word_lm.train import KNESER_NEY
from fairseq_ext.report.content import Below, Cell, Missing, Row, Table
from fairseq_ext.report.figures import (
    BEST,
    NOT_MEASURED,
    SPREAD,
    Column,
    Figure,
    Words,
    figure_table,
)
from fairseq_ext.report.records import Measured
from fairseq_ext.report.significance import HOW_SHOWN, is_lower

Shown = Table | Missing
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
    groups = [
        (
            heading,
            [
                name
                for combination in members
                for name in _systems(design, combination)
                if results.records.figure(name, PERPLEXITY, "test")
            ],
        )
        for heading, members in GROUPS.items()
    ]
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
    notes += [SPREAD, "Seconds are those of the training, validation after every epoch included.", BEST]
    below = Below(notes, [PERPLEXITY_FILE.format("*"), TRAINING_FILE.format("*")])
    return figure_table("Table 2. Perplexity", "System", _columns(results, design), groups, below)


def findings(results: WordLmResults, design: WordLmDesign) -> Shown:
    """One row a finding of the paper."""
    title = "The paper’s findings"
    rows = []
    for finding in FINDINGS:
        paper = _verdict([Measured(PAPER[finding.lower][1])], [[Measured(PAPER[name][1])] for name in finding.higher])
        lower = _measured(results, design, finding.lower)
        higher = [found for name in finding.higher if (found := _measured(results, design, name))]
        rows.append(Row(finding.text, [Cell(paper), Cell(_verdict(lower, higher) if lower else NOT_MEASURED)]))
    if all(row.cells[1].text == NOT_MEASURED for row in rows):
        return Missing(title, NOT_MEASURED)
    notes = [f"Perplexity on the test set; of several others, the lowest one measured. {HOW_SHOWN}"]
    below = Below(notes, [PERPLEXITY_FILE.format("*")])
    return Table(title, "Finding", ["In the paper", "Here"], [("", rows)], is_text=True, below=below)


def word_vectors(results: WordLmResults) -> Shown:
    """How many words of the text have a general-domain vector."""
    title = "Words and their general-domain vectors"
    if not results.coverage:
        return Missing(title, "there are no word vectors")
    of = results.records.of_domains
    columns: list[Column] = [
        Figure("Dimensions", of("dimension"), ",.0f"),
        Figure("Found", of("found"), ",.0f"),
        Figure("Missing", of("missing"), ",.0f"),
        Figure("Of the running text", lambda file: Measured(1 - results.coverage[file]["coverage"]), ".1%"),
        Words("The most frequent of them", lambda file: ", ".join(results.coverage[file]["missing_words"][:8])),
    ]
    notes = [
        "Of the training text; <unk> and the ends of lines are left out. Missing words have the same fixed vector."
    ]
    return figure_table(title, "File", columns, [("", list(results.coverage))], Below(notes, [COVERAGE_FILE]))


def texts(results: WordLmResults) -> Shown:
    """Table 1: how large the text is."""
    title = "Table 1. The text"
    if not results.sets:
        return Missing(title, "not available: it has not been prepared")
    keys = {"Sentences": "lines", "Tokens": "tokens", "Unknown words": "unknown"}
    columns = [Figure(heading, results.records.of_domains(key), ",.0f") for heading, key in keys.items()]
    notes = [
        f"{results.records.mean('', 'words', 'train'):,.0f} different words. Tokens are words and the ends of lines; "
        "unknown words are those that the training text does not have."
    ]
    return figure_table(title, "Set", columns, [("", results.sets)], Below(notes, [COUNTS_FILE]))


def _columns(results: WordLmResults, design: WordLmDesign) -> list[Column]:
    """What Table 2 has of every system."""

    of, by_run = results.records.of_systems, results.records.by_run

    # Several of one combination differ in what the paper does not vary.
    firsts = {combination: name for name, combination in reversed(list(design.systems.items()))}

    def paper(place: int) -> Callable[[str], Measured | None]:
        def figure(name: str) -> Measured | None:
            combination = design.systems.get(name, name)
            return Measured(PAPER[combination][place]) if firsts.get(combination, name) == name else None

        return figure

    return [
        Figure("Validation", of(PERPLEXITY, "valid"), best=min),
        Figure("Test", of(PERPLEXITY, "test"), best=min),
        Figure("Paper: validation", paper(0), ".1f"),
        Figure("Paper: test", paper(1), ".1f"),
        Figure("Parameters", of(PARAMETERS, spread=False), ",.0f"),
        Words("Best epoch", lambda name: ", ".join(f"{epoch:.0f}" for epoch in by_run(name, BEST_EPOCH).values())),
        Words("Epochs", lambda name: f"{max(by_run(name, EPOCHS).values()):.0f}" if by_run(name, EPOCHS) else None),
        Figure("Seconds", of(SECONDS, spread=False), ",.0f"),
    ]


def _systems(design: WordLmDesign, combination: str) -> list[str]:
    """The systems of a combination."""
    return [KNESER_NEY] if combination == KNESER_NEY else design.with_combination(combination)


def _measured(results: WordLmResults, design: WordLmDesign, combination: str) -> list[Measured]:
    """Test perplexities of the systems of a combination."""
    found = (results.records.figure(name, PERPLEXITY, "test") for name in _systems(design, combination))
    return [figure for figure in found if figure is not None]


def _verdict(lower: Sequence[Measured], higher: Sequence[Sequence[Measured]]) -> str:
    """Whether the best of some is lower than the best of others."""
    if not higher:
        return NOT_MEASURED
    low, high = (min(figures, key=lambda figure: figure.mean) for figures in (lower, [*chain(*higher)]))
    return f"{is_lower(low, high)}: {low.mean:.1f}, {high.mean:.1f}"
