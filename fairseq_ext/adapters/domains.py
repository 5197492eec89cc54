"""Domains of a model: one more, one less, another name."""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch

from fairseq_ext.adapters.rows import append_rows, fresh_rows, mean_rows, reorder_rows
from fairseq_ext.adapters.system import System
from fairseq_ext.inputs.domain_names import RESERVED_NAMES, is_domain_name
from fairseq_ext.inputs.domain_tree import DomainTree, tree_from_json
from fairseq_ext.inputs.errors import InputError

# Where a new adapter starts, beside at a domain's.
NOTHING, MEAN, NEAREST = "nothing", "mean", "nearest"


def add_domain(
    system: System, name: str, start: str, *, parent: str | None = None, guarded: bool = False, seed: int = 1
) -> System:
    """The system with an adapter more, untrained; all others stay as they are, bit for bit.

    Args:
        system: with adapters.
        name: of the new domain.
        start: ``nothing`` for a fresh adapter, ``mean`` for the mean of all, or the domain whose adapter is copied.
        parent: of a tree, the node that gets a new leaf; ``none`` for a root of its own.
        guarded: of gated adapters: let the new one take part only where its gate's logit is above all others'.
        seed: of a fresh adapter.
    """
    system.require_adapters()
    _check_new_name(system, name)
    keys = [key for key in system.model if system.is_row(key)]
    if start == NOTHING:
        torch.manual_seed(seed)
        shapes = {key: shape for key, shape in system.shapes().items() if system.is_row(key)}
        rows = fresh_rows(shapes, float(system.options.get("adapter_init_scale") or 1e-2))
    elif start == MEAN:
        rows = mean_rows(system.model, keys)
    else:
        system.require_domain(start)
        rows = system.rows(start if system.tree is None else system.tree.names[system.tree.domains[start]])
    model = append_rows(system.model, rows)
    old = [*system.names, name]
    if system.tree is not None:
        return system.changed(model, old, tree=_with_leaf(system, name, parent))
    names = sorted(old)
    model = reorder_rows(model, old, names, system.is_row)
    return system.changed(model, names, sorted({*system.guarded, *([name] if guarded else [])}))


def remove_domain(model: Path, name: str, output: Path) -> System:
    """Write a model without a domain; of a tree without the nodes that no other domain needs."""
    system = System.read(model)
    system.require_adapters()
    system.require_domain(name)
    if len(system.domains) == 1:
        raise InputError(f"{model}: {name} is its only domain; use the base that its adapters are on")
    tree = None if system.tree is None else _without_domain(system.tree, name)
    kept = [other for other in system.names if other != name] if tree is None else list(tree.names)
    guarded = [other for other in system.guarded if other in kept]
    if guarded == kept:
        guarded = []  # none is left that they could come after
    rows = reorder_rows(system.model, system.names, kept, system.is_row)
    system = system.changed(rows, kept, guarded, tree)
    system.write(output)
    return system


def rename_domain(model: Path, old: str, new: str, output: Path) -> System:
    """Write a model in which a domain has another name; of a tree its leaf too, if that has the domain's name."""
    system = System.read(model)
    system.require_adapters()
    system.require_domain(old)
    _check_new_name(system, new)

    def renamed(name: str) -> str:
        return new if name == old else name

    called = list(map(renamed, system.names))
    if system.tree is not None:
        domains = {renamed(name): leaf for name, leaf in system.tree.domains.items()}
        tree = _checked(replace(system.tree, names=tuple(called), domains=domains))
        system = system.changed(system.model, called, tree=tree)
    else:
        names = sorted(called)
        rows = reorder_rows(system.model, called, names, system.is_row)
        system = system.changed(rows, names, sorted(map(renamed, system.guarded)))
    system.write(output)
    return system


def _check_new_name(system: System, name: str) -> None:
    if not is_domain_name(name):
        raise InputError(f"{name!r} is no name of a domain; use letters, digits, '-' and '_' only")
    if name in (*system.domains, *system.names):
        raise InputError(f"{system.path}: has {name!r} already; choose another name")
    if name in (*RESERVED_NAMES, NOTHING, MEAN, NEAREST):
        raise InputError(f"{name!r} has a meaning of its own here; choose another name for the domain")


def _with_leaf(system: System, name: str, parent: str | None) -> DomainTree:
    tree = system.tree
    assert tree is not None
    inner = [node for node in tree.names if node not in tree.leaves]
    if parent is None or parent not in (*inner, "none"):
        raise InputError(
            f"--parent: give the node that the new leaf goes below, one of {', '.join(inner) or 'no node'}, or none "
            "for a root of its own"
        )
    row = None if parent == "none" else tree.names.index(parent)
    domains = {**tree.domains, name: len(tree.names)}
    return _checked(DomainTree((*tree.names, name), (*tree.parents, row), domains))


def _without_domain(tree: DomainTree, name: str) -> DomainTree:
    """The tree without a domain, its leaf if no other domain is there, and inner nodes that lose all children."""
    domains = {other: row for other, row in tree.domains.items() if other != name}
    needed = sorted({row for other in domains for row in tree.path(other)})
    number: Mapping[int | None, int | None] = {None: None, **{row: new for new, row in enumerate(needed)}}
    return DomainTree(
        tuple(tree.names[row] for row in needed),
        tuple(number[tree.parents[row]] for row in needed),
        {other: bisect.bisect_left(needed, row) for other, row in domains.items()},
    )


def _checked(tree: DomainTree) -> DomainTree:
    """The tree, if it is one by all rules."""
    return tree_from_json(tree.to_json(), "the new tree")
