"""The experiment file of topic models: one base language model, and models that adapt it to a domain each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field, model_validator

from fairseq_ext.engine.fairseq_cli import option_of
from fairseq_ext.inputs.models import EMPTY_AS_DEFAULTS, Count, Number
from fairseq_ext.modules.language_model_options import TOPIC_MODEL
from fairseq_ext.recipes.config import Measuring
from fairseq_ext.recipes.language_models import LanguageModel, LanguageModelExperiment, text_files


class Evaluation(Measuring):
    """How models are measured."""

    lines: Count = 10_000
    """Training lines drawn from a domain: topics get their words from them, the baselines learn from them."""
    topic_words: Count = 20
    """Words of a topic."""
    min_count: Count = 5
    """Lines that a word has to occur in."""
    coherence: list[Annotated[int, Field(ge=2)]] = [5, 10, 20]
    """Of how many first words of a topic the coherence is measured."""
    baselines: list[Literal["lda", "nmf"]] = ["lda", "nmf"]
    """Topic models without a language model."""
    baseline_topics: list[Count] = [10, 20]
    """How many topics they have."""
    base_lines: Count = 100
    """Test lines of each of the base's own domains, on which forgetting is measured."""
    prompts: Count = 200
    """Test lines of a domain that are continued."""
    prompt_words: Count = 5
    """Words of each that are given."""
    max_len: Count = 40
    """Tokens of a text at most, with those given."""
    temperature: Annotated[Number, Field(gt=0)] = 0.8
    """Of sampling."""
    top_k: Count = 10
    """Tokens to sample from."""
    max_tokens: Count = 4096
    """Tokens in a batch; changes no result."""

    @model_validator(mode="after")
    def _check_coherence(self) -> Evaluation:
        most = max(self.coherence, default=0)
        if most > self.topic_words:
            raise ValueError(
                f"coherence: {most} is more than the {self.topic_words} words of a topic; raise topic_words"
            )
        return self


class TopicModel(LanguageModel):
    """A language model: the base, or one that adapts it. Other keys are options of fairseq-train."""

    @property
    def domains(self) -> list[str]:
        """The domains that its ``train-domains`` names."""
        names = str(option_of(self.options, "train-domains") or "").split(",")
        return [name.strip() for name in names if name.strip()]

    @property
    def has_topics(self) -> bool:
        """Whether it has topics beside topic 0."""
        return self.is_a(TOPIC_MODEL) and str(option_of(self.options, "num-topics")) != "0"


class Topics(LanguageModelExperiment[TopicModel]):
    """An experiment with topic models."""

    topics: Annotated[Evaluation, EMPTY_AS_DEFAULTS] = Evaluation()

    @cached_property
    def base(self) -> TopicModel:
        """The language model that the others start from."""
        return next(system for system in self.systems.values() if system.start is None)

    @property
    def adapted(self) -> list[TopicModel]:
        """The other systems."""
        return [system for system in self.systems.values() if system.start is not None]

    @property
    def domains(self) -> list[str]:
        """What they are adapted to, in the order of the file."""
        return list(dict.fromkeys(system.domains[0] for system in self.adapted))

    def domains_of(self, name: str) -> list[str]:
        """The domains that a system is measured on: its own, or all for the base."""
        return self.domains if name == self.base.name else self.systems[name].domains

    @property
    def base_domains(self) -> Sequence[str]:
        """The base's own domains; of a given checkpoint, those that ``train-domains`` names, if any."""
        if self.base.domains or self.base.checkpoint:
            return self.base.domains
        return list(text_files(self.corpora.folder))

    @property
    def tokens_per_sample(self) -> int:
        """How many tokens of a line are read at most, by all adapted systems."""
        return self.adapted[0].tokens_per_sample

    @model_validator(mode="after")
    def _check_systems(self) -> Topics:
        bases = [name for name, system in self.systems.items() if system.start is None]
        if len(bases) != 1 or len(self.systems) < 2:
            raise ValueError(
                f"train: systems: {', '.join(bases) or 'none'} without from; give one base, from which the others start"
            )
        for system in self.adapted:
            if len(system.domains) != 1:
                raise ValueError(f"train: systems: {system.name}: train-domains: name one domain to adapt to")
            if system.tokens_per_sample != self.tokens_per_sample:
                raise ValueError(
                    f"train: systems: {system.name}: tokens-per-sample: {system.tokens_per_sample} differs from "
                    f"{self.tokens_per_sample} of {self.adapted[0].name}; give all the same, apart from the base"
                )
        return self
