"""Over which paths of a domain tree text is scored or written, as ``--paths`` says it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from fairseq_ext.inputs.domain_tree import ALL_PATHS, NO_PATH, DomainTree, Paths
from fairseq_ext.inputs.errors import InputError, shown
from fairseq_ext.inputs.json_file import read_json

_IN_FILE: TypeAdapter[Paths] = TypeAdapter(
    list[str] | dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]]
)


def names_of_paths(spec: str, tree: DomainTree, domain: str | None = None) -> Paths:
    """The nodes or domains at which the paths start, and how much each counts where a file says so.

    Args:
        spec: names separated by commas, ``all`` for every leaf of the tree, ``none`` for no adapter, or a file
            ``FILE.json`` that gives the names for each domain of the data, or for each name how much its path counts.
        tree: that of the model.
        domain: of the text; None for text of no known domain, which a file says nothing of.
    """
    if spec in (ALL_PATHS, NO_PATH):
        return list(tree.leaves) if spec == ALL_PATHS else []
    names: Paths = [name.strip() for name in spec.split(",") if name.strip()]
    if spec.endswith(".json"):
        if domain is None:
            raise InputError(f"--paths {spec}: typed text is of no domain of the data; give names of domains or leaves")
        names = _paths_in_file(Path(spec), domain)
    if not names:
        raise InputError(f"--paths {spec!r}: no name; give domains or leaves, {ALL_PATHS} or {NO_PATH}")
    try:
        tree.path_weights(names)
    except InputError as error:
        raise InputError(f"--paths {spec}: {error}") from None
    return names


def _paths_in_file(path: Path, domain: str) -> Paths:
    try:
        content = read_json(path, "choose paths with fairseq-ext paths")
    except InputError as error:
        raise InputError(f"--paths {error}") from None
    if domain not in content:
        raise InputError(f"--paths {path}: no paths for domain {domain}; choose them with fairseq-ext paths")
    try:
        return _IN_FILE.validate_python(content[domain])
    except ValidationError:
        raise InputError(
            f"--paths {path}: domain {domain}: {shown(content[domain])} is no list of names, and no object of names "
            "and numbers above zero"
        ) from None
