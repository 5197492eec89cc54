"""The experiment file of word language models: text and word vectors to perplexities, with an n-gram baseline.

``corpora``, ``word_vectors``, ``kneser_ney`` and ``evaluate`` are checked here, once, before anything runs. ``train``
is that of :mod:`fairseq_ext.experiment.runs`; its systems are options of fairseq-train for a model ``dagru_lm``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq_ext.errors import InputError
from fairseq_ext.experiment.runs import Run, System, expand, option_of, systems_of
from fairseq_ext.experiment.yaml_sections import as_mapping, check_choice, check_seed, load_yaml, read_section
from fairseq_ext.ngrams.kneser_ney import ORDERS

ARCHITECTURE = "dagru_lm"
NO_VECTORS = "none"  # the combination without any
MISSING_CHOICES = ("zero", "mean")
DISCOUNTS = ("held-out", "leave-one-out")


@dataclass(frozen=True)
class WordCorpora:
    """Texts of words separated by blanks, one sentence a line."""

    train: Path
    valid: Path
    test: Path


@dataclass(frozen=True)
class GeneralVectors:
    """General-domain word vectors.

    Attributes:
        file: GloVe text, or word2vec text or binary.
        missing: what a word takes that is not in the file: ``zero``, or the ``mean`` of those found.
    """

    file: Path
    missing: str = "zero"


@dataclass(frozen=True)
class KneserNeyBaseline:
    """The n-gram model.

    Attributes:
        order: n.
        discounts: fitted to the validation set (``held-out``), or found on the training text (``leave-one-out``).
    """

    order: int = 5
    discounts: str = "held-out"


@dataclass(frozen=True)
class WordEvaluation:
    """How it is measured.

    Attributes:
        cpu: whether to leave a GPU alone.
        reading: file with words on the results, for the report.
    """

    cpu: bool = False
    reading: str | None = None


@dataclass(frozen=True)
class WordLmExperiment:
    """A whole experiment file; ``path`` is where it was read from."""

    path: Path = field(metadata={"in_file": False})
    work_dir: Path
    corpora: WordCorpora
    seed: int = 1
    word_vectors: GeneralVectors | None = None
    kneser_ney: KneserNeyBaseline | None = None
    train: dict[str, Any] = field(default_factory=dict)
    evaluate: WordEvaluation = WordEvaluation()


def load_word_lm_config(path: Path) -> WordLmExperiment:
    """Read and check an experiment file of word language models.

    Raises:
        InputError: naming the file and key, and what is allowed there.
    """
    raw = dict(load_yaml(path))
    readers: dict[str, Callable[[Any, str], Any]] = {
        "corpora": lambda value, where: read_section(WordCorpora, value, where),
        "word_vectors": lambda value, where: read_section(GeneralVectors, value, where),
        "kneser_ney": lambda value, where: read_section(KneserNeyBaseline, value or {}, where),
        "train": as_mapping,
        "evaluate": lambda value, where: read_section(WordEvaluation, value or {}, where),
    }
    sections = {key: read(raw.pop(key), f"{path}: {key}") for key, read in readers.items() if key in raw}
    config: WordLmExperiment = read_section(WordLmExperiment, raw, str(path), given={**sections, "path": path})
    _check(config)
    return config


def word_runs_of(config: WordLmExperiment) -> list[Run]:
    """The runs of all systems, in order; models that read word vectors are told where these are.

    Raises:
        InputError: naming a key or value that cannot be used.
    """
    runs = []
    for name, system in systems_of(config).items():
        where = f"{config.path}: train: systems: {name}"
        runs += expand(_with_vectors(config, _checked(system, where), where), config.seed, ())
    return runs


def combination_of(system: System) -> str:
    """How a system combines the word vectors of two domains."""
    return str(option_of(system.options, "combination") or "dagru")


def vector_files_of(config: WordLmExperiment) -> list[tuple[Path, str]]:
    """The files of word vectors that systems read, each with what missing words take."""
    found = {}
    for run in word_runs_of(config):
        if file := option_of(run.system.options, "word-vectors"):
            found[Path(file), str(option_of(run.system.options, "missing-vectors") or MISSING_CHOICES[0])] = True
    return list(found)


def _checked(system: System, where: str) -> System:
    # torch comes with it.
    from fairseq_ext.modules.domain_adapted_gru import COMBINATIONS

    check_choice(combination_of(system), list(COMBINATIONS), f"{where}: combination")
    if not str(option_of(system.options, "arch")).startswith(ARCHITECTURE):
        raise InputError(f"{where}: arch: give one of {ARCHITECTURE}*, which carries its state over")
    for key, is_given in (
        ("from", system.start),
        ("uses_teacher", system.uses_teacher),
        ("per_domain", system.per_domain),
        ("data", system.data),
    ):
        if is_given:
            raise InputError(f"{where}: {key}: is not for word language models; take it out")
    return system


def _with_vectors(config: WordLmExperiment, system: System, where: str) -> System:
    """The system with the file's word vectors, unless it has its own or reads none."""
    if combination_of(system) == NO_VECTORS or option_of(system.options, "word-vectors"):
        return system
    if config.word_vectors is None:
        raise InputError(f"{where}: combination: {combination_of(system)} needs word_vectors; give their file")
    vectors = {"word-vectors": str(config.word_vectors.file), "missing-vectors": config.word_vectors.missing}
    return System(system.name, seeds=system.seeds, options={**vectors, **system.options})


def _check(config: WordLmExperiment) -> None:
    """Check what types alone cannot say."""
    where = str(config.path)
    check_seed(config.seed, where)
    if config.word_vectors is not None:
        check_choice(config.word_vectors.missing, MISSING_CHOICES, f"{where}: word_vectors: missing")
    if config.kneser_ney is not None:
        check_choice(config.kneser_ney.discounts, DISCOUNTS, f"{where}: kneser_ney: discounts")
        if config.kneser_ney.order not in ORDERS:
            raise InputError(
                f"{where}: kneser_ney: order: {config.kneser_ney.order} is out of range; give {ORDERS[0]} to "
                f"{ORDERS[-1]}, which kenlm reads"
            )
