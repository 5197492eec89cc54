"""The files of a base model, found without importing torch."""

from __future__ import annotations

from pathlib import Path

from fairseq_ext.inputs.errors import InputError

_MODEL, _CONFIG = "model.pt", "config.json"
WEIGHTS = (".bin", ".bin.gz", ".npz", ".pt", ".safetensors")  # ends of the names of files with weights
_OF_BASES = (".bin", ".json", ".model", ".pt", ".safetensors", ".spm", ".txt")


def base_files(source: Path) -> list[Path]:
    """Return the files of an experiment's base model."""
    if not any((source / name).is_file() for name in (_CONFIG, _MODEL)):
        raise InputError(
            f"{source}: has no base model; give the folder of a Hugging Face model, with {_CONFIG}, or the output of "
            f"fairseq-ext import hf, with {_MODEL}"
        )
    return sorted(path for path in source.iterdir() if path.suffix in _OF_BASES and path.is_file())
