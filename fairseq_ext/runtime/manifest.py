"""What an exported system is: its manifest ``system.json``, with size and SHA-256 of every file, and its own.

docs/using.md lists the files.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from fairseq_ext.corpora.normalise import Normalise
from fairseq_ext.engine.hashing import hash_file
from fairseq_ext.inputs.domain_names import DOMAINS_FILE, RESERVED_NAMES, check_domain_names
from fairseq_ext.inputs.errors import InputError, shown
from fairseq_ext.inputs.json_file import read_json
from fairseq_ext.runtime.vocabulary import REMEDY, VOCABULARY_FILE, read_strictly

FORMAT = 3  # 2 had no attention in the decoder's graph
MANIFEST_FILE = "system.json"
CHECKPOINT_FILE = "model.pt"
CLASSIFIER_FOLDER = "classifier"
FLOAT32, INT8 = "float32", "int8"
# The graphs of a precision: encoder and decoder.
GRAPH_FILES = {FLOAT32: ("encoder.onnx", "decoder.onnx"), INT8: ("encoder.int8.onnx", "decoder.int8.onnx")}
# What a route may be besides a domain.
GATES, CLASSIFIER, BASE, ORACLE = RESERVED_NAMES
# Options of the search that an export keeps: the type, the least and the greatest value of each.
SEARCH_OPTIONS: dict[str, tuple[type, float, float]] = {
    "beam": (int, 1, 1000),
    "lenpen": (float, -100, 100),
    "unkpen": (float, -100, 100),
    "max_len_a": (float, 0, 100),
    "max_len_b": (int, 0, 10_000),
    "min_len": (int, 0, 10_000),
    "no_repeat_ngram_size": (int, 0, 10_000),
}


def _check_generation(options: dict[str, Any]) -> dict[str, Any]:
    for name, value in options.items():
        if name not in SEARCH_OPTIONS:
            raise ValueError(f"{name} is no option of the search")
        kind, low, high = SEARCH_OPTIONS[name]
        if type(value) not in {kind, int} or not low <= value <= high:
            raise ValueError(f"{name} is {shown(value)}, and has to be from {low} to {high}")
    return options


_FileName = Annotated[str, Field(pattern=rf"^({CLASSIFIER_FOLDER}/)?[A-Za-z0-9][A-Za-z0-9._-]*$")]


@dataclass(frozen=True)
class FileRecord:
    """A file's size in bytes and its SHA-256."""

    bytes: int
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


@dataclass(frozen=True)
class Manifest:
    """What an exported system is.

    Attributes:
        name: of the system, or of a run of it.
        domains: their names, in the order of rows.
        text: how text is normalised before it is cut into pieces; None for not at all.
        generation: options of the search, of :data:`SEARCH_OPTIONS`.
        classifier: kind of the classifier in ``classifier/``.
        data_fingerprint: of the training data.
        scores: of the test sets by output, metric and column.
        versions: of the libraries that it was exported with.
        files: all others of the directory, by relative name.
    """

    name: str
    languages: tuple[str, str]
    domains: tuple[str, ...]
    architecture: str
    text: Normalise | None = None
    generation: Annotated[dict[str, Any], AfterValidator(_check_generation)] = field(default_factory=dict)
    classifier: Annotated[str, Field(pattern="^(tfidf|transformers)$")] | None = None
    data_fingerprint: str | None = None
    scores: dict[str, Any] | None = None
    versions: dict[str, str] = field(default_factory=dict)
    files: dict[_FileName, FileRecord] = field(default_factory=dict)

    @property
    def content(self) -> dict[str, Any]:
        """As plain data."""
        return {**dataclasses.asdict(self), "text": self.text and self.text.model_dump()}


def read_manifest(directory: Path) -> Manifest:
    """The manifest of an exported system, after a check of what it says and of the sizes of its files."""
    path = directory / MANIFEST_FILE
    if not directory.is_dir():
        raise InputError(f"{directory}: no such directory; give one that fairseq-ext export made")
    content = read_json(path, REMEDY)
    if content.get("format") != FORMAT:
        raise InputError(
            f"{path}: of format {shown(content.get('format'))}, where this program reads {FORMAT}; {REMEDY}"
        )
    if content.pop("sha256", None) != digest(content):
        raise InputError(f"{path}: damaged or edited since it was exported; {REMEDY}")
    manifest = parse(content, path)
    for name, record in manifest.files.items():
        file = directory / name
        if not file.is_file():
            raise InputError(f"{file}: not found, though {MANIFEST_FILE} lists it; {REMEDY}")
        if file.stat().st_size != record.bytes:
            raise InputError(f"{file}: of {file.stat().st_size} bytes, not {record.bytes} as exported; {REMEDY}")
    return manifest


def verify(directory: Path) -> Manifest:
    """Read all files of an exported system again."""
    manifest = read_manifest(directory)
    for name, record in manifest.files.items():
        if hash_file(directory / name) != record.sha256:
            raise InputError(f"{directory / name}: damaged or edited since it was exported; {REMEDY}")
    return manifest


def parse(content: dict[str, Any], path: Path) -> Manifest:
    """A manifest of an object that JSON held."""
    manifest = read_strictly(Manifest, content, path)
    check_domain_names(manifest.domains, f"{path}: domains")
    for name in (DOMAINS_FILE, VOCABULARY_FILE, *(name for names in GRAPH_FILES.values() for name in names)):
        if name not in manifest.files:
            raise InputError(f"{path}: files: lacks {name}; {REMEDY}")
    return manifest


def digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of a manifest's content, however it is laid out."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
