"""What the paper on hierarchical adapters found, beside what was measured here, by numbers alone."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from fairseq_ext.experiments.hierarchy.results import PERPLEXITY_FILE, LmDesign, LmResults, Setup
from fairseq_ext.experiments.hierarchy.tables import (
    domains_of_setup,
    in_domain_columns,
    unseen_columns,
)
from fairseq_ext.report.content import Below, Cell, Missing, Row, Table
from fairseq_ext.report.significance import HOW_SHOWN, is_lower

NOT_MEASURED = "not measured"
_TITLE = "The paper’s findings"


@dataclass(frozen=True)
class Finding:
    """That one column of a table is lower than another, averaged over domains.

    Attributes:
        text: in words.
        by_hand: the paper's figures with a tree drawn by hand (Tables 2 to 4).
        induced: those with an induced one (Tables 5 and 7).
        is_unseen: whether it is about unseen domains.
        lower: heading of the column that is lower, with the systems' kinds in braces.
        higher: of the other.
    """

    text: str
    by_hand: str
    induced: str
    is_unseen: bool
    lower: str
    higher: str


FINDINGS = (
    Finding("In domain, the tree beats one adapter for all", "yes: 15.2, 15.9", "yes: 21.0, 22.3", False,
            "{tree}", "{multi}"),
    Finding("In domain, the tree beats single adapters", "yes: 15.2, 15.8", NOT_MEASURED, False,
            "{tree}", "{single}"),
    Finding("Unseen: one adapter for all beats the bare model", "yes: 24.8, 29.2", "yes: 22.3, 26.8", True,
            "{multi}", "{base}"),
    Finding("Unseen: the tree over one path beats one adapter for all", "no: 25.9, 24.8", "no: 23.0, 22.3", True,
            "{tree}: 1 path", "{multi}"),
    Finding("Unseen: the tree over two paths beats one adapter for all", "yes: 23.8, 24.8", "yes: 21.7, 22.3", True,
            "{tree}: 2 paths", "{multi}"),
    Finding("Unseen: two paths beat one", "yes: 23.8, 25.9", "yes: 21.7, 23.0", True,
            "{tree}: 2 paths", "{tree}: 1 path"),
    Finding("Unseen: the tree over two paths beats the best single adapter", "yes: 23.8, 26.2", NOT_MEASURED, True,
            "{tree}: 2 paths", "{single}: best"),
)  # fmt: skip


def findings(results: LmResults, design: LmDesign) -> Table | Missing:
    """One row a finding and tree."""
    groups = []
    for setup in design.setups:
        rows = []
        for finding in FINDINGS:
            paper = finding.induced if setup.is_induced else finding.by_hand
            rows.append(Row(finding.text, [Cell(paper), Cell(_answer(results, design, setup, finding))]))
        groups.append((f"{setup.tree}: {len(domains_of_setup(results, setup))} domains", rows))
    if not any(row.cells[1].text != NOT_MEASURED for _, rows in groups for row in rows):
        return Missing(_TITLE, NOT_MEASURED)
    notes = [
        f"Perplexities, averaged over domains; yes where the first average is lower. {HOW_SHOWN} "
        "The paper has another base model, other domains and far more text; outside its Table 2 it averages the "
        "perplexities themselves. Its one path of a tree drawn by hand is the best for each domain of its Table 4."
    ]
    below = Below(notes, [PERPLEXITY_FILE.format("*")])
    return Table(_TITLE, "Finding", ["In the paper", "Here"], groups, is_text=True, below=below)


def _answer(results: LmResults, design: LmDesign, setup: Setup, finding: Finding) -> str:
    columns = unseen_columns(setup, design) if finding.is_unseen else in_domain_columns(setup, design)
    domains = results.unseen if finding.is_unseen else domains_of_setup(results, setup)
    by_heading = {column.heading: column for column in columns}
    kinds = {kind: next(iter(setup.of_kind(kind)), "") for kind in ("tree", "multi", "single")}
    pair = [by_heading.get(side.format(base=setup.base, **kinds)) for side in (finding.lower, finding.higher)]
    found = [column.figure(results, *domains) for column in pair if column]
    if len(found) < 2 or found[0] is None or found[1] is None:
        return NOT_MEASURED
    low, high = (f"{figure.mean:.2f}" for figure in found if figure)
    verdict = "equal" if low == high else is_lower(found[0], found[1])
    by_domain = [[statistics.fmean(column.by_run(results, domain)) for domain in domains] for column in pair if column]
    better = sum(low < high for low, high in zip(*by_domain, strict=True))
    return f"{verdict}: {low}, {high}; lower in {better} of {len(domains)} domains"
