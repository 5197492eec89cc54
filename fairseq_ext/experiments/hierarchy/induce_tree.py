"""Induce a domain tree from text, and choose its paths for other domains (hierarchical adapters §4.2 and §4.5).

Language model states of sequences from each domain → principal components → Gaussian mixture → clusters with a domain
→ symmetrised KL divergence → binary tree. As in the paper, but unlike the published code, the divergence is over all
dimensions, and a domain belongs to the cluster with most of its sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.base.domain_names import DOMAINS_FILE, read_domain_names
from fairseq_ext.base.domain_tree import DomainTree, read_tree
from fairseq_ext.base.fairseq_cli import quieten_fairseq
from fairseq_ext.base.json_file import read_json, write_json
from fairseq_ext.base.path_chooser import PathChooser
from fairseq_ext.base.progress import tell
from fairseq_ext.base.sections import read_model
from fairseq_ext.experiments.hierarchy.clustering import (
    fit_clusters,
    link,
    name_leaves,
    settle_domains,
    symmetrised_divergences,
    tree_from_linkage,
)
from fairseq_ext.experiments.hierarchy.config import (
    DOMAINS_BY_CLUSTER,
    PATHS_FILE,
    RECORD_FILE,
    TREE_FILE,
    VOTES_FILE,
    Induction,
    PathChoice,
)
from fairseq_ext.experiments.hierarchy.pictures import draw_domains_by_cluster, others_on


def read_induction(directory: Path) -> Induction:
    """Read the options that a tree was induced with."""
    path = directory / RECORD_FILE
    return read_model(Induction, read_json(path, "induce the tree again").get("options"), str(path), {})


def write_tree(folder: Path, checkpoint: Path, data: Path, options: Induction, *, cpu: bool = False) -> None:
    """Induce a tree and write it with its clusters, record and figure."""
    # Loads fairseq.
    from fairseq_ext.experiments.encoding import LanguageModel

    quieten_fairseq()
    domains = read_domain_names(data / DOMAINS_FILE)
    model = LanguageModel.load(checkpoint, data, cpu=cpu)
    options = options.model_copy(update={"tokens": model.block_length(options.tokens)})
    states = []
    for name in domains:
        tell(f"encoding {options.sequences} blocks of {options.tokens} tokens of {name}")
        sample = options.tokens, options.sequences, options.seed
        states.append(model.encode(model.draw_blocks(data / name / options.split, *sample, domain=name)))
    tree, chooser, record = induce(states, domains, options)
    (folder / TREE_FILE).write_text(tree.to_json(), encoding="utf-8")
    chooser.save(folder)
    write_json(folder / RECORD_FILE, record)
    (folder / DOMAINS_BY_CLUSTER).write_text(draw_domains_by_cluster(tree, record), encoding="utf-8")


def induce(
    states: Sequence[np.ndarray], domains: Sequence[str], options: Induction
) -> tuple[DomainTree, PathChooser, dict[str, Any]]:
    """Return the tree of encoded sequences, the clusters of its leaves, and the content of ``clusters.json``.

    Shape:
        states: n×H for each domain
    """
    num_clusters = options.components or len(domains)
    of_fit = options.model_dump(include={"dimensions", "covariance_floor", "seed"})
    clusters, fit = fit_clusters(np.concatenate(states), num_clusters, **of_fit)
    counts = np.stack([np.bincount(clusters.log_joint(rows).argmax(1), minlength=num_clusters) for rows in states])
    settled = settle_domains(counts, domains)
    kept, leaves = clusters.subset(list(settled)), name_leaves(settled)
    divergences = symmetrised_divergences(kept.means, kept.covariances)
    linkage = link(divergences)
    tree = tree_from_linkage(linkage, settled, leaves)
    record = {
        "options": options.model_dump(),
        "domains": list(domains),
        "clusters": [{"number": number, "leaf": leaves[number], "domains": names} for number, names in settled.items()],
        "empty": [number for number in range(num_clusters) if number not in settled],
        "counts": counts.tolist(),
        "divergences": divergences.round(4).tolist(),
        "linkage": [[int(a), int(b), round(float(c), 4), int(d)] for a, b, c, d in linkage],
        "fit": fit,
        "mean_path_length": round(tree.mean_path_length, 4),
    }
    return tree, PathChooser(kept, tuple(leaves.values())), record


def describe_tree(directory: Path) -> str:
    """Format an induced tree as indented lines, with the domains of its leaves."""
    tree = read_tree(directory / TREE_FILE)

    def lines(row: int, depth: int) -> list[str]:
        below = [line for child in tree.children[row] for line in lines(child, depth + 1)]
        return ["  " * depth + tree.names[row] + others_on(tree, tree.names[row]), *below]

    return "\n".join(lines(tree.parents.index(None), 0))


def write_paths(
    folder: Path, checkpoint: Path, tree: Path, data: Path, options: PathChoice, *, cpu: bool = False
) -> None:
    """Choose paths and write ``paths.json`` and ``votes.json``. The arguments are those of ``paths_step``."""
    # Loads fairseq.
    from fairseq_ext.experiments.encoding import LanguageModel

    quieten_fairseq()
    induction, chooser = read_induction(tree), PathChooser.load(tree)
    chooser.check_number(options.num_paths)
    model = LanguageModel.load(checkpoint, data, cpu=cpu)
    length = model.block_length(induction.tokens)
    paths, votes = {}, {}
    for name in read_domain_names(data / DOMAINS_FILE):
        tell(f"choosing paths for {name}")
        sample = length, options.sequences, options.seed
        blocks = model.draw_blocks(data / name / options.split, *sample, domain=name, takes_fewer=True)
        # The model is unidirectional, so states do not depend on later tokens.
        states = model.encode(blocks[:, : options.choose_tokens or length])
        paths[name] = chooser.elect(states, options.num_paths)
        votes[name] = dict(sorted(chooser.votes(states).items()))
    write_json(folder / PATHS_FILE, paths)
    write_json(folder / VOTES_FILE, votes)


def describe_paths(directory: Path, tree: Path) -> str:
    """Format the chosen paths with their shares of the votes, one per line (the paper's Table 9)."""
    paths, votes = (read_json(directory / name, "choose the paths again") for name in (PATHS_FILE, VOTES_FILE))
    induced = read_tree(tree / TREE_FILE)
    lines = []
    for domain, leaves in paths.items():
        total = sum(votes[domain].values())
        lines += [f"{domain}  {votes[domain][leaf] / total:6.1%}  {leaf}{others_on(induced, leaf)}" for leaf in leaves]
    return "\n".join(lines)
