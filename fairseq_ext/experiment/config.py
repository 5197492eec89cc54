"""The experiment file: one YAML from corpora to trained models.

Every key is checked here, once, before anything runs. The sections ``train`` and ``translate`` hold options
of fairseq and are handed on unread; :mod:`fairseq_ext.experiment.runs` reads them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq_ext.corpora.raw_text import ON_BAD_UTF8
from fairseq_ext.domains.names import check_domain_names
from fairseq_ext.errors import InputError
from fairseq_ext.experiment.yaml_sections import (
    as_mapping,
    check_choice,
    check_numbers,
    check_seed,
    load_yaml,
    read_section,
)
from fairseq_ext.filtering.cascade import FILTERS
from fairseq_ext.filtering.clean import Cleaning
from fairseq_ext.filtering.deduplicate import DEDUPLICATE
from fairseq_ext.filtering.filters import Empty
from fairseq_ext.filtering.normalise import Normalise


@dataclass(frozen=True)
class Corpora:
    """Where the text comes from: a folder of ``DOMAIN.LANG`` files *or* sources by domain.

    See :mod:`fairseq_ext.corpora.import_corpora` for the forms of a source. ``on_bad_utf8`` says what becomes of
    a pair with bytes that are no UTF-8: ``fail``, ``drop`` (the pair) or ``replace`` (by U+FFFD).
    """

    folder: str | None = None
    domains: dict[str, list[str]] | None = None
    on_bad_utf8: str = "fail"


@dataclass(frozen=True)
class Split:
    """Sizes of the held-out sets (pairs per domain) and the longest sentence kept (words)."""

    valid: int = 1000
    test: int = 1000
    max_words: int = 250


@dataclass(frozen=True)
class SentencePiece:
    """How a SentencePiece model is trained; ``vocab_size`` counts every symbol, domain tags included.

    Of more than ``max_sentences`` lines, all languages together, a sample is trained on, since SentencePiece keeps
    all lines: 200,000 lines of 68 bytes took 0.34 GB, so two million should take some 3.5 GB.
    """

    vocab_size: int = 32000
    character_coverage: float = 1.0
    max_sentences: int = 2_000_000


@dataclass(frozen=True)
class Subwords(SentencePiece):
    """The joint SentencePiece model of both languages.

    ``reuse`` names the folder of another experiment's subwords, which are taken as they are: then its models
    understand this experiment's data, and the other way round.
    """

    reuse: str | None = None


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


@dataclass(frozen=True)
class HoulsbyTeacher:
    """Options of adapters on a frozen encoder; see :mod:`fairseq_ext.teacher.houlsby_classifier`."""

    model: str
    subwords: str | None = None
    backend: str = "houlsby"
    folds: int = 5
    epochs: int = 3
    batch_size: int = 32
    learning_rate: float = 1e-3
    bottleneck_dim: int = 64
    device: str = "auto"

    @property
    def subwords_folder(self) -> Path:
        """Where the subwords of the model are: beside it, if not elsewhere."""
        return Path(self.subwords) if self.subwords else Path(self.model).parent


Teacher = TfidfTeacher | TransformersTeacher | HoulsbyTeacher
_MINIMUM = {"folds": 2, "char_ngrams": 2}
_TEACHERS: dict[str, type] = {
    "tfidf": TfidfTeacher,
    "transformers": TransformersTeacher,
    "houlsby": HoulsbyTeacher,
}


@dataclass(frozen=True)
class Report:
    """What the report shows; outputs are names, or patterns such as ``gad-*``.

    Attributes:
        main: outputs of the main tables; by default all but the variants under ``ablation``.
        ablation: outputs of the table of the ablation. The first is the whole system and stays in the main tables, the
            others are its variants.
        examples: sentences shown on which gates and classifier disagree.
        reading: Markdown file beside the experiment file, with words on the results.
    """

    main: list[str] = field(default_factory=list)
    ablation: list[str] = field(default_factory=list)
    examples: int = 3
    reading: str | None = None


@dataclass(frozen=True)
class Evaluate:
    """What is measured beyond the test sets, and how.

    Attributes:
        baseline: output that the others are compared with; None is the first (see
            :func:`fairseq_ext.experiment.runs.baseline_of`).
        resamples: of the paired bootstrap.
        comet: local checkpoint of a COMET model; None for no COMET.
        ood: out-of-domain test sets by name, each a corpus in one of the forms of
            :data:`fairseq_ext.corpora.entries.FORMS`.
        speed: outputs to time.
        distance_model: folder of a Hugging Face encoder for the distances between domains; None for TF-IDF.
        distance_sentences: most sentences a domain for these distances.
        report: see :class:`Report`.
    """

    baseline: str | None = None
    resamples: int = 1000
    comet: str | None = None
    ood: dict[str, str] = field(default_factory=dict)
    speed: list[str] = field(default_factory=list)
    distance_model: str | None = None
    distance_sentences: int = 2000
    report: Report = Report()


@dataclass(frozen=True)
class ExperimentConfig:
    """A whole experiment file; ``path`` is where it was read from."""

    path: Path = field(metadata={"in_file": False})
    work_dir: Path
    source_lang: str
    target_lang: str
    corpora: Corpora
    seed: int = 1
    clean: Cleaning = Cleaning({"empty": Empty()})
    split: Split = Split()
    subwords: Subwords = Subwords()
    teacher: Teacher = TfidfTeacher()
    train: dict[str, Any] = field(default_factory=dict)
    translate: dict[str, Any] = field(default_factory=dict)
    evaluate: Evaluate = field(default_factory=Evaluate)


def load_config(path: Path) -> ExperimentConfig:
    """Read and check an experiment file.

    Raises:
        InputError: naming the file and key, and what is allowed there.
    """
    raw = dict(load_yaml(path))
    readers: dict[str, Callable[[Any, str], Any]] = {
        "corpora": lambda value, where: read_section(Corpora, value, where),
        "clean": _clean,
        "split": lambda value, where: read_section(Split, value, where),
        "subwords": lambda value, where: read_section(Subwords, value, where),
        "teacher": _teacher,
        "train": as_mapping,
        "translate": as_mapping,
        "evaluate": _evaluate,
    }
    sections = {key: read(raw.pop(key), f"{path}: {key}") for key, read in readers.items() if key in raw}
    config = read_section(ExperimentConfig, raw, str(path), given={**sections, "path": path})
    _check(config)
    return config


def _check(config: ExperimentConfig) -> None:
    """Check what types alone cannot say."""
    where = str(config.path)
    corpora = config.corpora
    if (corpora.folder is None) == (corpora.domains is None):
        raise InputError(f"{where}: corpora: give either folder or domains")
    if corpora.domains is not None:
        check_domain_names(sorted(corpora.domains), f"{where}: corpora: domains")
    check_choice(corpora.on_bad_utf8, ON_BAD_UTF8, f"{where}: corpora: on_bad_utf8")
    if config.source_lang == config.target_lang:
        raise InputError(f"{where}: target_lang: {config.target_lang!r} is also the source_lang; change one")
    for name in ("split", "subwords", "teacher", "evaluate"):
        # All are counts, sizes or rates, so none makes sense at zero; two have a higher minimum.
        check_numbers(dataclasses.asdict(getattr(config, name)), f"{where}: {name}", _MINIMUM)
    if config.evaluate.ood:
        check_domain_names(sorted(config.evaluate.ood), f"{where}: evaluate: ood")
    check_seed(config.seed, where)
    check_sentencepiece(config.subwords, f"{where}: subwords")


def check_sentencepiece(options: SentencePiece, where: str) -> None:
    """Check what SentencePiece itself would refuse without a clear word.

    Raises:
        InputError: naming ``where``, the key and its range.
    """
    if not 0.98 <= options.character_coverage <= 1:
        raise InputError(f"{where}: character_coverage: SentencePiece takes 0.98 to 1.0")
    if options.vocab_size >= 1 << 31:
        raise InputError(f"{where}: vocab_size: {options.vocab_size} is too large")


def _clean(value: Any, where: str) -> Cleaning:
    entries = dict(as_mapping(value, where))
    given = as_mapping(entries.pop("filters", None) or {}, f"{where}: filters")
    for name in given:
        check_choice(name, tuple(FILTERS), f"{where}: filters")
    # Pairs without text on a side are no pairs, whatever else is kept.
    chosen = {"empty": None, **given}
    filters = {
        name: _options(kind, chosen[name], f"{where}: filters: {name}")
        for name, kind in FILTERS.items()
        if name in chosen
    }
    normalise = None
    if "normalise" in entries:
        normalise = _options(Normalise, entries.pop("normalise"), f"{where}: normalise")
    clean: Cleaning = read_section(Cleaning, entries, where, given={"filters": filters, "normalise": normalise})
    if clean.deduplicate is not None:
        check_choice(clean.deduplicate, DEDUPLICATE, f"{where}: deduplicate")
    return clean


def _options(kind: type, value: Any, where: str) -> Any:
    """Read a section whose class checks its own values; an empty one means its defaults."""
    try:
        return read_section(kind, {} if value is None else value, where)
    except InputError as error:
        raise error if str(error).startswith(where) else InputError(f"{where}: {error}") from None


def _evaluate(value: Any, where: str) -> Evaluate:
    # No sets, no outputs to time: an empty entry says the same as none.
    entries = {key: entry for key, entry in as_mapping(value, where).items() if entry not in (None, [], {})}
    report = read_section(Report, entries.pop("report", {}), f"{where}: report")
    if report.examples < 0:
        raise InputError(f"{where}: report: examples: {report.examples} is too small; give 0 for none")
    evaluate: Evaluate = read_section(Evaluate, entries, where, given={"report": report})
    return evaluate


def _teacher(value: Any, where: str) -> Teacher:
    backend = as_mapping(value, where).get("backend", "tfidf")
    if backend not in _TEACHERS:
        raise InputError(f"{where}: backend: {backend!r} is unknown; choose one of {', '.join(_TEACHERS)}")
    return read_section(_TEACHERS[backend], value, where)
