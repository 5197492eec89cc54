"""Induce a domain tree from text, and choose its paths for other domains (hierarchical adapters §4.2 and §4.5).

Language model states of sequences from each domain → principal components → Gaussian mixture with full covariances
(Aharoni and Goldberg, 2020) → clusters with a domain → symmetrised KL divergence → binary tree. As in the paper, but
unlike the published code, the divergence is over all dimensions, and a domain belongs to the cluster with most of its
sequences. The paper's Eq. 1 misplaces a ½; this module uses the standard divergence of Gaussians:

    KL(N₀ ‖ N₁) = ½ · [tr(Σ₁⁻¹ Σ₀) + (μ₁ − μ₀)ᵀ Σ₁⁻¹ (μ₁ − μ₀) − P + ln(det Σ₁ / det Σ₀)]

The logarithms cancel in the sum of both directions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.base.domain_names import DOMAINS_FILE, read_domain_names
from fairseq_ext.base.domain_tree import DomainTree, read_tree
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.fairseq_cli import quieten_fairseq
from fairseq_ext.base.json_file import read_json, write_json
from fairseq_ext.base.path_chooser import GaussianClusters, PathChooser, finite
from fairseq_ext.base.progress import tell
from fairseq_ext.base.sections import read_model
from fairseq_ext.experiments.hierarchy.config import (
    DOMAINS_BY_CLUSTER,
    PATHS_FILE,
    RECORD_FILE,
    TREE_FILE,
    VOTES_FILE,
    Induction,
    PathChoice,
)
from fairseq_ext.experiments.metrics.plots import heat_map

_ROOT = "root"
_LONGEST_FIT = 300  # iterations

Settled = Mapping[int, Sequence[str]]  # domains by cluster


def read_induction(directory: Path) -> Induction:
    """Read the options that a tree was induced with."""
    path = directory / RECORD_FILE
    return read_model(Induction, read_json(path, "induce the tree again").get("options"), str(path), {})


def write_tree(folder: Path, checkpoint: Path, data: Path, options: Induction, *, cpu: bool = False) -> None:
    """Induce a tree and write it with its clusters, record and figure."""
    # Loads fairseq.
    from fairseq_ext.experiments.scoring import LanguageModel

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


def draw_domains_by_cluster(tree: DomainTree, record: Mapping[str, Any]) -> str:
    """Draw the percentage of each domain's sequences by cluster, in the order of the tree, as SVG.

    ``record`` is the content of ``clusters.json``.
    """
    counts = dict(zip(record["domains"], record["counts"], strict=True))
    number_of = {cluster["leaf"]: cluster["number"] for cluster in record["clusters"]}
    leaves = [leaf for leaf in tree.drawn_leaves if leaf in number_of]
    rows = sorted(counts, key=lambda name: (leaves.index(tree.names[tree.domains[name]]), name))
    columns = [number_of[leaf] for leaf in leaves] + list(record["empty"])
    shares = [[counts[name][number] / max(sum(counts[name]), 1) for number in columns] for name in rows]
    return heat_map(shares, rows, [*leaves, *("(dropped)" for _ in record["empty"])], "cluster", "domain")


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
    from fairseq_ext.experiments.scoring import LanguageModel

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


def others_on(tree: DomainTree, node: str) -> str:
    """Format the domains of a node as a suffix for its name; empty if the name is that of its only domain."""
    domains = sorted(domain for domain, row in tree.domains.items() if tree.names[row] == node)
    return "" if domains in ([], [node]) else f": {', '.join(domains)}"


# Clusters


def fit_clusters(
    states: np.ndarray, num_clusters: int, *, dimensions: int, covariance_floor: float, seed: int
) -> tuple[GaussianClusters, dict[str, float]]:
    """Fit a Gaussian mixture with full covariances. Return the clusters and statistics of the fit.

    The result is deterministic. At most ``dimensions`` principal components are kept (P); ``explained`` is their share
    of the variance. ``covariance_floor`` is added to the variances, as a share of the mean variance in the P
    dimensions. It keeps the covariance of a cluster with fewer than P sequences invertible.

    Shape:
        states: N×H
    """
    from sklearn.decomposition import PCA
    from sklearn.mixture import GaussianMixture
    from threadpoolctl import threadpool_limits

    if len(states) < max(num_clusters, 2):
        raise InputError(
            f"{len(states)} sequences are too few for {num_clusters} clusters; raise --sequences or lower --components"
        )
    states = finite(states)
    # Rounding of sums depends on the number of threads, and EM amplifies small differences.
    with threadpool_limits(1):
        pca = PCA(min(dimensions, len(states) - 1, states.shape[1]), svd_solver="covariance_eigh").fit(states)
        projection = pca.components_.T / np.sqrt(pca.explained_variance_.mean())
        mixture = GaussianMixture(
            num_clusters, reg_covar=covariance_floor, max_iter=_LONGEST_FIT, random_state=seed, tol=1e-4
        )
        try:
            mixture.fit((states - pca.mean_) @ projection)
        except ValueError as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"the mixture cannot be fitted ({reason}); raise --covariance-floor") from None
    clusters = GaussianClusters(pca.mean_, projection, mixture.weights_, mixture.means_, mixture.covariances_)
    return clusters, {
        "explained": float(pca.explained_variance_ratio_.sum()),
        "iterations": int(mixture.n_iter_),
        "has_converged": bool(mixture.converged_),
    }


def settle_domains(counts: np.ndarray, domains: Sequence[str]) -> dict[int, list[str]]:
    """Assign each domain to the cluster with most of its sequences; ties go to the first cluster.

    Shape:
        counts: D×K, number of sequences by domain and cluster
    """
    settled: dict[int, list[str]] = {}
    for name, row in zip(domains, counts, strict=True):
        settled.setdefault(int(row.argmax()), []).append(name)
    if len(settled) == 1:
        raise InputError(
            f"all domains ({', '.join(domains)}) belong to one cluster, so there is no tree; raise --sequences or "
            "--components, or use another language model"
        )
    return dict(sorted(settled.items()))


def name_leaves(settled: Settled) -> dict[int, str]:
    """Name each leaf after its only domain, or ``cluster_K`` if it has several."""
    return {number: names[0] if len(names) == 1 else f"cluster_{number}" for number, names in settled.items()}


def link(divergences: np.ndarray) -> np.ndarray:
    """Cluster with average linkage. The result has scipy's format.

    Shape:
        divergences: K×K, symmetric; result: (K−1)×4, the two merged clusters, their distance, and the number of leaves
    """
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    return linkage(squareform(divergences, checks=False), method="average")


def tree_from_linkage(linkage: np.ndarray, settled: Settled, leaves: Mapping[int, str]) -> DomainTree:
    """Convert a linkage of the clusters in ``settled`` to a binary tree. Nodes are ordered from root to leaves."""
    count = len(settled)
    # scipy numbers the leaves from 0, then the merges; the root is last.
    numbers = [*reversed(range(count, 2 * count - 1)), *range(count)]
    inner = [f"node_{rank}" if rank else _ROOT for rank in range(count - 1)]
    rows = {number: row for row, number in enumerate(numbers)}
    parents = {int(child): rows[count + row] for row, join in enumerate(linkage) for child in join[:2]}
    domains = {name: rows[leaf] for leaf, names in enumerate(settled.values()) for name in names}
    return DomainTree(
        (*inner, *(leaves[number] for number in settled)),
        tuple(parents.get(number) for number in numbers),
        dict(sorted(domains.items())),
    )


def symmetrised_divergences(means: np.ndarray, covariances: np.ndarray) -> np.ndarray:
    """Return the divergence between all pairs of K Gaussians, ½ · [KL(N₀ ‖ N₁) + KL(N₁ ‖ N₀)] (Eq. 2).

    Shape:
        means: K×P; covariances: K×P×P, positive definite; result: K×K, symmetric
    """
    roots = np.linalg.cholesky(covariances)
    whitening = np.linalg.inv(roots)
    divergences = np.zeros((len(means), len(means)))
    for second in range(len(means)):
        trace = np.square(whitening[second] @ roots).sum((-2, -1))  # K
        distance = np.square((means - means[second]) @ whitening[second].T).sum(-1)  # K
        divergences[:, second] = (trace + distance - means.shape[1]) / 2
    # Rounding may make the divergence of equal Gaussians slightly negative.
    return np.maximum((divergences + divergences.T) / 2, 0)
