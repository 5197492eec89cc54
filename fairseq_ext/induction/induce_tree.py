"""A domain tree made of the domains' text alone (hierarchical adapters §4.2): ``scripts/induce_tree.py``.

A language model's states of sequences of every domain → principal components → Gaussian mixture → clusters that win a
domain → symmetrised KL divergence → binary tree. Where we differ from the published code: the divergence is over all
dimensions, not two, and a domain is settled by most of its sequences, as the paper says.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.domains.domain_tree import DomainTree, read_tree
from fairseq_ext.domains.gaussian_clusters import Fit, fit_clusters
from fairseq_ext.domains.names import DOMAINS_FILE, read_domain_names
from fairseq_ext.domains.path_chooser import PathChooser
from fairseq_ext.engine.quiet import quieten_fairseq
from fairseq_ext.engine.steps import Step, atomic_write, run_steps
from fairseq_ext.induction.agglomeration import count_choices, link, name_leaves, settle_domains, tree_from_linkage
from fairseq_ext.induction.command_line import add_fields, read_fields
from fairseq_ext.induction.divergence import symmetrised_divergences
from fairseq_ext.induction.encoding import LanguageModel, check_length, draw_blocks, log
from fairseq_ext.induction.options import RECORD_FILE, TREE_FILE, Induction
from fairseq_ext.induction.pictures import draw_dendrogram, draw_domains_by_cluster, draw_scatter
from fairseq_ext.inputs.errors import InputError, run_command
from fairseq_ext.text.subwords import DICT_FILE

DENDROGRAM, SCATTER, DOMAINS_BY_CLUSTER = "dendrogram.png", "scatter.png", "domains-by-cluster.svg"
_STATES_FOLDER = ".states"


@dataclass(frozen=True)
class InducedTree:
    """A tree and all that led to it.

    Args:
        tree: the domain tree.
        chooser: its leaves' clusters.
        settled: domains by cluster, clusters without one left out.
        counts: D×K, sequences by domain and cluster.
        divergences: between the clusters that are left.
        linkage: their joins.
        fit: how the mixture was fitted.
    """

    tree: DomainTree
    chooser: PathChooser
    settled: dict[int, list[str]]
    counts: np.ndarray
    divergences: np.ndarray
    linkage: np.ndarray
    fit: Fit


def induction_step(
    output: Path, checkpoint: Path, data: Path, options: Induction | None = None, *, cpu: bool = False
) -> Step:
    """The step that induces a tree into ``output``.

    Raises:
        InputError: if the data directory is none.
    """
    chosen = options or Induction()
    domains = read_domain_names(data / DOMAINS_FILE)
    return Step(
        output,
        inputs=[checkpoint, *text_files(data, domains, chosen.split)],
        options=chosen.recorded(),
        build=lambda folder: write_tree(folder, checkpoint, data, chosen, cpu=cpu),
        resumable=True,
    )


def text_files(data: Path, domains: Sequence[str], split: str) -> list[Path]:
    """What drawing blocks from a set depends on.

    Raises:
        InputError: naming a file that is missing.
    """
    texts = [data / name / f"{split}.{kind}" for name in domains for kind in ("bin", "idx")]
    for path in texts:
        if not path.is_file():
            raise InputError(
                f"{path}: not found; {data / DOMAINS_FILE} names this domain: binarise it, or give --split"
            )
    return [data / DOMAINS_FILE, data / DICT_FILE, *texts]


def write_tree(folder: Path, checkpoint: Path, data: Path, options: Induction, *, cpu: bool = False) -> None:
    """Encode, induce, and write tree, clusters, record and pictures; encoded domains survive an interruption."""
    quieten_fairseq()
    domains = read_domain_names(data / DOMAINS_FILE)
    states, length = encode_domains(folder / _STATES_FOLDER, checkpoint, data, domains, options, cpu=cpu)
    induced = induce(states, domains, options)
    (folder / TREE_FILE).write_text(induced.tree.to_json(), encoding="utf-8")
    induced.chooser.save(folder)
    record = {"options": {**options.model_dump(), "tokens": length}, **induction_record(induced, domains)}
    (folder / RECORD_FILE).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    _draw(folder, induced, states, domains)
    shutil.rmtree(folder / _STATES_FOLDER)


def encode_domains(
    cache: Path, checkpoint: Path, data: Path, domains: Sequence[str], options: Induction, *, cpu: bool
) -> tuple[list[np.ndarray], int]:
    """Encode each domain's sequences, those in the cache excepted.

    Returns:
        The states of each domain, n×H; and the length of the blocks in tokens.
    """
    model = LanguageModel.load(checkpoint, data, cpu=cpu)
    length = check_length(options.tokens, model)
    states = []
    for name in domains:
        path = cache / f"{name}.npy"
        if not path.is_file():
            log(f"encoding {options.sequences} blocks of {length} tokens of {name}")
            blocks = draw_blocks(
                data, name, options.split, model.dictionary, length=length, count=options.sequences, seed=options.seed
            )
            with atomic_write(path) as temporary:
                np.save(temporary, model.encode(blocks), allow_pickle=False)
        states.append(np.load(path, allow_pickle=False))
    return states, length


def induce(states: Sequence[np.ndarray], domains: Sequence[str], options: Induction) -> InducedTree:
    """Induce a tree from encoded sequences.

    Args:
        states: by domain, n×H each.
        domains: names, in the same order.
        options: how.

    Raises:
        InputError: if the sequences are too few or all alike, or one cluster takes all domains.
    """
    everything = np.concatenate(states)
    labels = label_rows(states)
    num_clusters = options.components or len(domains)
    clusters, fit = fit_clusters(
        everything,
        num_clusters,
        dimensions=options.dimensions,
        covariance_floor=options.covariance_floor,
        seed=options.seed,
    )
    counts = count_choices(clusters.log_joint(everything).argmax(1), labels, (len(domains), num_clusters))
    settled = settle_domains(counts, domains)
    kept = clusters.subset(list(settled))
    divergences = symmetrised_divergences(kept.means, kept.covariances)
    linkage = link(divergences)
    leaves = name_leaves(settled)
    tree = tree_from_linkage(linkage, settled, leaves)
    return InducedTree(tree, PathChooser(kept, tuple(leaves.values())), settled, counts, divergences, linkage, fit)


def label_rows(states: Sequence[np.ndarray]) -> np.ndarray:
    """The number of each row's domain, N."""
    return np.repeat(np.arange(len(states)), [len(rows) for rows in states])


def induction_record(induced: InducedTree, domains: Sequence[str]) -> dict[str, Any]:
    """What ``clusters.json`` says beside the options."""
    return {
        "domains": list(domains),
        "clusters": [
            {"number": number, "leaf": leaf, "domains": names}
            for (number, names), leaf in zip(induced.settled.items(), induced.chooser.names, strict=True)
        ],
        "empty": [number for number in range(induced.counts.shape[1]) if number not in induced.settled],
        "counts": induced.counts.tolist(),
        "divergences": induced.divergences.round(4).tolist(),
        "linkage": [[int(a), int(b), round(float(c), 4), int(d)] for a, b, c, d in induced.linkage],
        "fit": dataclasses.asdict(induced.fit),
        "mean_path_length": round(induced.tree.mean_path_length, 4),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/induce_tree.py``."""
    parser = argparse.ArgumentParser(
        prog="induce_tree.py",
        description="Induce a domain tree from text: a language model encodes sequences of every domain, a Gaussian "
        "mixture clusters them, and near clusters are joined to a binary tree. Writes tree.json, clusters.npz (what "
        "choose_paths.py needs), clusters.json and pictures.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("checkpoint", type=Path, help="language model, a fairseq checkpoint (transformer_lm)")
    parser.add_argument("data", type=Path, help="data directory: domains.txt, dict.txt, DOMAIN/train.{bin,idx}")
    parser.add_argument("output", type=Path, help="directory to write; one that is up to date is not made again")
    add_fields(parser, Induction)
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    given = parser.parse_args(arguments)
    options = read_fields(given, Induction)
    run_steps([induction_step(given.output, given.checkpoint, given.data, options, cpu=given.cpu)])
    print(describe_tree(given.output))


def describe_tree(directory: Path) -> str:
    """An induced tree as indented lines, the domains of a leaf behind it, and a line on its size."""
    record = json.loads((directory / RECORD_FILE).read_text(encoding="utf-8"))
    tree = read_tree(directory / TREE_FILE)
    domains = {each["leaf"]: _label(each["leaf"], each["domains"]) for each in record["clusters"]}
    lines, open_rows = [], [row for row, parent in enumerate(tree.parents) if parent is None]
    while open_rows:
        row = open_rows.pop()
        name = tree.names[row]
        lines.append("  " * (len(tree.path(name)) - 1) + domains.get(name, name))
        open_rows += reversed(tree.children[row])
    lines.append(
        f"{len(tree.leaves)} leaves, {len(tree.names)} nodes, mean path length {tree.mean_path_length:.2f}; "
        f"{len(record['empty'])} empty clusters dropped"
    )
    if not record["fit"]["has_converged"]:
        lines.append(f"the mixture had not converged after {record['fit']['iterations']} iterations")
    return "\n".join(lines)


def _draw(folder: Path, induced: InducedTree, states: Sequence[np.ndarray], domains: Sequence[str]) -> None:
    labels = [_label(leaf, names) for leaf, names in zip(induced.chooser.names, induced.settled.values(), strict=True)]
    draw_dendrogram(induced.linkage, labels, folder / DENDROGRAM)
    points = induced.chooser.clusters.project(np.concatenate(states))
    spread = points.var(axis=0)
    explained = [float(share) for share in induced.fit.explained * spread[:2] / spread.sum()]
    draw_scatter(points, label_rows(states), domains, explained, folder / SCATTER)
    picture = draw_domains_by_cluster(induced.tree, induction_record(induced, domains))
    (folder / DOMAINS_BY_CLUSTER).write_text(picture, encoding="utf-8")


def _label(leaf: str, domains: Sequence[str]) -> str:
    return leaf if list(domains) == [leaf] else f"{leaf}: {', '.join(domains)}"


if __name__ == "__main__":
    run_command(main)
