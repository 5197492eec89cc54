"""From clusters to a tree: domains settle in clusters, near clusters are joined pair by pair."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from fairseq_ext.domains.domain_tree import DomainTree
from fairseq_ext.inputs.errors import InputError

ROOT = "root"


def count_choices(choices: np.ndarray, labels: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Sequences by domain (rows) and by the cluster they belong to (columns), D×K.

    Args:
        choices: N, each sequence's cluster.
        labels: N, its domain.
        shape: D and K.
    """
    counts = np.zeros(shape, dtype=np.int64)
    np.add.at(counts, (labels, choices), 1)
    return counts


def settle_domains(counts: np.ndarray, domains: Sequence[str]) -> dict[int, list[str]]:
    """The clusters that win a domain, and which; a domain goes where most of its sequences are.

    Clusters that win none are empty and not in the result. Of two with equally many sequences the first wins.

    Args:
        counts: D×K, see :func:`count_choices`.
        domains: D names.

    Raises:
        InputError: if one cluster wins all domains, or a domain has no sequence.
    """
    settled: dict[int, list[str]] = {}
    for name, row in zip(domains, counts, strict=True):
        if not row.any():
            raise InputError(f"{name}: no sequences, so no cluster can be found for it")
        settled.setdefault(int(row.argmax()), []).append(name)
    if len(settled) == 1:
        raise InputError(
            f"all domains ({', '.join(domains)}) fall into one cluster and the others are empty: no tree; give more "
            "--sequences or --components, or a language model that tells the domains apart"
        )
    return dict(sorted(settled.items()))


def name_leaves(settled: dict[int, list[str]]) -> dict[int, str]:
    """A leaf is called like its only domain, or ``cluster_K`` if it has several."""
    taken = [name for names in settled.values() for name in names]
    return {
        number: names[0] if len(names) == 1 else free_name(f"cluster_{number}", taken)
        for number, names in settled.items()
    }


def link(divergences: np.ndarray) -> np.ndarray:
    """Average-linkage agglomeration, as scipy describes it.

    Shape:
        divergences: K×K, symmetric; result: K−1×4, the joined two, their distance, and how many leaves that makes
    """
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    return linkage(squareform(divergences, checks=False), method="average")


def tree_from_linkage(linkage: np.ndarray, settled: dict[int, list[str]], leaves: dict[int, str]) -> DomainTree:
    """The binary tree of the joins, from the root down, the leaves last.

    Args:
        linkage: of the clusters in the order of ``settled``.
        settled: domains by cluster.
        leaves: names of the leaves by cluster.
    """
    count = len(settled)
    taken = [*leaves.values(), *(name for names in settled.values() for name in names)]
    # scipy numbers leaves from 0 and joins after them, the root last.
    numbers = [*reversed(range(count, 2 * count - 1)), *range(count)]
    names = dict(enumerate(leaves[number] for number in settled))
    names |= {
        number: free_name(ROOT if rank == 0 else f"node_{rank}", taken) for rank, number in enumerate(numbers[:-count])
    }
    parents = {int(child): count + row for row, join in enumerate(linkage) for child in join[:2]}
    rows = {number: row for row, number in enumerate(numbers)}
    domains = {name: rows[leaf] for leaf, found in enumerate(settled.values()) for name in found}
    return DomainTree(
        tuple(names[number] for number in numbers),
        tuple(rows[parents[number]] if number in parents else None for number in numbers),
        dict(sorted(domains.items())),
    )


def free_name(name: str, taken: Iterable[str]) -> str:
    """The name, made longer as long as it is taken."""
    while name in taken:
        name += "_"
    return name
