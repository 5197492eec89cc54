"""The steps that import and export models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from fairseq_ext.corpora.encoders import subword_files
from fairseq_ext.engine.steps import Step
from fairseq_ext.inputs.errors import InputError

_VERSION = 1
_MODEL, _CONFIG = "model.pt", "config.json"
_OF_BASES = (".bin", ".json", ".model", ".pt", ".safetensors", ".spm", ".txt")


def import_step(source: Path, output: Path) -> Step:
    """The step that makes ``model.pt``."""

    def build(folder: Path) -> None:
        from fairseq_ext.convert.checkpoints import import_checkpoint

        import_checkpoint(source, folder)

    return Step(output, [source], {"version": _VERSION}, build, results=[_MODEL])


def base_files(source: Path) -> list[Path]:
    """The files that the base of an experiment is made of."""
    if not any((source / name).is_file() for name in (_CONFIG, _MODEL)):
        raise InputError(
            f"{source}: no base model; give a folder of Hugging Face's, with {_CONFIG}, or one with {_MODEL}, "
            "dictionaries and sentencepiece.model, as fairseq-ext import hf makes it"
        )
    return sorted(path for path in source.iterdir() if path.suffix in _OF_BASES and path.is_file())


def what_next(output: Path) -> str:
    """How to go on, as one would type it."""
    options = output / "options.txt"
    told = " ".join(options.read_text(encoding="utf-8").split()) if options.is_file() else ""
    line = f"train on it with --arch transformer_gated_adapter --finetune-from-model {output / _MODEL} {told}"
    return line.rstrip()


def export_step(checkpoint: Path, domain: str, output: Path) -> Step:
    """The step that makes ``model.pt`` of a checkpoint with plain adapters and one of its domains."""

    def build(folder: Path) -> None:
        from fairseq_ext.convert.checkpoints import export_domain

        export_domain(checkpoint, domain, folder)

    return Step(output, [checkpoint], {"version": _VERSION, "domain": domain}, build, results=[_MODEL])


def hugging_face_import(
    source: Path, output: Path, texts: Sequence[str], convert: Callable[[Path, Path], None]
) -> Step:
    """The step that imports a language model of Hugging Face's, with ``texts`` the files of its subwords."""
    from fairseq_ext.convert.hugging_face import input_files

    return Step(output, input_files(source, texts), {"version": _VERSION}, lambda folder: convert(source, folder))


def hugging_face_export(
    checkpoint: Path, subwords: Path, output: Path, convert: Callable[[Path, Path, Path], None]
) -> Step:
    """The step that makes a Hugging Face directory of a checkpoint and a folder with its subwords."""
    inputs = [checkpoint, *(subwords / name for name in subword_files(subwords))]
    return Step(output, inputs, {"version": _VERSION}, lambda folder: convert(checkpoint, subwords, folder))
