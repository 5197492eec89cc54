"""An adapter file: adapters of one or several domains without their base, as safetensors.

The manifest is the file's own metadata, not a second file beside it: what says which base the tensors belong to cannot
be lost, or taken from another file. It holds a SHA-256 of every tensor, and the file one of the manifest. These find
damage and edits; they are no signature, so who wants to deceive can write a file anew.

::

    encoder.layers.0.adapter.bank.down_weight@tickets       a row of that stacked tensor: tickets' adapter
    encoder.layers.0.adapter.router.weight@tickets          … and its row of the gate, of gated adapters
    decoder.layers.0.adapter.bank.norm_weight               what all adapters share, in trees
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
from safetensors.torch import save
from torch import Tensor

from fairseq_ext.engine.steps import atomic_write
from fairseq_ext.inputs.domain_names import is_domain_name
from fairseq_ext.inputs.errors import InputError

SUFFIX = ".safetensors"
_REMEDY = "export the adapters again with fairseq-ext adapters export"


def _are_different_names(names: tuple[str, ...]) -> tuple[str, ...]:
    if not all(map(is_domain_name, names)) or len(set(names)) < len(names):
        raise ValueError("expected different names of domains")
    return names


_Hashes = Annotated[dict[str, Annotated[str, Field(pattern="^[0-9a-f]{64}$")]], Field(min_length=1)]


@pydantic.dataclasses.dataclass(frozen=True, config=ConfigDict(strict=True))
class AdapterManifest:
    """What an adapter file holds, and which base it belongs to.

    Attributes:
        domains: whose adapters these are; of a tree the nodes, those on the paths of the domains that were asked for.
        kind: the registered model that has such adapters.
        options: of that model, beyond its base's.
        sizes: of the base, to be read by people.
        base: SHA-256 of every tensor of the base, in the model's order.
        guarded: those of the domains that take part only where their gate's logit is above all others'.
        tree: the whole tree that the nodes are of, as JSON; None for no tree.
        vocabulary: SHA-256 of dictionaries and subwords, by file name.
        data_fingerprint: of the training data, where it is known.
        licence: under which the adapters may be used, in the words of who exported them.
        tensors: SHA-256 of every tensor.
        format: of the file.
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
    # By domain, the row of every stacked tensor by that tensor's name.
    rows: Mapping[str, dict[str, Tensor]]
    # What all adapters share, by name.
    shared: Mapping[str, Tensor]


def write_adapters(
    path: Path, manifest: AdapterManifest, rows: Mapping[str, Mapping[str, Tensor]], shared: Mapping[str, Tensor]
) -> None:
    """Write an adapter file; hashes are added here, and the name appears when the file is complete."""
    tensors = {f"{key}@{name}": row.contiguous() for name, own in rows.items() for key, row in own.items()}
    tensors |= {key: value.contiguous() for key, value in shared.items()}
    content = {**asdict(manifest), "tensors": {name: tensor_hash(value) for name, value in tensors.items()}}
    text = json.dumps(content, ensure_ascii=False)
    # Not save_file: its own errors of a full disk are of no kind that Python knows.
    data = save(tensors, metadata={"manifest": text, "manifest_sha256": _digest(text)})
    with atomic_write(path) as temporary:
        temporary.write_bytes(data)


def read_adapters(path: Path) -> AdapterFile:
    """An adapter file, all of it checked against its manifest."""
    if not path.is_file():
        raise InputError(f"{path}: no such file; give an adapter file, which fairseq-ext adapters export writes")
    try:
        with safe_open(path, framework="pt") as file:
            manifest = _parse(file.metadata() or {}, path)
            if differing := manifest.tensors.keys() ^ set(file.keys()):
                raise InputError(f"{path}: file and manifest do not both have the tensor {min(differing)}; {_REMEDY}")
            tensors = {name: file.get_tensor(name) for name in manifest.tensors}
    except SafetensorError as error:
        raise InputError(f"{path}: cut off, or no safetensors file ({error}); {_REMEDY}") from None
    for name, value in tensors.items():
        if tensor_hash(value) != manifest.tensors[name]:
            raise InputError(f"{path}: the tensor {name} is not as it was written (SHA-256 differs); {_REMEDY}")
    rows: dict[str, dict[str, Tensor]] = {name: {} for name in manifest.domains}
    shared = {}
    for name, value in tensors.items():
        key, is_row, domain = name.partition("@")
        if not is_row:
            shared[key] = value
        elif domain in rows:
            rows[domain][key] = value
        else:
            raise InputError(f"{path}: the tensor {name} is of no domain of its manifest; {_REMEDY}")
    return AdapterFile(path, manifest, rows, shared)


def tensor_hash(value: Tensor) -> str:
    """SHA-256 of a tensor: its type, its shape, its bytes."""
    value = value.detach().contiguous()
    digest = hashlib.sha256(f"{value.dtype}\0{tuple(value.shape)}\0".encode())
    digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _parse(entries: Mapping[str, str], path: Path) -> AdapterManifest:
    """The manifest in a file's metadata."""
    text = entries.get("manifest")
    if text is None:
        raise InputError(f"{path}: a safetensors file, but without a manifest of adapters; {_REMEDY}")
    if entries.get("manifest_sha256") != _digest(text):
        raise InputError(f"{path}: its manifest is not as it was written (SHA-256 differs); {_REMEDY}")
    try:
        manifest = TypeAdapter(AdapterManifest).validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(f"{path}: manifest: {where}: {first['msg']}; {_REMEDY}") from None
    if not set(manifest.guarded) <= set(manifest.domains):
        raise InputError(f"{path}: its manifest guards other adapters than it has; {_REMEDY}")
    return manifest


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
