"""Export adapters to files, and attach adapter files to a model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor, equal

from fairseq_ext.adapters.adapter_file import (
    SUFFIX,
    AdapterFile,
    AdapterManifest,
    read_adapters,
    tensor_hash,
    write_adapters,
)
from fairseq_ext.adapters.system import (
    ADDED,
    BASES,
    System,
    is_row_key,
    kind_options,
    refuse_existing,
)
from fairseq_ext.base.domain_tree import DomainTree, tree_from_json
from fairseq_ext.base.errors import InputError, naming
from fairseq_ext.modules.adapter_names import GUARDED, NAMES
from fairseq_ext.modules.freezing import is_adapter_key
from fairseq_ext.modules.language_model_options import HIERARCHICAL_ADAPTERS
from fairseq_ext.patches.checkpoints import check_weights
from fairseq_ext.patches.options import check_options

_SIZES = (
    *("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads"),
    *("decoder_layers", "decoder_embed_dim", "decoder_ffn_embed_dim", "decoder_attention_heads"),
)
# Entries that belong neither to an adapter nor to the base; `version` is fairseq's format number.
_NO_BASE = re.compile(rf"{re.escape(NAMES)}|{re.escape(GUARDED)}|(?:en|de)coder\.version")


def export_adapters(model: Path, domains: Sequence[str], output: Path, licence: str | None = None) -> list[Path]:
    """Write the adapters of domains without their base.

    Args:
        model: checkpoint or exported system.
        domains: domains to export; all if empty. For a tree, the adapters of all nodes on their paths are included.
        output: path of one file for all domains if it ends in ``.safetensors``, otherwise a folder for one file per
            domain.
        licence: licence to note in the files.
    """
    system = System.read(model)
    system.require_adapters()
    for name in domains:
        system.require_domain(name)
    refuse_existing(output)
    wanted = list(dict.fromkeys(domains)) or list(system.domains)
    parts = {output: wanted} if output.suffix == SUFFIX else {output / f"{name}{SUFFIX}": [name] for name in wanted}
    for path, part in parts.items():
        _write(system, path, part, licence)
    return list(parts)


def attach_adapters(model: Path, files: Sequence[Path], output: Path) -> System:
    """Write a model with the adapters of files, in addition to its own if it has any."""
    system = System.read(model)
    for path in files:
        system = _with_file(system, read_adapters(path))
    system.write(output)
    return system


def _write(system: System, path: Path, domains: Sequence[str], licence: str | None) -> None:
    names = list(domains)
    if system.tree is not None:
        rows = {row for name in domains for row in system.tree.path(name)}
        names = [system.tree.names[row] for row in sorted(rows)]
    source = system.manifest
    manifest = AdapterManifest(
        domains=tuple(names),
        kind=system.kind,
        options=kind_options(system),
        sizes={name: system.options[name] for name in _SIZES if name in system.options},
        base=_base_hashes(system),
        guarded=tuple(name for name in names if name in system.guarded),
        tree=None if system.tree is None else system.tree.to_json(),
        vocabulary=dict(system.checkpoint.get("task_state", {}).get("vocabulary", {})),
        data_fingerprint=source.data_fingerprint if source else None,
        licence=licence,
    )
    shared = {key: value for key, value in system.model.items() if is_adapter_key(key) and not system.is_row(key)}
    write_adapters(path, manifest, {name: system.rows(name) for name in names}, shared)


def _with_file(system: System, file: AdapterFile) -> System:
    _check_base(system, file)
    _check_kind(system, file)
    _check_tensors(system, file)
    adapters, tree, file_tree = system.adapters(), None, None
    if file.manifest.kind == HIERARCHICAL_ADAPTERS:
        file_tree = tree_from_json(file.manifest.tree or "", f"{file.path}: its tree")
        tree = _joined(system.tree, file_tree, file)
    for name in adapters.keys() & file.rows.keys():
        if file_tree is None or not _is_same_inner_node(system, file, name, file_tree):
            raise InputError(
                f"{file.path}: its adapter {name!r} already exists in {system.path}; rename or remove one of them"
            )
    options = None
    if not adapters:
        names = [key for key in ("arch", "_name") if key in system.options] or ["_name"]
        options = {**file.manifest.options, **dict.fromkeys(names, file.manifest.kind)}
    with_shared = replace(system, model={**system.model, **file.shared})
    guarded = {*system.guarded, *file.manifest.guarded}
    return with_shared.changed({**file.rows, **adapters}, guarded, tree, options)


def _is_same_inner_node(system: System, file: AdapterFile, name: str, file_tree: DomainTree) -> bool:
    """Return whether a node of both trees is an inner node and bit-identical."""
    assert system.tree is not None
    rows = system.rows(name)
    has_same_parent = _parent(system.tree, name) == _parent(file_tree, name)
    is_same = has_same_parent and all(equal(rows[key], row) for key, row in file.rows[name].items())
    return name not in file_tree.leaves and is_same


def _joined(old: DomainTree | None, new: DomainTree, file: AdapterFile) -> DomainTree:
    """Return a tree extended by a file's nodes and domains. The file's order is used if it has all nodes."""
    for name in file.rows:
        if name not in new.names or _parent(new, name) not in (None, *file.rows):
            raise InputError(f"{file.path}: some nodes on the path of {name!r} are missing; export the adapters again")
    names = [*(old.names if old else ()), *(name for name in file.rows if old is None or name not in old.names)]
    if set(names) <= set(new.names):
        names = [name for name in new.names if name in names]
    trees = {name: old if old is not None and name in old.names else new for name in names}
    parents = {name: _parent(tree, name) for name, tree in trees.items()}
    leaves = {name: tree.names[row] for tree in (new, old) if tree for name, row in tree.domains.items()}
    return DomainTree(
        tuple(names),
        tuple(None if parents[name] is None else names.index(str(parents[name])) for name in names),
        {name: names.index(leaf) for name, leaf in sorted(leaves.items()) if leaf in names},
    )


def _parent(tree: DomainTree, name: str) -> str | None:
    row = tree.parents[tree.names.index(name)]
    return None if row is None else tree.names[row]


def _base_hashes(system: System) -> dict[str, str]:
    """Return the fingerprint of the base: the SHA-256 of each tensor, in the model's order."""
    entries = system.model.items()
    return {key: tensor_hash(value) for key, value in entries if not (is_adapter_key(key) or _NO_BASE.fullmatch(key))}


def _check_base(system: System, file: AdapterFile) -> None:
    """Refuse another base, and name the first tensor that differs."""
    system_base, file_base = _base_hashes(system), file.manifest.base
    first = next((key for key in [*file_base, *system_base] if system_base.get(key) != file_base.get(key)), None)
    if first is not None:
        raise InputError(
            f"{file.path}: was trained on another base than {system.path}: the tensor {first} differs; give the model "
            "that its adapters were trained on"
        )


def _check_kind(system: System, file: AdapterFile) -> None:
    """Refuse adapters of a kind that the model cannot have, or with other options than its own."""
    kind = file.manifest.kind
    if kind not in BASES or system.kind not in (kind, BASES[kind]):
        raise InputError(
            f"{file.path}: its adapters of {kind!r} are incompatible with {system.path}, a {system.architecture!r}; "
            "give the base, or a model with adapters of that kind"
        )
    options = file.manifest.options
    if options.keys() != set(ADDED[kind]):
        raise InputError(
            f"{file.path}: its manifest does not have the options {', '.join(ADDED[kind])}; export the adapters again"
        )
    weights = {f"{key}@{name}": row for name, rows in file.rows.items() for key, row in rows.items()}
    with naming(file.path):
        check_options({"cfg": {"model": {"_name": kind, **options}}, "model": weights}, {})
    required: Mapping[str, Any] = kind_options(system) if system.has_adapters else {}
    for name, value in required.items():
        # Initialisation and training options do not affect the computation; the width is in the shapes.
        is_of_training = name in ("bottleneck_dim", "adapter_init_scale", "frozen_mode")
        if not is_of_training and options[name] != value:
            raise InputError(
                f"{file.path}: its adapters have {name} {options[name]}, but those of {system.path} have "
                f"{value}; attach them to the base instead"
            )


def _check_tensors(system: System, file: AdapterFile) -> None:
    """Refuse adapters with a missing or additional tensor, or with a shape that does not match the base."""
    kind = file.manifest.kind
    shapes = system.shapes_of(kind, system.options if system.has_adapters else file.manifest.options)
    parts: list[tuple[str, Mapping[str, Tensor], bool]] = [("", file.shared, False)]
    parts += [(f"@{name}", rows, True) for name, rows in file.rows.items()]
    for suffix, tensors, are_rows in parts:
        check_weights(tensors)
        expected = {key: shape for key, shape in shapes.items() if is_row_key(key, kind) == are_rows}
        for key in sorted({*expected, *tensors}):
            shape = tuple(tensors[key].shape) if key in tensors else None
            if shape != expected.get(key):
                raise InputError(
                    f"{file.path}: {key}{suffix} has the shape {shape}, but this base needs {expected.get(key)}; "
                    "give adapters of the same sizes"
                )
    if system.has_adapters:
        for key, value in file.shared.items():
            if not equal(value, system.model[key]):
                raise InputError(
                    f"{file.path}: {key}, which all adapters share, differs from that of {system.path}; attach the "
                    "file to the base instead"
                )
