"""Paths of an induced tree for domains it has never seen (hierarchical adapters §4.5): ``scripts/choose_paths.py``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fairseq_ext.domains.names import DOMAINS_FILE, read_domain_names
from fairseq_ext.domains.path_chooser import CLUSTERS_FILE, PathChooser
from fairseq_ext.engine.quiet import quieten_fairseq
from fairseq_ext.engine.steps import Step, run_steps
from fairseq_ext.induction.command_line import add_fields, read_fields
from fairseq_ext.induction.encoding import LanguageModel, check_length, draw_blocks, log
from fairseq_ext.induction.induce_tree import text_files
from fairseq_ext.induction.options import PATHS_FILE, RECORD_FILE, VOTES_FILE, PathChoice
from fairseq_ext.inputs.errors import InputError, run_command
from fairseq_ext.inputs.json_file import read_json

TABLE_FILE = "paths.txt"


def paths_step(
    output: Path,
    checkpoint: Path,
    clusters: Path,
    data: Path,
    options: PathChoice | None = None,
    *,
    cpu: bool = False,
) -> Step:
    """The step that chooses the paths of a data directory's domains into ``output``.

    Args:
        output: directory to write.
        checkpoint: the language model that the tree was induced with, or one that was adapted from it.
        clusters: directory of the induced tree.
        data: directory of the domains.
        options: how to choose.
        cpu: do not use a GPU.

    Raises:
        InputError: if something is missing.
    """
    chosen = options or PathChoice()
    PathChooser.load(clusters).check_number(chosen.num_paths)
    domains = read_domain_names(data / DOMAINS_FILE)
    texts = text_files(data, domains, chosen.split)
    return Step(
        output,
        inputs=[checkpoint, clusters / CLUSTERS_FILE, clusters / RECORD_FILE, *texts],
        options=chosen.recorded(),
        build=lambda folder: write_paths(folder, checkpoint, clusters, data, chosen, cpu=cpu),
    )


def write_paths(
    folder: Path, checkpoint: Path, clusters: Path, data: Path, options: PathChoice, *, cpu: bool = False
) -> None:
    """Write ``paths.json``, ``votes.json`` and the table of both."""
    quieten_fairseq()
    record = _read_record(clusters)
    chooser = PathChooser.load(clusters)
    model = LanguageModel.load(checkpoint, data, cpu=cpu)
    length = check_length(record["options"]["tokens"], model)
    paths, votes = {}, {}
    for name in read_domain_names(data / DOMAINS_FILE):
        log(f"choosing paths for {name}")
        blocks = draw_blocks(
            data,
            name,
            options.split,
            model.dictionary,
            length=length,
            count=options.sequences,
            seed=options.seed,
            takes_fewer=True,
        )
        # The model reads from left to right, so the first tokens' states are those of the first tokens alone.
        states = model.encode(blocks[:, : options.choose_tokens or length])
        paths[name] = chooser.elect(states, options.num_paths)
        votes[name] = dict(sorted(chooser.votes(states).items()))
    table = format_paths(paths, votes, {each["leaf"]: each["domains"] for each in record["clusters"]})
    (folder / PATHS_FILE).write_text(json.dumps(paths, indent=1) + "\n", encoding="utf-8")
    (folder / VOTES_FILE).write_text(json.dumps(votes, indent=1) + "\n", encoding="utf-8")
    (folder / TABLE_FILE).write_text(table + "\n", encoding="utf-8")


def format_paths(
    paths: Mapping[str, Iterable[str]], votes: Mapping[str, Mapping[str, int]], domains: Mapping[str, Sequence[str]]
) -> str:
    """The chosen paths as in the paper's Table 9, with the share of the sequences that voted for each.

    Args:
        paths: leaves by domain, best first.
        votes: sequences by domain and leaf.
        domains: training domains by leaf.
    """
    rows = [["domain", "path", "leaf", "votes", "training domains"]]
    for name, leaves in paths.items():
        total = max(sum(votes[name].values()), 1)
        for rank, leaf in enumerate(leaves, start=1):
            share = f"{votes[name][leaf] / total:.1%}"
            rows.append([name if rank == 1 else "", str(rank), leaf, share, ", ".join(domains.get(leaf, []))])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    is_number = [False, True, False, True, False]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, is_number, strict=True)
        ).rstrip()
        for row in rows
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/choose_paths.py``."""
    parser = argparse.ArgumentParser(
        prog="choose_paths.py",
        description="Choose paths of an induced tree for the domains of a data directory: their sequences vote for "
        "leaves, and its paths are averaged by their votes. Prints the choice and writes paths.json, for --paths, and "
        "votes.json.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("checkpoint", type=Path, help="the language model the tree was induced with, or an adapted one")
    parser.add_argument("tree", type=Path, help="directory that induce_tree.py made")
    parser.add_argument("data", type=Path, help="data directory: domains.txt, dict.txt, DOMAIN/SPLIT.{bin,idx}")
    parser.add_argument("output", type=Path, help="directory to write; one that is up to date is not made again")
    add_fields(parser, PathChoice)
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    given = parser.parse_args(arguments)
    options = read_fields(given, PathChoice)
    run_steps([paths_step(given.output, given.checkpoint, given.tree, given.data, options, cpu=given.cpu)])
    print((given.output / TABLE_FILE).read_text(encoding="utf-8"), end="")


def _read_record(clusters: Path) -> dict[str, Any]:
    path = clusters / RECORD_FILE
    record = read_json(path, "induce the tree again")
    options, leaves = record.get("options"), record.get("clusters")
    has_tokens = isinstance(options, dict) and isinstance(options.get("tokens"), int)
    has_leaves = isinstance(leaves, list) and all(
        isinstance(leaf, dict) and {"leaf", "domains"} <= leaf.keys() for leaf in leaves
    )
    if not has_tokens or not has_leaves:
        raise InputError(f"{path}: not the record of an induced tree; induce the tree again")
    return record


if __name__ == "__main__":
    run_command(main)
