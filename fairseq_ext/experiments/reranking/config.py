"""The experiment file of re-ranking: n-best lists of a translation experiment, and language models of its target side.

All of it is read and checked here, once, before anything runs. ``train`` is that of
:mod:`fairseq_ext.recipes.config`; each system is a model ``dagru_lm``, trained once a domain, on its text alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq_ext.corpora.languages import check_language
from fairseq_ext.domains.names import DOMAINS_FILE, read_domain_names
from fairseq_ext.engine.fairseq_cli import check_option, option_of
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.sections import as_mapping, check_choice, check_keys, check_numbers, check_seed, read_section
from fairseq_ext.modules.combinations import ARCHITECTURE, COMBINATIONS, DEFAULT_COMBINATION
from fairseq_ext.recipes.config import Run, System, expand, read_systems
from fairseq_ext.reranking.kneser_ney import ORDERS
from fairseq_ext.reranking.nbest_files import MODEL, MODEL_SUM, SCORE
from fairseq_ext.reranking.report import FIRST_BEST, ORACLE

# Rows beside those of systems: what the list itself says and the number of words, with n-grams, and what is no model.
LIST, KNESER_NEY, WORDS = "list", "kneser-ney", "words"
_RESERVED = (LIST, KNESER_NEY, WORDS, FIRST_BEST, ORACLE, SCORE, MODEL, MODEL_SUM)


@dataclass(frozen=True)
class Translations:
    """The translation experiment whose system, subwords and splits are used.

    Attributes:
        work_dir: its folder.
        run: the training that translates, such as ``gad`` or ``gad@2``.
        target_lang: the language that it translates into.
        nbest: hypotheses of a sentence; the beam is as wide unless ``options`` say otherwise.
        options: fairseq-generate's.
        outputs: of the experiment, to compare with: translations as they are without re-ranking, of its own beam.
    """

    work_dir: Path
    run: str
    target_lang: str
    nbest: int = 20
    outputs: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)

    def output(self, name: str, domain: str) -> Path:
        """An output's translation of a domain's test set."""
        return self.work_dir / "translations" / name / f"{domain}.{self.target_lang}"

    @property
    def data(self) -> Path:
        """Its binarised text, with dictionaries and subwords."""
        return self.work_dir / "data-bin"

    def text(self, domain: str, split: str) -> Path:
        """A domain's target side as it is written."""
        return self.work_dir / "splits" / domain / f"{split}.{self.target_lang}"

    def pieces(self, domain: str, split: str) -> Path:
        """The same in subwords."""
        return self.work_dir / "encoded" / domain / f"{split}.{self.target_lang}"


@dataclass(frozen=True)
class GeneralVectors:
    """General-domain vectors of the subwords: word2vec's skip-gram on the target side of all domains.

    Attributes:
        dim: their width.
        epochs: over the text.
        window: subwords on either side.
    """

    dim: int = 200
    epochs: int = 5
    window: int = 5


@dataclass(frozen=True)
class Ngrams:
    """n-gram models of every domain, with modified Kneser-Ney smoothing, their discounts fitted to its validation set.

    Attributes:
        order: n.
    """

    order: int = 5


@dataclass(frozen=True)
class Reranking:
    """How weights are tuned and what is reported.

    Attributes:
        restarts: random starts of the tuning.
        resamples: of the paired bootstrap.
        max_tokens: in a batch that language models score.
        cpu: whether these leave a GPU alone.
        reading: Markdown file beside the experiment file, with words on the results.
    """

    restarts: int = 20
    resamples: int = 1000
    max_tokens: int = 4096
    cpu: bool = False
    reading: str | None = None


@dataclass(frozen=True)
class RerankingExperiment:
    """A whole experiment file.

    Attributes:
        path: where it was read from.
        systems: language models by name (``train`` in the file), in its order.
    """

    path: Path = field(metadata={"in_file": False})
    work_dir: Path
    translation: Translations
    seed: int = 1
    word_vectors: GeneralVectors = GeneralVectors()
    kneser_ney: Ngrams | None = None
    systems: Mapping[str, System] = field(default_factory=dict, metadata={"in_file": False})
    rerank: Reranking = Reranking()

    @property
    def domains(self) -> list[str]:
        """The domains of the translation experiment, in order.

        Raises:
            InputError: if its data has not been prepared.
        """
        file = self.translation.data / DOMAINS_FILE
        if not file.is_file():
            raise InputError(
                f"{self.path}: translation: work_dir: {self.translation.work_dir} has no prepared data ({file}); run "
                "its experiment first, scripts/run_experiment.sh FILE"
            )
        return read_domain_names(file)

    @property
    def rows(self) -> list[str]:
        """What lists are re-ranked by: themselves, and with each language model."""
        return [LIST, *([KNESER_NEY] if self.kneser_ney else []), *self.systems]

    def runs(self, name: str) -> list[Run]:
        """The trainings of a system, one a domain."""
        return expand(self.systems[name], self.seed, self.domains)

    def needs_vectors(self, name: str) -> bool:
        """Whether a system reads general-domain vectors."""
        return COMBINATIONS[_combination(self.systems[name])].has_general_words


def read_config(content: Mapping[str, Any], path: Path) -> RerankingExperiment:
    """Read and check an experiment file.

    Raises:
        InputError: naming the file and key, and what is allowed there.
    """
    raw = dict(content)
    check_keys(RerankingExperiment, raw, str(path), ("train",))
    readers: dict[str, Callable[[Any, str], Any]] = {
        "translation": _read_translations,
        "word_vectors": lambda value, where: read_section(GeneralVectors, value, where),
        "kneser_ney": lambda value, where: read_section(Ngrams, value or {}, where),
        "rerank": lambda value, where: read_section(Reranking, value or {}, where),
    }
    given = {key: read(raw.pop(key), f"{path}: {key}") for key, read in readers.items() if key in raw}
    where = f"{path}: train"
    systems = read_systems(as_mapping(raw.pop("train", {}), where), where)
    given["systems"] = {name: _per_domain(system, f"{where}: systems: {name}") for name, system in systems.items()}
    config: RerankingExperiment = read_section(
        RerankingExperiment, raw, str(path), given={**given, "path": path}, others=("train",)
    )
    _check(config)
    return config


def _read_translations(value: Any, where: str) -> Translations:
    entries = dict(as_mapping(value, where))
    options = as_mapping(entries.pop("options", None) or {}, f"{where}: options")
    for name in options:
        check_option(name, f"{where}: options")
    translations: Translations = read_section(Translations, entries, where, given={"options": options})
    check_language(translations.target_lang, f"{where}: target_lang")
    check_numbers({"nbest": translations.nbest}, where, {"nbest": 2})
    return translations


def _per_domain(system: System, where: str) -> System:
    """A system as it is trained here: on each domain alone."""
    if not str(option_of(system.options, "arch")).startswith(ARCHITECTURE):
        raise InputError(f"{where}: arch: give one of {ARCHITECTURE}*, which carries its state over")
    given = {
        "from": system.start,
        "uses_teacher": system.uses_teacher,
        "seeds": system.seeds,
        "data": system.data,
        "word-vectors": option_of(system.options, "word-vectors"),
    }
    for key, value in given.items():
        if value:
            raise InputError(f"{where}: {key}: is not for re-ranking, which trains one model a domain; take it out")
    check_choice(_combination(system), list(COMBINATIONS), f"{where}: combination")
    return system.model_copy(update={"per_domain": True})


def _combination(system: System) -> str:
    return str(option_of(system.options, "combination") or DEFAULT_COMBINATION)


def _check(config: RerankingExperiment) -> None:
    """Check what types alone cannot say."""
    where = str(config.path)
    check_seed(config.seed, where)
    for name in ("word_vectors", "rerank"):
        values = dataclasses.asdict(getattr(config, name))
        check_numbers({key: value for key, value in values.items() if key != "cpu"}, f"{where}: {name}")
    if config.kneser_ney is not None and config.kneser_ney.order not in ORDERS:
        order = config.kneser_ney.order
        raise InputError(f"{where}: kneser_ney: order: {order} is out of range; give {ORDERS[0]} to {ORDERS[-1]}")
    for name in config.systems:
        if name in (*_RESERVED, *config.translation.outputs):
            raise InputError(f"{where}: train: systems: {name!r} is the name of a row or a feature; choose another one")
    for name in config.translation.outputs:
        if name in _RESERVED:
            raise InputError(f"{where}: translation: outputs: {name!r} is the name of a row; rename that output")
    if not config.systems and config.kneser_ney is None:
        raise InputError(f"{where}: train: systems: name a language model, or give kneser_ney, to re-rank by")
