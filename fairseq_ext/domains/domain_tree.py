"""The domain tree: which adapters a domain shares with which other domains.

Every node of the tree owns one adapter a layer; a domain sits on a leaf and uses the nodes between
its leaf and the root (hierarchical adapters §2.2). A tree is a JSON file::

    {"nodes": [{"name": "root", "parent": null}, {"name": "reviews", "parent": "root"}, …],
     "domains": {"reviews_movies": "reviews_movies", …}}

Nodes are listed in the order of the adapters' rows; several domains may share a leaf.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.domains.names import is_domain_name
from fairseq_ext.inputs.errors import InputError, shown

# What ``--paths`` understands instead of a list of names.
ALL_PATHS, NO_PATH = "all", "none"
# Domains or nodes at which paths start; a mapping says how much each counts, otherwise they count alike.
Paths = Sequence[str] | Mapping[str, float]
_NODES, _DOMAINS = "nodes", "domains"
_NODE_KEYS = {"name", "parent"}
_LARGEST_FILE = 1 << 24  # bytes
_MOST_NODES = 2000  # each is an adapter in every layer


@dataclass(frozen=True)
class DomainTree:
    """Nodes in the order of their adapters, and the leaf of every domain.

    Read trees with :func:`read_tree` or :func:`tree_from_json`, which check them.

    Args:
        names: N names of nodes, in the row order of every bank of adapters.
        parents: the row of each node's parent, None for a root.
        domains: the row of each domain's leaf.
    """

    names: tuple[str, ...]
    parents: tuple[int | None, ...]
    domains: dict[str, int]

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """Names of the nodes without children, in row order."""
        inner = set(self.parents)
        return tuple(name for row, name in enumerate(self.names) if row not in inner)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """Rows of each node's children, in row order."""
        children: list[list[int]] = [[] for _ in self.names]
        for row, parent in enumerate(self.parents):
            if parent is not None:
                children[parent].append(row)
        return tuple(map(tuple, children))

    @cached_property
    def drawn_leaves(self) -> tuple[str, ...]:
        """Names of the leaves as a drawing has them from top to bottom: those of one node beside each other."""

        def leaves_below(row: int) -> list[int]:
            return [leaf for child in self.children[row] for leaf in leaves_below(child)] or [row]

        roots = [row for row, parent in enumerate(self.parents) if parent is None]
        return tuple(self.names[leaf] for root in roots for leaf in leaves_below(root))

    @property
    def mean_path_length(self) -> float:
        """Nodes on a domain's path, averaged over the domains."""
        return sum(len(self.path(name)) for name in self.domains) / len(self.domains)

    def path(self, name: str) -> tuple[int, ...]:
        """Rows of the nodes from a domain's leaf, or from a node of that name, up to the root.

        Raises:
            InputError: if there is no such domain or node.
        """
        node: int | None = self._row(name)
        rows = []
        while node is not None:
            rows.append(node)
            node = self.parents[node]
        return tuple(rows)

    def path_weights(self, paths: Paths) -> np.ndarray:
        """Routing weights of one or several paths: the mean of their even weights.

        A node on several of the paths counts once for each.

        Args:
            paths: where they start; none of them stands for no adapter at all.

        Shape:
            result: N, float32; sums to 1, or is all zero without a path
        """
        weights = np.zeros(len(self.names))
        counts = list(paths.items()) if isinstance(paths, Mapping) else [(name, 1.0) for name in paths]
        total = sum(count for _, count in counts)
        for name, count in counts:
            path = self.path(name)
            weights[list(path)] += count / (len(path) * total)
        return weights.astype(np.float32)

    def to_json(self) -> str:
        """The tree as :func:`tree_from_json` reads it; equal trees give equal text."""
        nodes = [
            {"name": name, "parent": None if parent is None else self.names[parent]}
            for name, parent in zip(self.names, self.parents, strict=True)
        ]
        domains = {name: self.names[leaf] for name, leaf in sorted(self.domains.items())}
        return json.dumps({_NODES: nodes, _DOMAINS: domains}, indent=1) + "\n"

    def _row(self, name: str) -> int:
        if name in self.domains:
            return self.domains[name]
        if name in self.names:
            return self.names.index(name)
        raise InputError(
            f"{name!r}: no domain or node of the tree; its domains are {', '.join(sorted(self.domains))}, "
            f"its leaves {', '.join(self.leaves)}"
        )


def read_tree(path: Path) -> DomainTree:
    """Read a tree and check that it is one: with a single root.

    Raises:
        InputError: naming the file and what is wrong with it.
    """
    try:
        with Path(path).open("rb") as file:
            text = file.read(_LARGEST_FILE).decode("utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: the tree cannot be read ({error})") from None
    tree = tree_from_json(text, str(path))
    roots = [name for name, parent in zip(tree.names, tree.parents, strict=True) if parent is None]
    if len(roots) > 1:
        raise InputError(f"{path}: several roots ({', '.join(roots)}); a tree has one node whose parent is null")
    return tree


def tree_from_json(text: str, where: str) -> DomainTree:
    """Read a tree, or a forest as the single-adapter baseline is one, from JSON.

    Args:
        text: see the head of this module.
        where: where the text comes from, for messages.

    Raises:
        InputError: naming ``where`` and the first thing that is wrong.
    """
    try:
        content = json.loads(text, object_pairs_hook=_object_without_repetitions)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: no tree in JSON ({error})") from None
    _check_form(content, where)
    names = [node["name"] for node in content[_NODES]]
    _check_names(names, content[_DOMAINS], where)
    parents = _number_parents(content[_NODES], names, where)
    tree = DomainTree(tuple(names), tuple(parents), _number_leaves(content[_DOMAINS], names, where))
    _check_acyclic(tree, where)
    _check_leaves(tree, where)
    return tree


def single_tree(domains: Iterable[str]) -> DomainTree:
    """Single adapters as a forest: one node for each domain, and no sharing.

    Raises:
        InputError: if a domain's name has a meaning to ``--paths``.
    """
    names = tuple(domains)
    _check_names(names, {}, "single adapters")
    return DomainTree(names, (None,) * len(names), {name: row for row, name in enumerate(names)})


def multi_tree(domains: Iterable[str]) -> DomainTree:
    """One multi-domain adapter as a tree: all domains on a single node."""
    return DomainTree((ALL_PATHS,), (None,), dict.fromkeys(domains, 0))


def _object_without_repetitions(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"{next(key for key in keys if keys.count(key) > 1)!r} is given twice")
    return content


def _check_form(content: Any, where: str) -> None:
    remedy = 'write {"nodes": [{"name": …, "parent": …}, …], "domains": {domain: leaf, …}}'
    if not isinstance(content, dict) or content.keys() != {_NODES, _DOMAINS}:
        keys = ", ".join(map(shown, content)) if isinstance(content, dict) else type(content).__name__
        raise InputError(f"{where}: a tree has the keys 'nodes' and 'domains', not {keys or 'none'}; {remedy}")
    nodes, domains = content[_NODES], content[_DOMAINS]
    if not isinstance(nodes, list) or not nodes:
        raise InputError(f"{where}: 'nodes' is no list of nodes; {remedy}")
    for node in nodes:
        if not isinstance(node, dict) or node.keys() != _NODE_KEYS:
            raise InputError(f"{where}: {shown(node)} is no node, which has just 'name' and 'parent'")
        if not isinstance(node["parent"], str | None):
            raise InputError(
                f"{where}: node {shown(node['name'])}: its parent is {shown(node['parent'])}, not a name or null"
            )
    if not isinstance(domains, dict) or not domains:
        raise InputError(f"{where}: 'domains' names no domain; {remedy}")
    if max(len(nodes), len(domains)) > _MOST_NODES:
        raise InputError(f"{where}: {len(nodes)} nodes and {len(domains)} domains; at most {_MOST_NODES} can be")


def _check_names(names: Sequence[Any], domains: dict[str, Any], where: str) -> None:
    for name in [*names, *domains]:
        if not isinstance(name, str) or not is_domain_name(name):
            raise InputError(f"{where}: {shown(name)} is no name; use letters, digits, '-' and '_' only")
        # A single node for everything is what "all" means.
        if name == NO_PATH or (name == ALL_PATHS and len(names) > 1):
            raise InputError(f"{where}: {name!r} has a meaning of its own to --paths; choose another name")
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{where}: there are two nodes {name!r}; give each a name of its own")
    for domain, leaf in domains.items():
        if domain in names and domain != leaf:
            raise InputError(
                f"{where}: domain {domain!r} is on node {shown(leaf)}, but another node has its name; rename it"
            )


def _number_parents(nodes: Sequence[dict[str, Any]], names: Sequence[str], where: str) -> list[int | None]:
    rows: dict[str | None, int | None] = {name: row for row, name in enumerate(names)}
    rows[None] = None
    for node in nodes:
        if node["parent"] not in rows:
            raise InputError(f"{where}: node {node['name']!r}: its parent {node['parent']!r} is no node")
    return [rows[node["parent"]] for node in nodes]


def _number_leaves(domains: dict[str, Any], names: Sequence[str], where: str) -> dict[str, int]:
    for domain, leaf in domains.items():
        if leaf not in names:
            raise InputError(f"{where}: domain {domain!r} is on {shown(leaf)}, which is no node")
    return {domain: names.index(leaf) for domain, leaf in sorted(domains.items())}


def _check_acyclic(tree: DomainTree, where: str) -> None:
    """Refuse nodes from which no root is reached; without any root all are such."""
    if None not in tree.parents:
        raise InputError(f"{where}: no root; the parent of one node is null")
    for name, start in zip(tree.names, tree.parents, strict=True):
        seen, node = 0, start
        while node is not None:
            node, seen = tree.parents[node], seen + 1
            if seen > len(tree.names):
                raise InputError(f"{where}: node {name!r} never reaches a root: its parents form a cycle")


def _check_leaves(tree: DomainTree, where: str) -> None:
    for domain, row in tree.domains.items():
        if tree.names[row] not in tree.leaves:
            raise InputError(
                f"{where}: domain {domain!r} is on {tree.names[row]!r}, which has children; put it on a leaf of its own"
            )
    for leaf in tree.leaves:
        if tree.names.index(leaf) not in tree.domains.values():
            raise InputError(f"{where}: leaf {leaf!r} has no domain; name one in 'domains' or remove the leaf")
