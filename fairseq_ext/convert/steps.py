"""The files of a base model, found without importing torch unless it is a Marian model."""

from __future__ import annotations

from pathlib import Path

from fairseq_ext.base.errors import InputError

WEIGHTS = (".bin", ".bin.gz", ".npz", ".pt", ".safetensors")  # ends of the names of files with weights
_MODEL, _CONFIG = "model.pt", "config.json"
_OF_BASES = (".bin", ".json", ".model", ".pt", ".safetensors", ".spm", ".txt")


def base_files(source: Path) -> list[Path]:
    """Return the files of an experiment's base model, given its folder or, for Marian, its file."""
    folder = source if source.is_dir() else source.parent
    files = sorted(path for path in folder.iterdir() if path.is_file()) if source.exists() else []
    if not any(path.name.endswith(WEIGHTS) for path in files):
        raise InputError(
            f"{source}: has no base model; give the folder of a Hugging Face model, with {_CONFIG}, a Marian model "
            f"(.npz or .bin) or its folder, or the output of fairseq-ext import, with {_MODEL}"
        )
    if any((source / name).is_file() for name in (_CONFIG, _MODEL)):
        return [path for path in files if path.suffix in _OF_BASES]
    # Imported here because it loads fairseq.
    from fairseq_ext.convert.marian_folder import find_files

    return find_files(source).inputs
