"""An exported system: a directory with all that translating needs, on a machine without the training data.

::

    gad/system.json                   the manifest
    gad/model.pt                      weights and options, as fairseq reads them
    gad/dict.SRC.txt, dict.TGT.txt, domains.txt, sentencepiece.model
    gad/sentencepiece.TGT.model, language-tokens.txt
                                      of bases that have them
    gad/classifier/                   the teacher's classifier, where there is one

It is built under another name and renamed, so that what is there is complete. The manifest holds size and SHA-256 of
every file, and its own.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from fairseq_ext.cleaning.normalise import Normalise
from fairseq_ext.domains.names import DOMAINS_FILE, RESERVED_NAMES, check_domain_names, read_domain_names
from fairseq_ext.engine.hashing import hash_file, relative_files
from fairseq_ext.engine.staging import Staging, locked
from fairseq_ext.inputs.errors import InputError, shown
from fairseq_ext.inputs.json_file import is_texts, read_json
from fairseq_ext.inputs.models import read_model
from fairseq_ext.text.subwords import copy_subwords

FORMAT = 1
MANIFEST_FILE = "system.json"
CHECKPOINT_FILE = "model.pt"
CLASSIFIER_FOLDER = "classifier"
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
_REMEDY = "export the system again with fairseq-ext export"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_FILE_NAME = re.compile(rf"({CLASSIFIER_FOLDER}/)?[A-Za-z0-9][A-Za-z0-9._-]*")
_CLASSIFIERS = ("tfidf", "transformers", "houlsby")
_PACKAGES = ("fairseq-fixed", "torch", "sentencepiece", "sacremoses", "scikit-learn")


@dataclass(frozen=True)
class FileRecord:
    """A file's size in bytes and its SHA-256."""

    bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> FileRecord:
        return cls(path.stat().st_size, hash_file(path))


@dataclass(frozen=True)
class Manifest:
    """What an exported system is.

    Attributes:
        name: of the system, or of a run of it.
        languages: source and target.
        domains: their names, in the order of rows.
        architecture: fairseq's ``--arch``.
        text: how text is normalised before it is cut into pieces; None for not at all.
        generation: options of the search, of :data:`SEARCH_OPTIONS`.
        classifier: kind of the classifier in ``classifier/``; None for none.
        data_fingerprint: of the training data, where it is known.
        scores: of the test sets by output, metric and column, where they are known.
        versions: of the libraries that it was exported with.
        files: all others of the directory, by relative name.
    """

    name: str
    languages: tuple[str, str]
    domains: tuple[str, ...]
    architecture: str
    text: Normalise | None = None
    generation: Mapping[str, Any] = field(default_factory=dict)
    classifier: str | None = None
    data_fingerprint: str | None = None
    scores: Mapping[str, Any] | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, FileRecord] = field(default_factory=dict)

    @property
    def content(self) -> dict[str, Any]:
        """As plain data."""
        return {**dataclasses.asdict(self), "text": self.text and self.text.model_dump()}


def read_manifest(directory: Path) -> Manifest:
    """The manifest of an exported system, after a check of what it says and of the sizes of its files.

    Raises:
        InputError: naming the file that is missing, damaged or of another format.
    """
    path = directory / MANIFEST_FILE
    if not directory.is_dir():
        raise InputError(f"{directory}: no such directory; give one that fairseq-ext export made")
    content = read_json(path, _REMEDY)
    if content.get("format") != FORMAT:
        raise InputError(
            f"{path}: of format {shown(content.get('format'))}, where this program reads {FORMAT}; {_REMEDY}"
        )
    if content.pop("sha256", None) != _digest(content):
        raise InputError(f"{path}: damaged or edited since it was exported; {_REMEDY}")
    manifest = _parse(content, path)
    for name, record in manifest.files.items():
        file = directory / name
        if not file.is_file():
            raise InputError(f"{file}: not found, though {MANIFEST_FILE} lists it; {_REMEDY}")
        if file.stat().st_size != record.bytes:
            raise InputError(f"{file}: of {file.stat().st_size} bytes, not {record.bytes} as exported; {_REMEDY}")
    if read_domain_names(directory / DOMAINS_FILE) != list(manifest.domains):
        raise InputError(f"{path}: its domains are not those of {DOMAINS_FILE}; {_REMEDY}")
    return manifest


def verify(directory: Path) -> Manifest:
    """Read all files of an exported system again.

    Raises:
        InputError: naming the first that is not as it was exported, or that nobody exported.
    """
    manifest = read_manifest(directory)
    for name, record in manifest.files.items():
        if hash_file(directory / name) != record.sha256:
            raise InputError(f"{directory / name}: damaged or edited since it was exported; {_REMEDY}")
    return manifest


@contextmanager
def writing(directory: Path) -> Iterator[Path]:
    """A folder to build an exported system in, which becomes ``directory`` if the block ends without an error.

    Raises:
        InputError: if there is something else under that name, or another process builds it.
    """
    directory = directory.absolute()
    _refuse_others(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with locked(directory):
        staging = Staging(directory)
        staging.restore()
        folder = staging.start("export")
        try:
            yield folder
            read_manifest(folder)
        except BaseException:
            staging.clear()
            raise
        staging.finish()


def complete(folder: Path, manifest: Manifest) -> None:
    """Write the manifest over all files that a folder holds by now.

    Raises:
        InputError: if it cannot be that of a system.
    """
    files = {name: FileRecord.of(folder / name) for name in relative_files(folder) if name != MANIFEST_FILE}
    versions = {"python": platform.python_version(), **_versions()}
    content = dataclasses.replace(manifest, files=files, versions=versions).content
    content = json.loads(json.dumps({"format": FORMAT, **content}))
    _parse(content, folder / MANIFEST_FILE)
    text = json.dumps({**content, "sha256": _digest(content)}, indent=1, ensure_ascii=False)
    (folder / MANIFEST_FILE).write_text(text + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Parts:
    """What a system is exported from.

    Attributes:
        checkpoint: fairseq's, of which the weights and options are kept.
        data: directory of the dictionaries, ``domains.txt`` and ``sentencepiece.model``, and what bases have besides.
        classifier: folder that the classifier was saved to, if there is one.
    """

    checkpoint: Path
    data: Path
    classifier: Path | None = None

    def write(self, folder: Path, manifest: Manifest) -> None:
        """Fill a folder.

        Args:
            folder: empty.
            manifest: what the system is; files and versions are found here.

        Raises:
            InputError: if a file is missing or unfit.
        """
        for name in (*(f"dict.{lang}.txt" for lang in manifest.languages), DOMAINS_FILE):
            _copy(self.data / name, folder / name)
        copy_subwords(self.data, folder, manifest.languages)
        if self.classifier is not None:
            for name in relative_files(self.classifier):
                _copy(self.classifier / name, folder / CLASSIFIER_FOLDER / name)
        write_weights(folder / CHECKPOINT_FILE, self.checkpoint)
        complete(folder, manifest)


def write_weights(path: Path, checkpoint: Path) -> None:
    """Write a checkpoint of the weights and options of another, without the state of its training.

    Raises:
        InputError: if it cannot be read.
    """
    import fairseq_ext.registration  # noqa: F401, I001  what checkpoints name
    import torch

    from fairseq_ext.patches.checkpoints import check_checkpoint, save_checkpoint

    check_checkpoint(checkpoint)
    state = torch.load(checkpoint, map_location="cpu", weights_only=True)
    history = {key: value for key, value in state["optimizer_history"][-1].items() if key != "optimizer"}
    kept = {key: state[key] for key in ("model", "task_state") if key in state}
    options = {key: _without_paths(state.get(key)) for key in ("args", "cfg")}
    save_checkpoint({**options, **kept, "optimizer_history": [history], "extra_state": {}}, path)


def _without_paths(options: Any) -> Any:
    """A checkpoint's options without the files and addresses of the machine that trained it."""
    if isinstance(options, dict):
        return {key: _without_paths(value) for key, value in options.items()}
    if isinstance(options, list | tuple):
        return type(options)(_without_paths(value) for value in options)
    if hasattr(options, "__dict__"):
        return type(options)(**{key: _without_paths(value) for key, value in vars(options).items()})
    return "" if isinstance(options, str) and "/" in options else options


def _copy(source: Path, target: Path) -> None:
    if not source.is_file():
        raise InputError(f"{source}: not found, and an export needs it")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _refuse_others(directory: Path) -> None:
    """Refuse to replace what is no exported system, is damaged, or holds more than one."""
    if not directory.exists() or (directory.is_dir() and not any(directory.iterdir())):
        return
    others: list[str] = ["it"]
    if (directory / MANIFEST_FILE).is_file():
        try:
            manifest = read_manifest(directory)
        except InputError:
            raise InputError(
                f"{directory}: is not as it was exported; move it away or choose another directory"
            ) from None
        others = [name for name in relative_files(directory) if name not in {*manifest.files, MANIFEST_FILE}]
    if others:
        raise InputError(f"{directory}: {others[0]} is of no exported system; move it away or choose another directory")


def _parse(content: Any, path: Path) -> Manifest:
    """A manifest of an object that JSON held.

    Raises:
        InputError: naming the file and the key that is missing or not as it should be.
    """
    files = content.get("files")
    languages, domains, text = content.get("languages"), content.get("domains"), content.get("text")
    generation, classifier = content.get("generation"), content.get("classifier")
    claims = {
        "name": isinstance(content.get("name"), str),
        "architecture": isinstance(content.get("architecture"), str),
        "languages": is_texts(languages) and len(languages) == 2,
        "domains": is_texts(domains),
        "generation": isinstance(generation, dict) and all(map(_is_search_option, generation.items())),
        "classifier": classifier in (None, *_CLASSIFIERS),
        "files": isinstance(files, dict) and all(map(_is_file_record, files.items())),
    }
    for key, holds in claims.items():
        if not holds:
            raise InputError(f"{path}: {key}: {shown(content.get(key))} is none of an exported system's; {_REMEDY}")
    check_domain_names(domains, f"{path}: domains")
    expected = [*(f"dict.{lang}.txt" for lang in languages), DOMAINS_FILE, CHECKPOINT_FILE]
    for name in expected:
        if name not in files:
            raise InputError(f"{path}: files: lacks {name}; {_REMEDY}")
    return Manifest(
        name=content["name"],
        languages=(languages[0], languages[1]),
        domains=tuple(domains),
        architecture=content["architecture"],
        text=None if text is None else read_model(Normalise, text, f"{path}: text", {}),
        generation=generation,
        classifier=classifier,
        data_fingerprint=content.get("data_fingerprint"),
        scores=content.get("scores"),
        versions=content.get("versions") or {},
        files={name: FileRecord(**record) for name, record in files.items()},
    )


def _is_search_option(option: tuple[str, Any]) -> bool:
    name, value = option
    if name not in SEARCH_OPTIONS:
        return False
    kind, low, high = SEARCH_OPTIONS[name]
    kinds = (int, float) if kind is float else (kind,)
    return type(value) in kinds and low <= value <= high


def _is_file_record(entry: tuple[str, Any]) -> bool:
    name, record = entry
    return (
        _FILE_NAME.fullmatch(name) is not None
        and isinstance(record, dict)
        and record.keys() == {"bytes", "sha256"}
        and type(record["bytes"]) is int
        and isinstance(record["sha256"], str)
        and _SHA256.fullmatch(record["sha256"]) is not None
    )


def _digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of a manifest's content, however it is laid out."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
