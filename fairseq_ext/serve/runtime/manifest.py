"""The manifest ``system.json`` of an exported system.

It lists the size and SHA-256 of every file, and the SHA-256 of its own content. docs/using.md describes the files.
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

from fairseq_ext.base.domain_names import DOMAINS_FILE, RESERVED_NAMES, check_domain_names
from fairseq_ext.base.errors import InputError, shown
from fairseq_ext.base.hashing import hash_file
from fairseq_ext.base.json_file import as_typed, read_json
from fairseq_ext.base.origin import Origin
from fairseq_ext.serve.runtime.vocabulary import REMEDY, VOCABULARY_FILE
from fairseq_ext.text.languages import check_language
from fairseq_ext.text.normalise import Normalise

FORMAT = 4
MANIFEST_FILE = "system.json"
CHECKPOINT_FILE = "model.pt"
CLASSIFIER_FOLDER = "classifier"
FLOAT32, INT8 = "float32", "int8"
PRECISIONS = (FLOAT32, INT8)
# Graphs of the encoder, of a decoder step, of the output layer and of the choice of the best tokens; tables.
_GRAPH_FILES = ("encoder.onnx", "decoder.onnx", "output.onnx", "best.onnx", "tables.npz")
_LONGEST_NAME = 2000  # characters
# Routes other than domains.
GATES, CLASSIFIER, BASE, ORACLE = RESERVED_NAMES
# Search options stored in an export: type, minimum and maximum.
SEARCH_OPTIONS: dict[str, tuple[type, float, float]] = {
    "beam": (int, 1, 1000),
    "lenpen": (float, -100, 100),
    "unkpen": (float, -10_000, 10_000),
    "max_len_a": (float, 0, 100),
    "max_len_b": (int, 0, 10_000),
    "min_len": (int, 0, 10_000),
    "no_repeat_ngram_size": (int, 0, 10_000),
}


def graph_files(precision: str) -> list[str]:
    """Return the names of the files that have the model in this precision."""
    return [name if precision == FLOAT32 else name.replace(".", f".{precision}.") for name in _GRAPH_FILES]


def constants_file(graph: str) -> str:
    """Return the name of the file that has the large constants of a graph."""
    return f"{graph.removesuffix('.onnx')}.data"


def _check_generation(options: dict[str, Any]) -> dict[str, Any]:
    for name, value in options.items():
        if name not in SEARCH_OPTIONS:
            raise ValueError(f"unknown search option {name}")
        kind, low, high = SEARCH_OPTIONS[name]
        if type(value) not in {kind, int} or not low <= value <= high:
            raise ValueError(f"{name} is {shown(value)}, expected a number from {low} to {high}")
    return options


_FileName = Annotated[str, Field(pattern=rf"^({CLASSIFIER_FOLDER}/)?[A-Za-z0-9][A-Za-z0-9._-]*$")]


@dataclass(frozen=True)
class FileRecord:
    """A file's size in bytes and its SHA-256."""

    bytes: int
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


@dataclass(frozen=True)
class Manifest:
    """Description of an exported system.

    Attributes:
        name: name of the system, or of one of its runs.
        languages: source and target language.
        domains: domain names, in the order of the adapters.
        architecture: fairseq architecture of the model.
        text: normalisation of text before subword segmentation; None for no normalisation.
        generation: search options, see :data:`SEARCH_OPTIONS`.
        classifier: kind of the classifier in ``classifier/``; None without a classifier.
        data_fingerprint: fingerprint of the training data.
        base: origin and licence of a pretrained base; None for a base that was trained from nothing.
        scores: scores on the test sets, by output, metric and column.
        versions: versions of the libraries used for the export.
        files: all other files of the directory, by relative path.
    """

    name: str
    languages: tuple[str, str]
    domains: tuple[str, ...]
    architecture: str
    text: Normalise | None = None
    generation: Annotated[dict[str, Any], AfterValidator(_check_generation)] = field(default_factory=dict)
    classifier: Annotated[str, Field(pattern="^(tfidf|transformers)$")] | None = None
    data_fingerprint: str | None = None
    base: Origin | None = None
    scores: dict[str, Any] | None = None
    versions: dict[str, str] = field(default_factory=dict)
    files: dict[_FileName, FileRecord] = field(default_factory=dict)

    @property
    def content(self) -> dict[str, Any]:
        """The manifest as a dictionary for JSON."""
        return {**dataclasses.asdict(self), "text": self.text and self.text.model_dump()}


def read_manifest(directory: Path) -> Manifest:
    """Read the manifest of an exported system, and check its content and the sizes of the files it lists."""
    path = directory / MANIFEST_FILE
    if not directory.is_dir():
        raise InputError(f"{directory}: not found; give a directory created by fairseq-ext export")
    content = read_json(path, REMEDY)
    if content.get("format") != FORMAT:
        raise InputError(
            f"{path}: has format {shown(content.get('format'))}, but this program reads {FORMAT}; {REMEDY}"
        )
    if content.pop("sha256", None) != digest(content):
        raise InputError(f"{path}: was damaged or edited after export; {REMEDY}")
    manifest = parse(content, path)
    for name, record in manifest.files.items():
        file = directory / name
        if not file.is_file():
            raise InputError(f"{file}: not found, though {MANIFEST_FILE} lists it; {REMEDY}")
        if file.stat().st_size != record.bytes:
            raise InputError(f"{file}: has {file.stat().st_size} bytes instead of {record.bytes}; {REMEDY}")
    return manifest


def verify(directory: Path, precision: str | None = None) -> Manifest:
    """Read the manifest of an exported system, and verify the checksums of its files.

    Args:
        precision: verify only the files with which the runtime translates in this precision.
    """
    manifest = read_manifest(directory)
    unused: set[str] = set()
    if precision is not None:
        others = [name for each in PRECISIONS if each != precision for name in graph_files(each)]
        unused = {CHECKPOINT_FILE, *others, *map(constants_file, others)}
    for name, record in manifest.files.items():
        if name not in unused and hash_file(directory / name) != record.sha256:
            raise InputError(f"{directory / name}: was damaged or edited after export; {REMEDY}")
    return manifest


def parse(content: dict[str, Any], path: Path) -> Manifest:
    """Return the manifest that a parsed JSON object describes."""
    manifest = as_typed(content, Manifest, path, REMEDY)
    for code in manifest.languages:
        check_language(code, f"{path}: languages")
    # These are printed, and written into documents.
    for text in (manifest.name, manifest.base.text if manifest.base else " "):
        if not 0 < len(text) <= _LONGEST_NAME or not text.isprintable():
            raise InputError(f"{path}: {shown(text)} is not a name on one line; {REMEDY}")
    check_domain_names(manifest.domains, f"{path}: domains")
    for name in (DOMAINS_FILE, VOCABULARY_FILE, *(name for each in PRECISIONS for name in graph_files(each))):
        if name not in manifest.files:
            raise InputError(f"{path}: files: {name} is missing; {REMEDY}")
    return manifest


def digest(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a manifest's content, independent of the JSON layout."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
