"""The domain tree, which determines the adapters that domains share.

Each node of the tree has one adapter per layer. A domain belongs to a leaf, and uses the adapters of the nodes from its
leaf to the root (hierarchical adapters §2.2). A tree is a JSON file::

    {"nodes": [{"name": "root", "parent": null}, {"name": "reviews", "parent": "root"}, …],
     "domains": {"reviews_movies": "reviews_movies", …}}

Nodes are in the order of the adapters' rows. Several domains may share a leaf.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError, model_validator

from fairseq_ext.base.domain_names import NAME_PATTERN
from fairseq_ext.base.errors import InputError, naming, shown
from fairseq_ext.base.json_file import read_json
from fairseq_ext.base.option import names_in
from fairseq_ext.base.sections import Section, read_model

# Values of ``--paths`` other than a list of names.
ALL_PATHS, NO_PATH = "all", "none"
# Domains or nodes at which paths start; a mapping gives their weights, which are otherwise equal.
Paths = Sequence[str] | Mapping[str, float]
_MOST_NODES = 2000  # each has an adapter in every layer


@dataclass(frozen=True)
class DomainTree:
    """A domain tree or forest; :func:`read_tree` and :func:`tree_from_json` read and check one."""

    names: tuple[str, ...]  # names of N nodes, in the row order of all adapter banks
    parents: tuple[int | None, ...]  # the row of each node's parent, None for a root
    domains: dict[str, int]  # the row of each domain's leaf

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """Names of the leaves, in row order."""
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
        """Names of the leaves in drawing order (depth first), where the leaves of a node are adjacent."""

        def leaves_below(row: int) -> list[int]:
            return [leaf for child in self.children[row] for leaf in leaves_below(child)] or [row]

        roots = [row for row, parent in enumerate(self.parents) if parent is None]
        return tuple(self.names[leaf] for root in roots for leaf in leaves_below(root))

    @property
    def mean_path_length(self) -> float:
        """Number of nodes on a path, averaged over domains."""
        return sum(len(self.path(name)) for name in self.domains) / len(self.domains)

    def path(self, name: str) -> tuple[int, ...]:
        """Return the rows of the nodes from a domain's leaf, or from the named node, to the root."""
        node: int | None = self._row(name)
        rows = []
        while node is not None:
            rows.append(node)
            node = self.parents[node]
        return tuple(rows)

    def path_weights(self, paths: Paths) -> np.ndarray:
        """Return routing weights of paths: the weighted mean of the uniform weights on each path.

        Shape:
            result: N, float32; sums to 1, or is all zero without paths
        """
        weights = np.zeros(len(self.names))
        counts = list(paths.items()) if isinstance(paths, Mapping) else [(name, 1.0) for name in paths]
        total = sum(count for _, count in counts)
        for name, count in counts:
            path = self.path(name)
            weights[list(path)] += count / (len(path) * total)
        return weights.astype(np.float32)

    def to_json(self) -> str:
        """Return the tree as JSON for :func:`tree_from_json`; equal trees give equal text."""
        nodes = [
            {"name": name, "parent": None if parent is None else self.names[parent]}
            for name, parent in zip(self.names, self.parents, strict=True)
        ]
        domains = {name: self.names[leaf] for name, leaf in sorted(self.domains.items())}
        return json.dumps({"nodes": nodes, "domains": domains}, indent=1) + "\n"

    def _row(self, name: str) -> int:
        if name in self.domains:
            return self.domains[name]
        if name in self.names:
            return self.names.index(name)
        raise InputError(
            f"{name!r}: is not a domain or node of the tree; choose a domain ({', '.join(sorted(self.domains))}) "
            f"or a leaf ({', '.join(self.leaves)})"
        )


def read_tree(path: Path) -> DomainTree:
    """Read a tree with a single root; raise InputError with the file and the first error in it."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    tree = tree_from_json(text, str(path))
    if tree.parents.count(None) > 1:
        raise InputError(f"{path}: has several roots; set parent: null for only one node")
    return tree


def tree_from_json(text: str, where: str) -> DomainTree:
    """Read a tree or forest (such as single adapters); raise InputError with ``where`` and the first error."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: is not valid JSON ({error})") from None
    given = read_model(_TreeFile, content, where, {})
    names = tuple(node.name for node in given.nodes)
    rows = {name: row for row, name in enumerate(names)}
    parents = tuple(None if node.parent is None else rows[node.parent] for node in given.nodes)
    return DomainTree(names, parents, {domain: rows[leaf] for domain, leaf in sorted(given.domains.items())})


def single_tree(domains: Iterable[str]) -> DomainTree:
    """Return single adapters as a forest: one node per domain. Names must not be special values of ``--paths``."""
    names = tuple(domains)
    forest = DomainTree(names, (None,) * len(names), {name: row for row, name in enumerate(names)})
    return tree_from_json(forest.to_json(), "single adapters")


def multi_tree(domains: Iterable[str]) -> DomainTree:
    """Return one multi-domain adapter as a tree: a single node for all domains."""
    return DomainTree((ALL_PATHS,), (None,), dict.fromkeys(domains, 0))


_Name = Annotated[str, Field(pattern=NAME_PATTERN)]


class _Node(Section):
    name: _Name
    parent: str | None


class _TreeFile(Section):
    nodes: Annotated[list[_Node], Field(min_length=1, max_length=_MOST_NODES)]
    domains: Annotated[dict[_Name, str], Field(min_length=1, max_length=_MOST_NODES)]

    @model_validator(mode="after")
    def _check_nodes(self) -> _TreeFile:
        parents = {node.name: node.parent for node in self.nodes}
        if len(parents) < len(self.nodes):
            raise ValueError("nodes: names are repeated; give each node a different name")
        for name in parents:
            above: str | None = name
            for _ in parents:
                if above is not None and above not in parents:
                    raise ValueError(f"nodes: {name}: its ancestor {above!r} is not a node; add it")
                above = parents[above] if above is not None else None
            if above is not None:
                raise ValueError(f"nodes: {name}: its parents form a cycle; set parent: null for a root")
        for name in (*parents, *self.domains):
            # The single node of multi_tree may have the name "all".
            if name == NO_PATH or (name == ALL_PATHS and len(parents) > 1):
                raise ValueError(f"{name!r} is a special value of --paths; choose another name")
        return self

    @model_validator(mode="after")
    def _check_domains(self) -> _TreeFile:
        names, inner = {node.name for node in self.nodes}, {node.parent for node in self.nodes}
        for domain, leaf in self.domains.items():
            if leaf not in names or leaf in inner:
                raise ValueError(f"domains: {domain}: {leaf!r} is not a leaf; assign the domain to a leaf")
            if domain in names and domain != leaf:
                raise ValueError(
                    f"domains: {domain}: is assigned to {leaf!r}, but another node has its name; rename it"
                )
        if unused := names - inner - {*self.domains.values()}:
            raise ValueError(f"nodes: leaf {min(unused)!r} has no domain; assign one in 'domains' or remove the leaf")
        return self


_IN_FILE: TypeAdapter[Paths] = TypeAdapter(
    list[str] | dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]]
)


def names_of_paths(spec: str, tree: DomainTree, domain: str | None = None) -> Paths:
    """Return the nodes or domains at which the paths for a domain's text start, with weights if a file gives them.

    ``spec`` is comma-separated names, ``all`` for all leaves of the tree, ``none`` for no adapter, or a file
    ``FILE.json`` with a list of names, or a mapping of names to weights, for each domain of the data.
    """
    if spec in (ALL_PATHS, NO_PATH):
        return list(tree.leaves) if spec == ALL_PATHS else []
    names: Paths = names_in(spec)
    with naming(f"--paths {spec}"):
        if spec.endswith(".json"):
            names = _paths_in_file(Path(spec), domain)
        tree.path_weights(names)
    if not names:
        raise InputError(f"--paths {spec!r}: has no name; give domains or leaves, {ALL_PATHS} or {NO_PATH}")
    return names


def _paths_in_file(path: Path, domain: str | None) -> Paths:
    content = read_json(path, "choose paths with fairseq-ext paths")
    if domain not in content:
        raise InputError(f"domain {domain} has no paths; choose them with fairseq-ext paths, or give names of leaves")
    try:
        return _IN_FILE.validate_python(content[domain])
    except ValidationError:
        raise InputError(
            f"domain {domain}: {shown(content[domain])} is neither a list of names nor an object of names and weights"
        ) from None
