"""Report of the recurrent recipe: perplexity and size of each model; tables of Zhang et al. (2016).

*Fast Gated Neural Domain Adaptation: Language Model as a Case Study*, COLING 2016, Tables 1 and 2 and Figure 5.
Perplexity is per token: all words and one end of sentence per line. Splits are ``valid`` and ``test``.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from fairseq_ext.experiments.dagru import KNESER_NEY, combination_of
from fairseq_ext.experiments.metrics.plots import line_panels
from fairseq_ext.experiments.metrics.records import Records
from fairseq_ext.experiments.metrics.render import Page, Plot, Sections
from fairseq_ext.experiments.metrics.tables import Column, Table
from fairseq_ext.experiments.recurrent.config import Recurrent
from fairseq_ext.experiments.report import (
    BEST_EPOCH,
    EPOCHS,
    SECONDS,
    VALID_BY_EPOCH,
    compare_systems,
    domain_column,
    metric_column,
    tuning_tables,
)

PERPLEXITY, PARAMETERS = "perplexity", "parameters"
_PAPER = "{} in Zhang et al. (2016)."
_HIGHEST = 2.5  # times the lowest perplexity; Figure 5 omits higher values
# Panels of Figure 5. The standard model is shown in all of them.
GROUPS = {
    "Baselines": ("fixed", "none"),
    "Adaptation on words": ("wvc", "wvs"),
    "Adaptation on contexts": ("cvc", "wcvc", "cvs", "wcvs"),
    "Gated adaptation": ("wvg", "cvg", "dagru"),
}


# Measurement


def page(config: Recurrent, records: Records) -> Page:
    """Create the report from records. By default, each system is compared with the standard model."""
    combinations = {name: combination_of(system) for name, system in config.systems.items()}
    sections: Sections = {
        "Perplexity": [perplexities(records, combinations), *curves(records, combinations)],
        "Text": [texts(records)],
        "Tuning": tuning_tables(records),
    }
    summary = f"Recurrent language models: perplexity of {len(records.systems(PERPLEXITY))} models."
    systems = records.systems(PERPLEXITY)
    standard = tuple(name for name in systems if combinations.get(name) == "none")[:1]
    pairs = config.compare or {name: standard for name in systems if name not in standard}
    return Page(config.work_dir.name, summary, sections, compare_systems(records, pairs, PERPLEXITY, ["test"]))


def perplexities(records: Records, combinations: Mapping[str, str]) -> Table:
    """Create Table 2: perplexity."""
    by_system = {KNESER_NEY: KNESER_NEY, **combinations}
    order = [KNESER_NEY, *chain.from_iterable(GROUPS.values())]
    rows = sorted(records.systems(PERPLEXITY), key=lambda system: order.index(by_system[system]))
    columns = [
        Column("Combination", by_system.__getitem__),
        metric_column(records, "Validation", PERPLEXITY, "valid", best=min),
        metric_column(records, "Test", PERPLEXITY, "test", best=min),
        Column("Parameters", lambda row: records.value(row, PARAMETERS), ",.0f"),
        Column("Best epoch", lambda row: records.mean(row, BEST_EPOCH), ".1f"),
        Column("Epochs", lambda row: records.value(row, EPOCHS), ".0f"),
        Column("Seconds", lambda row: records.value(row, SECONDS), ",.0f"),
    ]
    notes = [
        "Perplexity is per token: each word, including <unk>, and one end of sentence per line. The checkpoint is the "
        "one with the lowest perplexity on the validation set. Parameters exclude general-domain word vectors, which "
        f"are not trained; for {KNESER_NEY}, they are n-grams. Seconds include training and validation.",
        _PAPER.format("Table 2"),
    ]
    return Table("Perplexity of the models", "System", rows, columns, notes)


def texts(records: Records) -> Table:
    """Create Table 1: size of the text."""
    headings = {"Sentences": "lines", "Tokens": "tokens", "Unknown words": "unknown", "Different words": "words"}
    columns = [domain_column(records, heading, metric) for heading, metric in headings.items()]
    notes = ["Tokens are words and ends of lines. Unknown words are not in the vocabulary.", _PAPER.format("Table 1")]
    return Table("Size of the text", "Set", records.domains("lines"), columns, notes)


def curves(records: Records, combinations: Mapping[str, str]) -> list[Plot]:
    """Create Figure 5: validation perplexity by epoch for the first run of each system.

    The list is empty before any system is trained.
    """
    by_epoch = records.select(VALID_BY_EPOCH)
    first = {record.system: record.run for record in reversed(by_epoch)}
    lines: dict[str, dict[float, float]] = {name: {} for name in combinations}
    for record in by_epoch:
        if record.run == first[record.system]:
            lines[record.system][float(record.dims["epoch"])] = record.value
    lowest = min((value for line in lines.values() for value in line.values()), default=None)
    if lowest is None:
        return []
    drawn = {name: {x: y for x, y in line.items() if y <= _HIGHEST * lowest} for name, line in lines.items() if line}
    panels = {}
    for title, members in GROUPS.items():
        if any(combinations[name] in members for name in drawn):
            shown = ("none", *members)
            panels[title] = {name: line for name, line in drawn.items() if combinations[name] in shown}
    note = f"The first run of each system. Perplexities above {_HIGHEST:g} times the lowest are omitted. "
    note += _PAPER.format("Figure 5")
    return [
        Plot("curves", "Perplexity of the validation set by epoch", line_panels(panels, "epoch", "perplexity"), note)
    ]
