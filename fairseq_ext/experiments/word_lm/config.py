"""The experiment file of word language models: text and word vectors to perplexities, with an n-gram baseline.

All of it is read and checked here, once, before anything runs. ``train`` is that of
:mod:`fairseq_ext.experiments.systems`; its systems are options of fairseq-train for a model ``dagru_lm``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from fairseq_ext.engine.fairseq_cli import option_of
from fairseq_ext.experiments import systems
from fairseq_ext.experiments.kinds import load_as
from fairseq_ext.experiments.systems import Run, System, expand, take
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.sections import as_mapping, check_choice, check_keys, check_seed, read_section
from fairseq_ext.modules.combinations import ARCHITECTURE, COMBINATIONS, DEFAULT_COMBINATION, MISSING_CHOICES
from fairseq_ext.reranking.kneser_ney import ORDERS

DISCOUNTS = ("held-out", "leave-one-out")


@dataclass(frozen=True)
class Corpora:
    """Texts of words separated by blanks, one sentence a line.

    Attributes:
        vocabulary: how many words models know: the most frequent ones of the training text and ``<unk>``, which the
            others are in all texts. 0 for all.
    """

    train: Path
    valid: Path
    test: Path
    vocabulary: int = 0


@dataclass(frozen=True)
class GeneralVectors:
    """General-domain word vectors.

    Attributes:
        file: GloVe text, or word2vec text or binary.
        missing: what a word takes that is not in the file: ``zero``, or the ``mean`` of those found.
    """

    file: Path
    missing: str = MISSING_CHOICES[0]


@dataclass(frozen=True)
class KneserNeyBaseline:
    """The n-gram model.

    Attributes:
        order: n.
        discounts: fitted to the validation set (``held-out``), or by the training text's counts (``leave-one-out``).
    """

    order: int = 5
    discounts: str = "held-out"


@dataclass(frozen=True)
class Evaluation:
    """How it is measured.

    Attributes:
        cpu: whether to leave a GPU alone.
        reading: file with words on the results, for the report.
    """

    cpu: bool = False
    reading: str | None = None


@dataclass(frozen=True)
class WordSystem:
    """A system and what only these experiments have.

    Attributes:
        system: what is trained; its options are fairseq-train's, those of word vectors among them.
        combination: how it combines the words and contexts of two domains.
        vectors: what its options say of general-domain word vectors; None without any.
    """

    system: System
    combination: str
    vectors: GeneralVectors | None = None


@dataclass(frozen=True)
class WordLmExperiment:
    """A whole experiment file.

    Attributes:
        path: where it was read from.
        word_vectors: for all systems that read some and name no file of their own.
        systems: by name (``train`` in the file), in its order.
    """

    path: Path = field(metadata={"in_file": False})
    work_dir: Path
    corpora: Corpora
    seed: int = 1
    word_vectors: GeneralVectors | None = None
    kneser_ney: KneserNeyBaseline | None = None
    systems: Mapping[str, WordSystem] = field(default_factory=dict, metadata={"in_file": False})
    evaluate: Evaluation = Evaluation()

    @cached_property
    def runs(self) -> Mapping[str, Sequence[Run]]:
        """The runs of every system, by its name."""
        return {name: expand(system.system, self.seed, ()) for name, system in self.systems.items()}

    @cached_property
    def all_runs(self) -> Sequence[Run]:
        """The runs of all systems, in order."""
        return [run for runs in self.runs.values() for run in runs]

    @cached_property
    def vector_files(self) -> Sequence[GeneralVectors]:
        """The word vectors that systems read, each once."""
        return list(dict.fromkeys(system.vectors for system in self.systems.values() if system.vectors))


def read(content: Mapping[str, Any], path: Path) -> WordLmExperiment:
    """Read and check an experiment file of word language models.

    Raises:
        InputError: naming the file and key, and what is allowed there.
    """
    raw = dict(content)
    check_keys(WordLmExperiment, raw, str(path), ("train",))
    readers: dict[str, Callable[[Any, str], Any]] = {
        "corpora": lambda value, where: read_section(Corpora, value, where),
        "word_vectors": lambda value, where: read_section(GeneralVectors, value, where),
        "kneser_ney": lambda value, where: read_section(KneserNeyBaseline, value or {}, where),
        "evaluate": lambda value, where: read_section(Evaluation, value or {}, where),
    }
    train = as_mapping(raw.pop("train", {}), f"{path}: train")
    sections = {key: reader(raw.pop(key), f"{path}: {key}") for key, reader in readers.items() if key in raw}
    config: WordLmExperiment = read_section(
        WordLmExperiment, raw, str(path), given={**sections, "path": path}, others=("train",)
    )
    _check(config)
    return dataclasses.replace(config, systems=_read_systems(train, config.word_vectors, f"{path}: train"))


def load_config(path: Path) -> WordLmExperiment:
    """Read and check the file of such an experiment; see :func:`read`."""
    return load_as(["word_lm"], read, path)


def _read_systems(section: Mapping[str, Any], vectors: GeneralVectors | None, where: str) -> dict[str, WordSystem]:
    return {
        name: _read_system(system, vectors, f"{where}: systems: {name}")
        for name, system in systems.read_systems(section, where).items()
    }


def _read_system(system: System, vectors: GeneralVectors | None, where: str) -> WordSystem:
    """A system with the file's word vectors, unless it names its own or reads none."""
    _check_system(system, where)
    options = system.options
    combination = str(option_of(options, "combination") or DEFAULT_COMBINATION)
    check_choice(combination, list(COMBINATIONS), f"{where}: combination")
    needs_vectors = COMBINATIONS[combination].has_general_words
    if vectors and needs_vectors and not option_of(options, "word-vectors"):
        options = {"word-vectors": str(vectors.file), "missing-vectors": vectors.missing, **options}
    found = _vectors_in(options, where)
    if found is None and needs_vectors:
        raise InputError(f"{where}: combination: {combination} needs word_vectors; give their file")
    return WordSystem(dataclasses.replace(system, options=options), combination, found)


def _vectors_in(options: Mapping[str, Any], where: str) -> GeneralVectors | None:
    """The word vectors that a system's options name; None if they name none."""
    missing = option_of(options, "missing-vectors") or MISSING_CHOICES[0]
    check_choice(missing, MISSING_CHOICES, f"{where}: missing-vectors")
    file = option_of(options, "word-vectors")
    return GeneralVectors(Path(file), missing) if file else None


def _check_system(system: System, where: str) -> None:
    for key in ("word-vectors", "word_vectors"):
        take(dict(system.options), key, str, None, where)
    if not str(option_of(system.options, "arch")).startswith(ARCHITECTURE):
        raise InputError(f"{where}: arch: give one of {ARCHITECTURE}*, which carries its state over")
    given = {
        "from": system.start,
        "uses_teacher": system.uses_teacher,
        "per_domain": system.per_domain,
        "data": system.data,
    }
    for key, value in given.items():
        if value:
            raise InputError(f"{where}: {key}: is not for word language models; take it out")


def _check(config: WordLmExperiment) -> None:
    """Check what types alone cannot say."""
    where = str(config.path)
    check_seed(config.seed, where)
    if config.corpora.vocabulary < 0:
        raise InputError(
            f"{where}: corpora: vocabulary: {config.corpora.vocabulary} words; give 1 or more, or 0 for all"
        )
    if config.word_vectors is not None:
        check_choice(config.word_vectors.missing, MISSING_CHOICES, f"{where}: word_vectors: missing")
    if config.kneser_ney is not None:
        check_choice(config.kneser_ney.discounts, DISCOUNTS, f"{where}: kneser_ney: discounts")
        if config.kneser_ney.order not in ORDERS:
            raise InputError(
                f"{where}: kneser_ney: order: {config.kneser_ney.order} is out of range; give {ORDERS[0]} to "
                f"{ORDERS[-1]}"
            )
