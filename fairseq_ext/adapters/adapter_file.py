"""Adapter files: adapters of one or more domains without their base, as safetensors.

The manifest is stored in the file's metadata, so the information about the base cannot be lost or mixed up. It contains
a SHA-256 of every tensor, and its own SHA-256 stands before it. They detect damage and edits. They are not a signature:
an attacker can write a new file.

::

    encoder.layers.0.adapter.bank.down_weight@tickets       row of that stacked tensor: the adapter of "tickets"
    encoder.layers.0.adapter.router.weight@tickets          its row of the gate, for gated adapters
    decoder.layers.0.adapter.bank.norm_weight               shared by all adapters, for trees
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import pydantic
import torch
from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from safetensors import SafetensorError, safe_open
from torch import Tensor

from fairseq_ext.base.domain_names import is_domain_name
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.steps import atomic_write
from fairseq_ext.modules.tensor_file import write_tensors

SUFFIX = ".safetensors"
_REMEDY = "export the adapters again with fairseq-ext adapters export"


def _are_different_names(names: tuple[str, ...]) -> tuple[str, ...]:
    if not all(map(is_domain_name, names)) or len(set(names)) < len(names):
        raise ValueError("expected valid and distinct names of domains")
    return names


_Hashes = Annotated[dict[str, Annotated[str, Field(pattern="^[0-9a-f]{64}$")]], Field(min_length=1)]


@pydantic.dataclasses.dataclass(frozen=True, config=ConfigDict(strict=True))
class AdapterManifest:
    """The contents of an adapter file, and the base that it belongs to.

    Attributes:
        domains: domains of the adapters; for a tree, the nodes on the paths of the exported domains.
        kind: registered model with such adapters.
        options: options of that model that its base does not have.
        sizes: sizes of the base, for information.
        base: SHA-256 of every tensor of the base, in the model's order.
        guarded: domains whose adapters are active only if their gate's logit is the highest.
        tree: the whole tree that contains the nodes, as JSON; None without a tree.
        vocabulary: SHA-256 of dictionaries and subword models, by file name.
        data_fingerprint: fingerprint of the training data, if known.
        licence: licence of the adapters, as given at export.
        tensors: SHA-256 of every tensor.
        format: version of the file format.
    """

    domains: Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(_are_different_names)]
    kind: str
    options: dict[str, int | float | str | bool | None]
    sizes: dict[str, int]
    base: _Hashes
    guarded: tuple[str, ...] = ()
    tree: str | None = None
    vocabulary: dict[str, str] = field(default_factory=dict)
    data_fingerprint: str | None = None
    licence: str | None = None
    tensors: dict[str, str] = field(default_factory=dict)
    format: Literal[1] = 1


@dataclass(frozen=True)
class AdapterFile:
    """Adapters with their manifest."""

    path: Path
    manifest: AdapterManifest
    # For each domain, the row of every stacked tensor by the tensor's name.
    rows: Mapping[str, dict[str, Tensor]]
    # Tensors shared by all adapters, by name.
    shared: Mapping[str, Tensor]


def write_adapters(
    path: Path, manifest: AdapterManifest, rows: Mapping[str, Mapping[str, Tensor]], shared: Mapping[str, Tensor]
) -> None:
    """Write an adapter file atomically, with hashes of its tensors."""
    tensors = {f"{key}@{name}": row.contiguous() for name, own in rows.items() for key, row in own.items()}
    tensors |= {key: value.contiguous() for key, value in shared.items()}
    content = {**asdict(manifest), "tensors": {name: tensor_hash(value) for name, value in tensors.items()}}
    text = json.dumps(content, ensure_ascii=False)
    # One entry: safetensors writes several in any order, and equal adapters should have equal files.
    metadata = {"manifest": f"{_digest(text)} {text}"}
    with atomic_write(path) as temporary:
        try:
            write_tensors(temporary, tensors, metadata)
        except SafetensorError as error:
            raise InputError(f"{path}: cannot be written ({error}); mend this, and run the command again") from None


def read_adapters(path: Path) -> AdapterFile:
    """Read an adapter file, and check all of it against its manifest."""
    if not path.is_file():
        raise InputError(f"{path}: not found; give an adapter file, written by fairseq-ext adapters export")
    try:
        with safe_open(path, framework="pt") as file:
            manifest = _parse(file.metadata() or {}, path)
            if differing := manifest.tensors.keys() ^ set(file.keys()):
                raise InputError(
                    f"{path}: the tensor {min(differing)} is missing in the file or in its manifest; {_REMEDY}"
                )
            tensors = {name: file.get_tensor(name) for name in manifest.tensors}
    except SafetensorError as error:
        raise InputError(f"{path}: is cut off, or is not a safetensors file ({error}); {_REMEDY}") from None
    for name, value in tensors.items():
        if tensor_hash(value) != manifest.tensors[name]:
            raise InputError(f"{path}: the tensor {name} was changed after export (SHA-256 differs); {_REMEDY}")
    rows: dict[str, dict[str, Tensor]] = {name: {} for name in manifest.domains}
    shared = {}
    for name, value in tensors.items():
        key, is_row, domain = name.partition("@")
        if not is_row:
            shared[key] = value
        elif domain in rows:
            rows[domain][key] = value
        else:
            raise InputError(f"{path}: the tensor {name} belongs to no domain of the manifest; {_REMEDY}")
    return AdapterFile(path, manifest, rows, shared)


def tensor_hash(value: Tensor) -> str:
    """Return the SHA-256 of a tensor's type, shape and bytes."""
    value = value.detach().contiguous()
    digest = hashlib.sha256(f"{value.dtype}\0{tuple(value.shape)}\0".encode())
    digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _parse(entries: Mapping[str, str], path: Path) -> AdapterManifest:
    """Return the manifest in a file's metadata."""
    checksum, _, text = entries.get("manifest", "").partition(" ")
    if not text:
        raise InputError(f"{path}: has no manifest of adapters; {_REMEDY}")
    if checksum != _digest(text):
        raise InputError(f"{path}: its manifest was changed after export (SHA-256 differs); {_REMEDY}")
    try:
        manifest = TypeAdapter(AdapterManifest).validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(f"{path}: manifest: {where}: {first['msg']}; {_REMEDY}") from None
    if not set(manifest.guarded) <= set(manifest.domains):
        raise InputError(f"{path}: its manifest guards adapters that it does not contain; {_REMEDY}")
    return manifest


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
