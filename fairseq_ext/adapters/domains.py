"""Add, remove and rename domains of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch

from fairseq_ext.adapters.system import State, System
from fairseq_ext.base.domain_names import RESERVED_NAMES, is_domain_name
from fairseq_ext.base.domain_tree import DomainTree, tree_from_json
from fairseq_ext.base.errors import InputError

# Initialisations of a new adapter, besides the name of a domain.
NOTHING, MEAN, NEAREST = "nothing", "mean", "nearest"


def add_domain(
    system: System, name: str, start: str, *, parent: str | None = None, guarded: bool = False, seed: int = 1
) -> System:
    """Return the system with one more, untrained adapter. All existing adapters stay bit-identical.

    Args:
        system: system with adapters.
        name: name of the new domain.
        start: ``nothing`` for a fresh adapter, ``mean`` for the mean of all, or the domain whose adapter is copied.
        parent: for a tree, the parent node of the new leaf; ``none`` for a separate root.
        guarded: for gated adapters, activate the new one only if its gate's logit is the highest.
        seed: random seed of a fresh adapter.
    """
    system.require_adapters()
    _check_new_name(system, name)
    if start == NOTHING:
        new = _fresh_rows(system, seed)
    elif start == MEAN:
        new = {key: value.float().mean(0) for key, value in system.model.items() if system.is_row(key)}
    else:
        system.require_domain(start)
        new = system.rows(start if system.tree is None else system.tree.names[system.tree.domains[start]])
    tree = None if system.tree is None else _with_leaf(system.tree, name, parent)
    return system.changed({**system.adapters(), name: new}, {*system.guarded, *([name] if guarded else [])}, tree)


def remove_domain(model: Path, name: str, output: Path) -> System:
    """Write a model without a domain; for a tree, also without the nodes that no other domain needs."""
    system = System.read(model)
    system.require_adapters()
    system.require_domain(name)
    if len(system.domains) == 1:
        raise InputError(f"{model}: {name} is its only domain and cannot be removed; use the base model instead")
    tree = None if system.tree is None else _without_domain(system.tree, name)
    names = [other for other in system.names if other != name] if tree is None else list(tree.names)
    guarded = [other for other in system.guarded if other in names]
    if guarded == names:
        guarded = []  # no unguarded adapter is left
    system = system.changed({other: system.rows(other) for other in names}, guarded, tree)
    system.write(output)
    return system


def rename_domain(model: Path, old: str, new: str, output: Path) -> System:
    """Write a model with a renamed domain; for a tree, also rename the leaf if it has the domain's name."""
    system = System.read(model)
    system.require_adapters()
    system.require_domain(old)
    _check_new_name(system, new)

    def renamed(name: str) -> str:
        return new if name == old else name

    tree = system.tree
    if tree is not None:
        domains = {renamed(name): leaf for name, leaf in tree.domains.items()}
        tree = _checked(replace(tree, names=tuple(map(renamed, tree.names)), domains=domains))
    adapters = {renamed(name): rows for name, rows in system.adapters().items()}
    system = system.changed(adapters, map(renamed, system.guarded), tree)
    system.write(output)
    return system


def _fresh_rows(system: System, seed: int) -> State:
    """Return the rows of a newly initialised adapter, which computes the identity, with an even gate."""
    torch.manual_seed(seed)
    shapes = system.shapes_of(system.kind, system.options)
    rows = {key: torch.zeros(shape) for key, shape in shapes.items() if system.is_row(key)}
    scale = float(system.options.get("adapter_init_scale") or 1e-2)
    for key, row in rows.items():
        if key.endswith("norm_weight"):
            row.fill_(1)
        elif key.endswith("down_weight"):
            torch.nn.init.trunc_normal_(row, std=scale, a=-2 * scale, b=2 * scale)
    return rows


def _check_new_name(system: System, name: str) -> None:
    if not is_domain_name(name):
        raise InputError(f"{name!r} is not a valid domain name; use letters, digits, '-' and '_' only")
    if name in (*system.domains, *system.names):
        raise InputError(f"{system.path}: already has {name!r}; choose another name")
    if name in (*RESERVED_NAMES, NOTHING, MEAN, NEAREST):
        raise InputError(f"{name!r} is a reserved name; choose another name for the domain")


def _with_leaf(tree: DomainTree, name: str, parent: str | None) -> DomainTree:
    inner = [node for node in tree.names if node not in tree.leaves]
    if parent not in (*inner, "none"):
        raise InputError(
            f"--parent: give the parent node of the new leaf ({', '.join(inner) or 'the tree has no inner node'}), "
            "or none for a separate root"
        )
    row = None if parent == "none" else tree.names.index(str(parent))
    domains = {**tree.domains, name: len(tree.names)}
    return _checked(DomainTree((*tree.names, name), (*tree.parents, row), domains))


def _without_domain(tree: DomainTree, name: str) -> DomainTree:
    """Return the tree without a domain, its leaf if unused, and inner nodes without remaining children."""
    domains = {other: row for other, row in tree.domains.items() if other != name}
    needed = sorted({row for other in domains for row in tree.path(other)})
    number: Mapping[int | None, int | None] = {None: None, **{row: new for new, row in enumerate(needed)}}
    return DomainTree(
        tuple(tree.names[row] for row in needed),
        tuple(number[tree.parents[row]] for row in needed),
        {other: needed.index(row) for other, row in domains.items()},
    )


def _checked(tree: DomainTree) -> DomainTree:
    """Return the tree after validating it."""
    return tree_from_json(tree.to_json(), "the new tree")
