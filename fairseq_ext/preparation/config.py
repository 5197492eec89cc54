"""The experiment file: one YAML from corpora to trained models.

Every key is checked here, once, before anything runs. The sections ``train`` and ``translate``
belong to the training commands and are handed on unread.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from fairseq_ext.domains.names import check_domain_names
from fairseq_ext.errors import InputError


@dataclass(frozen=True)
class Corpora:
    """Where the text comes from: a folder of ``DOMAIN.LANG`` files *or* gettext catalogues by domain.

    Each catalogue entry is a pinned package (``name==version``) or a path to a .po or .mo file, a
    directory, a wheel or another zip, or a tar archive.
    """

    folder: str | None = None
    catalogues: dict[str, list[str]] | None = None


@dataclass(frozen=True)
class Split:
    """Sizes of the held-out sets (pairs per domain) and the longest sentence kept (words)."""

    valid: int = 1000
    test: int = 1000
    max_words: int = 250


@dataclass(frozen=True)
class Subwords:
    """The joint SentencePiece model; ``vocab_size`` counts every symbol, domain tags included."""

    vocab_size: int = 32000
    character_coverage: float = 1.0


@dataclass(frozen=True)
class TfidfTeacher:
    """Options of the TF-IDF classifier; see :mod:`fairseq_ext.teacher.tfidf`."""

    backend: str = "tfidf"
    folds: int = 5
    word_ngrams: int = 2
    char_ngrams: int = 5
    min_count: int = 2
    inverse_regularisation: float = 10.0


@dataclass(frozen=True)
class TransformersTeacher:
    """Options of the fine-tuned classifier; see :mod:`fairseq_ext.teacher.transformers_classifier`."""

    model: str
    backend: str = "transformers"
    folds: int = 5
    epochs: float = 3.0
    batch_size: int = 32
    learning_rate: float = 2e-5
    max_length: int = 128
    device: str = "auto"


Teacher = TfidfTeacher | TransformersTeacher
_KIND_WORDS: dict[type, str] = {
    str: "text (in quotes)",
    int: "a whole number",
    float: "a number",
    Path: "a path",
}
_NOTHING: Mapping[str, Any] = types.MappingProxyType({})
_MINIMUM = {"folds": 2, "char_ngrams": 2}
_TEACHERS: dict[str, type] = {"tfidf": TfidfTeacher, "transformers": TransformersTeacher}


@dataclass(frozen=True)
class ExperimentConfig:
    """A whole experiment file; ``path`` is where it was read from."""

    path: Path = field(metadata={"in_file": False})
    work_dir: Path
    source_lang: str
    target_lang: str
    corpora: Corpora
    seed: int = 1
    split: Split = Split()
    subwords: Subwords = Subwords()
    teacher: Teacher = TfidfTeacher()
    train: dict[str, Any] = field(default_factory=dict)
    translate: dict[str, Any] = field(default_factory=dict)


def load_config(path: Path) -> ExperimentConfig:
    """Read and check an experiment file.

    Raises:
        InputError: naming the file and key, and what is allowed there.
    """
    raw = dict(_load_yaml(path))
    readers: dict[str, Callable[[Any, str], Any]] = {
        "corpora": lambda value, where: _section(Corpora, value, where),
        "split": lambda value, where: _section(Split, value, where),
        "subwords": lambda value, where: _section(Subwords, value, where),
        "teacher": _teacher,
        "train": _mapping,
        "translate": _mapping,
    }
    sections = {key: read(raw.pop(key), f"{path}: {key}") for key, read in readers.items() if key in raw}
    config = _section(ExperimentConfig, raw, str(path), given={**sections, "path": path})
    _check(config)
    return config


def named_entries(section: Mapping[str, Any], key: str, where: str, others: Sequence[str] = ()) -> dict[str, dict]:
    """The entries under ``key`` of a section, each on top of the options under ``common``.

    Args:
        section: ``train`` or ``translate``.
        key: where its named entries are.
        where: the file and section, for messages.
        others: keys that are allowed besides and left alone.

    Raises:
        InputError: naming a key that is not allowed, or a value that is no mapping.
    """
    allowed = sorted({"common", key, *others})
    for name in section:
        if name not in allowed:
            raise InputError(f"{where}: unknown key {name!r}; allowed are {', '.join(allowed)}")
    common = _mapping(section.get("common") or {}, f"{where}: common")
    entries = _mapping(section.get(key) or {}, f"{where}: {key}")
    return {name: {**common, **_mapping(entry or {}, f"{where}: {key}: {name}")} for name, entry in entries.items()}


def _check(config: ExperimentConfig) -> None:
    """Check what types alone cannot say."""
    where = str(config.path)
    corpora = config.corpora
    if (corpora.folder is None) == (corpora.catalogues is None):
        raise InputError(f"{where}: corpora: give either folder or catalogues")
    if corpora.catalogues is not None:
        check_domain_names(sorted(corpora.catalogues), f"{where}: corpora: catalogues")
    if config.source_lang == config.target_lang:
        raise InputError(f"{where}: target_lang: {config.target_lang!r} is also the source_lang; change one")
    for name in ("split", "subwords", "teacher"):
        _check_numbers(dataclasses.asdict(getattr(config, name)), f"{where}: {name}")
    if config.subwords.character_coverage > 1:
        raise InputError(f"{where}: subwords: character_coverage: is a share; give at most 1")


def _check_numbers(values: Mapping[str, Any], where: str) -> None:
    """All numbers are counts, sizes or rates, so none makes sense at zero; two have a higher minimum."""
    for key, value in values.items():
        if isinstance(value, int | float) and (value <= 0 or value < _MINIMUM.get(key, 0)):
            raise InputError(f"{where}: {key}: {value} is too small; give {_MINIMUM.get(key, 'more than 0')}")


def _teacher(value: Any, where: str) -> Teacher:
    backend = _mapping(value, where).get("backend", "tfidf")
    if backend not in _TEACHERS:
        raise InputError(f"{where}: backend: {backend!r} is unknown; choose one of {', '.join(_TEACHERS)}")
    return _section(_TEACHERS[backend], value, where)


def _section(kind: type, value: Any, where: str, given: Mapping[str, Any] = _NOTHING) -> Any:
    """Make a dataclass from a mapping and from values ``given`` in their final types."""
    fields = [item for item in dataclasses.fields(kind) if item.metadata.get("in_file", True)]
    allowed = sorted(item.name for item in fields)
    entries = _mapping(value, where)
    for key in entries:
        if key not in allowed:
            raise InputError(f"{where}: unknown key {key!r}; allowed are {', '.join(allowed)}")
    for item in fields:
        required = item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
        if required and item.name not in entries.keys() | given.keys():
            raise InputError(f"{where}: the key {item.name!r} is missing")
    hints = typing.get_type_hints(kind)
    converted = {key: _convert(entry, hints[key], f"{where}: {key}") for key, entry in entries.items()}
    return kind(**converted, **given)


def _convert(value: Any, hint: Any, where: str) -> Any:
    """Check a scalar, list or mapping against a type hint; whole numbers and ``1e-5`` pass as floats."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        return None if value is None else _convert(value, arguments[0], where)
    if origin is list:
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not items:
            raise InputError(f"{where}: expected a list, got {value!r}")
        return [_convert(item, arguments[0], where) for item in items]
    if origin is dict:
        return {
            _convert(key, arguments[0], where): _convert(item, arguments[1], f"{where}: {key}")
            for key, item in _mapping(value, where).items()
        }
    return _convert_scalar(value, hint, where)


def _convert_scalar(value: Any, hint: type, where: str) -> Any:
    if hint is Path and isinstance(value, str):
        return Path(value)
    # YAML 1.1 reads 1e-5, which has no dot, as text.
    if hint is float and isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            return float(value)
        except ValueError:
            pass
    # isinstance(True, int) holds, and YAML reads the language code ``no`` as False.
    elif isinstance(value, hint) and not isinstance(value, bool):
        return value
    raise InputError(f"{where}: expected {_KIND_WORDS[hint]}, got {value!r}")


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{where}: expected keys and values, got {value!r}")
    return value


class _UniqueKeyLoader(yaml.SafeLoader):
    """PyYAML keeps the last of two equal keys without a word; a repeated key is a mistake."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]  # type: ignore[no-untyped-call]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"repeated key {key!r}", node.start_mark)
        return super().construct_mapping(node, deep)


def _load_yaml(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        return _mapping(yaml.load(text, Loader=_UniqueKeyLoader), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    except yaml.YAMLError as error:
        raise InputError(f"{path}: is not valid YAML: {' '.join(str(error).split())}") from None
