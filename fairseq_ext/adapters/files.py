"""Adapters out of a model and into one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, equal

from fairseq_ext.adapters.adapter_file import SUFFIX, AdapterFile, AdapterManifest, read_adapters, write_adapters
from fairseq_ext.adapters.rows import append_rows, base_hashes, is_row_key, reorder_rows
from fairseq_ext.adapters.system import ADDED, BASES, EARLIER_OPTIONS, System, kind_options, on_base, refuse_existing
from fairseq_ext.inputs.domain_tree import DomainTree, tree_from_json
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.modules.freezing import is_adapter_key
from fairseq_ext.modules.language_model_options import HIERARCHICAL_ADAPTERS
from fairseq_ext.patches.checkpoints import check_weights

_SIZES = (
    *("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads"),
    *("decoder_layers", "decoder_embed_dim", "decoder_ffn_embed_dim", "decoder_attention_heads"),
)


def export_adapters(model: Path, domains: Sequence[str], output: Path, licence: str | None = None) -> list[Path]:
    """Write domains' adapters alone.

    Args:
        model: checkpoint or exported system.
        domains: whose adapters; none for all. Of a tree, those of all nodes on their paths go along.
        output: a file for all of them if its name ends in ``.safetensors``, else a folder for one file a domain.
        licence: noted in the files.

    Returns:
        The files.
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
    """Write a model with the adapters of files, put on a plain one or beside those it has."""
    system = System.read(model)
    for path in files:
        system = _with_file(system, read_adapters(path))
    system.write(output)
    return system


def _write(system: System, path: Path, domains: Sequence[str], licence: str | None) -> None:
    names = list(domains) if system.tree is None else _nodes_of(system.tree, domains)
    source = system.manifest
    manifest = AdapterManifest(
        domains=tuple(names),
        kind=system.kind,
        options=kind_options(system),
        sizes={name: system.options[name] for name in _SIZES if name in system.options},
        base=base_hashes(system.model),
        guarded=tuple(name for name in names if name in system.guarded),
        tree=None if system.tree is None else system.tree.to_json(),
        vocabulary=system.vocabulary,
        data_fingerprint=source.data_fingerprint if source else None,
        licence=licence,
    )
    shared = {key: value for key, value in system.model.items() if is_adapter_key(key) and not system.is_row(key)}
    write_adapters(path, manifest, {name: system.rows(name) for name in names}, shared)


def _nodes_of(tree: DomainTree, domains: Iterable[str]) -> list[str]:
    """The nodes on the paths of domains, in the order of rows."""
    rows = {row for name in domains for row in tree.path(name)}
    return [tree.names[row] for row in sorted(rows)]


def _with_file(system: System, file: AdapterFile) -> System:
    _check_base(system, file)
    _check_kind(system, file)
    _check_tensors(system, file)
    if file.manifest.kind == HIERARCHICAL_ADAPTERS:
        return _with_nodes(system, file)
    old = system.names if system.has_adapters else ()
    for name in file.manifest.domains:
        if name in old:
            raise InputError(
                f"{file.path}: has an adapter {name!r}, and there is one of that name; rename or remove one of them"
            )
    return _with_rows(system, file, sorted({*old, *file.manifest.domains}))


def _with_rows(system: System, file: AdapterFile, names: Sequence[str], tree: DomainTree | None = None) -> System:
    """The system with the rows of a file that it lacks, in this order."""
    old = list(system.names) if system.has_adapters else []
    new = [name for name in file.manifest.domains if name not in old]
    model = {**system.model, **file.shared}
    for name in new:
        model = append_rows(model, file.rows[name])
    model = reorder_rows(model, [*old, *new], names, lambda key: is_row_key(key, tree is not None))
    options = on_base(system, file.manifest) if not system.has_adapters else None
    guarded = sorted({*(system.guarded if old else ()), *file.manifest.guarded})
    return system.changed(model, names, guarded, tree, options)


def _with_nodes(system: System, file: AdapterFile) -> System:
    """The same for a tree: its domains come with all nodes on their paths."""
    theirs = tree_from_json(file.manifest.tree or "", f"{file.path}: its tree")
    old = system.tree
    for name in file.manifest.domains:
        if name not in theirs.names or _parent(theirs, name) not in (None, *file.manifest.domains):
            raise InputError(f"{file.path}: lacks nodes on the path of {name!r}; export the adapters again")
        if old is not None:
            _check_node(system, file, name, theirs)
    tree = _joined(old, theirs, file.manifest.domains)
    return _with_rows(system, file, tree.names, tree)


def _check_node(system: System, file: AdapterFile, name: str, theirs: DomainTree) -> None:
    """Refuse a node that both have, unless it is an inner one, the same bit for bit."""
    assert system.tree is not None
    if name not in system.names:
        return
    own, parents = system.rows(name), [_parent(tree, name) for tree in (system.tree, theirs)]
    is_same = parents[0] == parents[1] and all(equal(own[key], row) for key, row in file.rows[name].items())
    if name in theirs.leaves or not is_same:
        raise InputError(
            f"{file.path}: has an adapter {name!r}, and there is one of that name; rename or remove one of them"
        )


def _joined(own: DomainTree | None, theirs: DomainTree, nodes: Sequence[str]) -> DomainTree:
    """A tree with these nodes of another one too, with their domains; in that one's order where it has all of them."""
    names = [*(own.names if own else ()), *(name for name in nodes if own is None or name not in own.names)]
    if set(names) <= set(theirs.names):
        names = [name for name in theirs.names if name in names]
    trees = {name: own if own is not None and name in own.names else theirs for name in names}
    parents = {name: _parent(tree, name) for name, tree in trees.items()}
    leaves = {name: tree.names[row] for tree in (theirs, own) if tree for name, row in tree.domains.items()}
    return DomainTree(
        tuple(names),
        tuple(None if parents[name] is None else names.index(str(parents[name])) for name in names),
        {name: names.index(leaf) for name, leaf in sorted(leaves.items()) if leaf in names},
    )


def _parent(tree: DomainTree, name: str) -> str | None:
    row = tree.parents[tree.names.index(name)]
    return None if row is None else tree.names[row]


def _check_base(system: System, file: AdapterFile) -> None:
    """Refuse another base, by the first tensor that differs."""
    own, theirs = base_hashes(system.model), file.manifest.base
    first = next((key for key in [*theirs, *own] if own.get(key) != theirs.get(key)), None)
    if first is not None:
        raise InputError(
            f"{file.path}: belongs to another base than {system.path}, whose {first} differs; give the model that its "
            "adapters were trained on"
        )


def _check_kind(system: System, file: AdapterFile) -> None:
    """Refuse adapters of a kind that the model cannot have, or with options other than its own."""
    kind = file.manifest.kind
    if kind not in BASES:
        raise InputError(f"{file.path}: has adapters of {kind!r}; known are {', '.join(BASES)}")
    options = {**EARLIER_OPTIONS.get(kind, {}), **file.manifest.options}
    if options.keys() != set(ADDED[kind]):
        raise InputError(f"{file.path}: its options are not {', '.join(ADDED[kind])}; export the adapters again")
    if system.kind not in (kind, BASES[kind]):
        raise InputError(
            f"{file.path}: has adapters of {kind!r}, {system.path} is a {system.architecture!r}; give the base alone, "
            f"or a {kind!r} on it"
        )
    own: Mapping[str, Any] = kind_options(system) if system.has_adapters else {}
    for name, value in own.items():
        # How adapters start and train says nothing of what they compute; their width is in their shapes.
        is_of_training = name in ("bottleneck_dim", "adapter_init_scale", "frozen_mode")
        if not is_of_training and options[name] != value:
            raise InputError(
                f"{file.path}: its adapters have {name} {options[name]}, those of {system.path} "
                f"{value}; they cannot be mixed"
            )


def _check_tensors(system: System, file: AdapterFile) -> None:
    """Refuse adapters that lack a tensor, have one too many, or one of another size than this base's adapters."""
    kind = file.manifest.kind
    shapes = system.shapes() if system.has_adapters else system.shapes_of(kind, file.manifest.options)
    is_row = {key: is_row_key(key, kind == HIERARCHICAL_ADAPTERS) for key in shapes}
    parts: list[tuple[str, Mapping[str, Tensor], bool]] = [("", file.shared, False)]
    parts += [(f"@{name}", rows, True) for name, rows in file.rows.items()]
    for suffix, tensors, are_rows in parts:
        check_weights(tensors)
        expected = {key: shape for key, shape in shapes.items() if is_row[key] == are_rows}
        for key in sorted({*expected, *tensors}):
            found = tuple(tensors[key].shape) if key in tensors else None
            if found != expected.get(key):
                raise InputError(
                    f"{file.path}: {key}{suffix} has the shape {found}, where this base takes {expected.get(key)}; "
                    "give adapters of its own sizes"
                )
    if system.has_adapters:
        for key, value in file.shared.items():
            if not equal(value, system.model[key]):
                raise InputError(
                    f"{file.path}: {key}, which all adapters share, is another one in {system.path}; attach the file "
                    "to the base alone"
                )
