"""The report of an experiment with language models: a page for people, the same as Markdown, and its pictures.

All figures come from the records that other steps left; what was not measured is said to be missing.
"""

from __future__ import annotations

from pathlib import Path

from fairseq_ext.engine.steps import Step
from fairseq_ext.experiments.hierarchy import tables
from fairseq_ext.experiments.hierarchy.claims import findings
from fairseq_ext.experiments.hierarchy.config import HierarchyExperiment
from fairseq_ext.experiments.hierarchy.pictures import draw_clusters, draw_reductions, draw_tree
from fairseq_ext.experiments.hierarchy.results import LmDesign, LmResults, Setup, read_results, result_files
from fairseq_ext.experiments.hierarchy.systems import Tree
from fairseq_ext.experiments.tuning_report import TuningReport
from fairseq_ext.induction.options import TREE_FILE
from fairseq_ext.report.content import Block, Missing, Report, Section
from fairseq_ext.report.significance import describe_range
from fairseq_ext.report.writing import find_reading, reading_sections

_VERSION = 4


def report_step(experiment: HierarchyExperiment) -> Step:
    """The step that writes ``report/`` of what there is, so make it when the other steps have run.

    Raises:
        InputError: naming a reading that is not there.
    """
    tuning = TuningReport.of(experiment, experiment.trained_systems, experiment.runs.__getitem__)
    options = {"version": _VERSION, "design": repr(LmDesign.of(experiment))}
    return tuning.step(result_files(experiment), _reading_of(experiment), options, lambda: make_report(experiment))


def make_report(experiment: HierarchyExperiment) -> Report:
    """Everything that the report says."""
    design, results, trees = LmDesign.of(experiment), read_results(experiment), experiment.trees
    sections = [
        *reading_sections(_reading_of(experiment)),
        Section("findings", "Against the paper", [findings(results, design)]),
        Section("cost", "Cost", [tables.costs(results, design)]),
        *(_setup_section(results, design, setup, trees[setup.tree]) for setup in design.setups),
        Section("words", "By word", [tables.per_word(results, design)]),
    ]
    return Report(
        f"Experiment report: {design.name}",
        _lead(results, design),
        _tiles(results, design),
        sections,
        [
            "Tables and figures are numbered as in “Efficient Hierarchical Domain Adaptation for Pretrained Language "
            "Models”. Files are named relative to the experiment’s folder."
        ],
        results.records,
    )


def _reading_of(experiment: HierarchyExperiment) -> Path | None:
    return find_reading(experiment.path, "evaluate: reading", experiment.evaluate.reading)


def _setup_section(results: LmResults, design: LmDesign, setup: Setup, tree: Tree) -> Section:
    kind = "Induced tree" if setup.is_induced else "Tree drawn by hand"
    blocks: list[Block] = []
    if setup.tree in results.trees:
        file = f"trees/{setup.tree}/{TREE_FILE}" if setup.is_induced else str(tree.path)
        blocks.append(draw_tree(setup, results.trees[setup.tree], file))
    else:
        blocks.append(Missing(f"The tree {setup.tree}", "not available: it has not been induced"))
    if setup.tree in results.trees and setup.tree in results.clusters:
        blocks.append(draw_clusters(setup, results.trees[setup.tree], results.clusters[setup.tree]))
    for table, is_unseen in ((tables.in_domain, False), (tables.unseen, True)):
        blocks.append(table(results, design, setup))
        if picture := draw_reductions(results, design, setup, is_unseen=is_unseen):
            blocks.append(picture)
    if setup.is_induced:
        blocks += [tables.by_first_tokens(results, design, setup, n) for n in design.choose_tokens if n]
    shown = [name for name in setup.systems if name in [*design.every_path, *setup.of_kind("single")]]
    blocks += [tables.every_path(results, design, name) for name in shown]
    blocks += tables.chosen_paths(results, design, setup)
    return Section(f"tree-{setup.tree}", f"{kind}: {setup.tree}", blocks)


def _lead(results: LmResults, design: LmDesign) -> str:
    """What came out, in a some numbers a tree."""
    sentences = []
    for setup in design.setups:
        parts = [("in domain", tables.in_domain_columns(setup, design), tables.domains_of_setup(results, setup))]
        parts.append(("on unseen domains", tables.unseen_columns(setup, design), results.unseen))
        for where, columns, domains in parts:
            found = {
                column.heading: figure
                for column in columns
                if column.competes and (figure := column.figure(results, *domains))
            }
            if len(found) > 1:
                sentences.append(f"Perplexity {where}, tree {setup.tree}: {describe_range(found, min, setup.base)}.")
    return " ".join(sentences) or "Nothing has been measured yet."


def _tiles(results: LmResults, design: LmDesign) -> list[tuple[str, str]]:
    domains = {name for setup in design.setups for name in tables.domains_of_setup(results, setup)}
    tokens = next((sum(e["tokens"] for e in record["sets"].values()) for record in results.perplexity.values()), 0)
    tiles = [("Domains", f"{len(domains)}")] if domains else []
    tiles += [("Unseen domains", f"{len(results.unseen)}")] if results.unseen else []
    tiles += [("Test tokens", f"{tokens:,}")] if tokens else []
    return [*tiles, ("Trees", f"{len(design.setups)}"), ("Systems", f"{len(design.runs)}")]
