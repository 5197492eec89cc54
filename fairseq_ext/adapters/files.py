"""Adapters out of a model and into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairseq_ext.adapters.adapter_file import SUFFIX, AdapterFile, AdapterManifest, read_adapters, write_adapters
from fairseq_ext.adapters.rows import append_rows, base_hashes, reorder_rows
from fairseq_ext.adapters.system import ADDED, BASES, EARLIER_OPTIONS, System, kind_options, on_base, refuse_existing
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.modules.freezing import is_adapter_key
from fairseq_ext.patches.checkpoints import check_weights

_SIZES = (
    *("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads"),
    *("decoder_layers", "decoder_embed_dim", "decoder_ffn_embed_dim", "decoder_attention_heads"),
)


def export_adapters(model: Path, domains: Sequence[str], output: Path, licence: str | None = None) -> list[Path]:
    """Write domains' adapters alone.

    Args:
        model: checkpoint or exported system.
        domains: whose adapters; none for all.
        output: a file for all of them if its name ends in ``.safetensors``, else a folder for one file a domain.
        licence: noted in the files.

    Returns:
        The files.
    """
    system = System.read(model)
    system.require_adapters()
    if system.tree is not None:
        raise InputError(f"{model}: the adapters of a tree share its inner nodes and stay in their model")
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
    source = system.manifest
    manifest = AdapterManifest(
        domains=tuple(domains),
        kind=system.kind,
        options=kind_options(system),
        sizes={name: system.options[name] for name in _SIZES if name in system.options},
        base=base_hashes(system.model),
        guarded=tuple(name for name in domains if name in system.guarded),
        vocabulary=system.vocabulary,
        data_fingerprint=source.data_fingerprint if source else None,
        licence=licence,
    )
    write_adapters(path, manifest, {name: system.rows(name) for name in domains})


def _with_file(system: System, file: AdapterFile) -> System:
    _check_base(system, file)
    _check_kind(system, file)
    _check_tensors(system, file)
    old, new = list(system.names) if system.has_adapters else [], list(file.manifest.domains)
    model = system.model
    for name in new:
        if name in old:
            raise InputError(
                f"{file.path}: has an adapter {name!r}, and there is one of that name; rename or remove one of them"
            )
        model = append_rows(model, file.rows[name])
    names = sorted([*old, *new])
    model = reorder_rows(model, [*old, *new], names, is_adapter_key)
    guarded = sorted({*(system.guarded if old else ()), *file.manifest.guarded})
    return system.changed(model, names, guarded, options=None if old else on_base(system, file.manifest))


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
    own = system.shapes() if system.has_adapters else system.shapes_of(file.manifest.kind, file.manifest.options)
    for name, rows in file.rows.items():
        check_weights(rows)
        for key in sorted({*own, *rows}):
            found = tuple(rows[key].shape) if key in rows else None
            if found != own.get(key):
                raise InputError(
                    f"{file.path}: {key}@{name} has the shape {found}, where this base takes {own.get(key)}; give "
                    "adapters of its own sizes"
                )
