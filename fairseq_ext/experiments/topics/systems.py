"""What the systems of an experiment with topic models are: one base, and models that adapt it to a domain.

The base starts from no other and has no text of its own to be adapted to. Each of the others is trained on the lines of
one domain, ``train-domains``, and compared with those of the same domain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_ext.engine.fairseq_cli import check_counts, option_of
from fairseq_ext.experiments.language_models.config import LanguageModelExperiment
from fairseq_ext.experiments.language_models.systems import LanguageModel, read_language_model
from fairseq_ext.experiments.systems import take
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.modules.language_model_options import (
    HIERARCHICAL_ADAPTERS,
    MIXTURES,
    NO_TDM,
    NUM_TOPICS,
    TDM,
    TOPIC_CRITERION,
    TOPIC_MODEL,
    TRANSFORMATIONS,
)
from fairseq_ext.recipes.config import System
from fairseq_ext.recipes.language_models import text_files


@dataclass(frozen=True)
class AdaptedModel:
    """What a system other than the base is.

    Attributes:
        domain: the text it is adapted to.
        updates: of its training; None if the file does not say.
        num_topics: Z; None for a language model that is fine-tuned as a whole, 0 for one whose output embedding is.
        tdm: how its topics are drawn to their texts; ``none`` if they are not.
        mixture: what its topics' weights mix.
        transformation: what its topics do with a state.
        freezes_output: it has no copy of the output embedding to train.
    """

    domain: str
    updates: int | None = None
    num_topics: int | None = None
    tdm: str = NO_TDM
    mixture: str = MIXTURES[0]
    transformation: str = TRANSFORMATIONS[0]
    freezes_output: bool = False

    @property
    def has_topics(self) -> bool:
        """Whether there are topics beside topic 0."""
        return bool(self.num_topics)

    @property
    def has_tdm(self) -> bool:
        """Whether there is topic distribution modelling."""
        return self.has_topics and self.tdm != NO_TDM


@dataclass(frozen=True)
class TopicSystems:
    """The systems by what they are.

    Attributes:
        base: the name of the language model that the others start from.
        base_domains: its own text; of a given checkpoint, what ``train-domains`` names for it, if anything.
        adapted: the others, by name.
        tokens_per_sample: at most so many tokens of a line are read, by all alike.
    """

    base: str
    base_domains: Sequence[str]
    adapted: Mapping[str, AdaptedModel]
    tokens_per_sample: int

    @property
    def domains(self) -> list[str]:
        """What the others are adapted to, in the order of the file."""
        return list(dict.fromkeys(model.domain for model in self.adapted.values()))

    def of_domain(self, domain: str) -> dict[str, AdaptedModel]:
        """Those that are adapted to a domain."""
        return {name: model for name, model in self.adapted.items() if model.domain == domain}


def read_model(system: System, where: str) -> LanguageModel:
    """What a system is.

    Raises:
        InputError: naming ``where`` and the key that cannot be used.
    """
    options = dict(system.options)
    if take(options, "tree", str, None, where) is not None:
        raise InputError(f"{where}: tree: is for experiments with trees; write kind: hierarchy, or take it out")
    model = read_language_model(system.model_copy(update={"options": options}), where)
    if model.is_a(HIERARCHICAL_ADAPTERS):
        raise InputError(f"{where}: arch: {HIERARCHICAL_ADAPTERS}* is for experiments with trees; choose another one")
    return model


def topic_systems(experiment: LanguageModelExperiment) -> TopicSystems:
    """Which system is the base, and what the others are adapted to.

    Raises:
        InputError: if they cannot be compared: no single base, several domains for one system, lines cut differently.
    """
    where, models = f"{experiment.path}: train: systems", experiment.systems
    bases = [name for name, model in models.items() if model.system.start is None]
    if len(bases) != 1 or len(models) < 2:
        raise InputError(
            f"{where}: {', '.join(bases) or 'none'} without from: topic models are compared over one base, from which "
            "all others start"
        )
    [base] = bases
    adapted = {name: _adapted(model, f"{where}: {name}") for name, model in models.items() if name != base}
    lengths = {name: models[name].tokens_per_sample for name in adapted}
    if len(set(lengths.values())) > 1:
        given = ", ".join(f"{length} ({name})" for name, length in lengths.items())
        raise InputError(f"{where}: tokens-per-sample: give all that start from {base!r} the same, not {given}")
    return TopicSystems(base, _base_domains(experiment, base), adapted, next(iter(lengths.values())))


def _adapted(model: LanguageModel, where: str) -> AdaptedModel:
    options = model.system.options
    domains = _names(option_of(options, "train-domains"))
    if len(domains) != 1:
        raise InputError(
            f"{where}: train-domains: {', '.join(domains) or 'none'}; name the one domain that it is adapted to"
        )
    check_counts(options, ("max-update",), where)
    max_update = option_of(options, "max-update")
    updates = None if max_update is None else int(max_update)
    if not model.is_a(TOPIC_MODEL):
        return AdaptedModel(domains[0], updates)
    num_topics = option_of(options, "num-topics")
    if num_topics != 0:  # as many as none: only the output embedding is trained
        check_counts(options, ("num-topics",), where)
    return AdaptedModel(
        domains[0],
        updates,
        NUM_TOPICS if num_topics is None else int(num_topics),
        str(option_of(options, "tdm") or TDM[0]) if option_of(options, "criterion") == TOPIC_CRITERION else NO_TDM,
        str(option_of(options, "mixture") or MIXTURES[0]),
        str(option_of(options, "topic-transformation") or TRANSFORMATIONS[0]),
        bool(option_of(options, "freeze-output-embedding")),
    )


def _base_domains(experiment: LanguageModelExperiment, base: str) -> list[str]:
    model = experiment.systems[base]
    named = _names(option_of(model.system.options, "train-domains"))
    if named or model.checkpoint is not None:
        return named
    return list(text_files(Path(experiment.corpora.folder)))


def _names(option: Any) -> list[str]:
    return [name.strip() for name in str(option or "").split(",") if name.strip()]
