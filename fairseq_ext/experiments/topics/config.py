"""Experiment file of topic models: a base language model, and models that each adapt it to one domain."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from fairseq_ext.base.fairseq_cli import option_of
from fairseq_ext.base.option import names_in
from fairseq_ext.base.sections import EMPTY_AS_DEFAULTS, Count, Number
from fairseq_ext.experiments.config import Measuring, Run
from fairseq_ext.experiments.language_models import LanguageModel, LanguageModelExperiment, text_files
from fairseq_ext.modules.language_model_options import TOPIC_MODEL

SAMPLES_FILE = "samples.json"
PERPLEXITY = "perplexity"
TOPIC_0 = {"topic": 0}  # dimension of perplexities of topic 0 alone
ENTROPY, DEAD = "entropy", "dead topics"
BASE_TEXT = "base text"  # all domains of the base: perplexity of their mean loss
METEOR = "METEOR (exact and stem)"
TEXT_METRICS = ("Dist-2", "Dist-3", "BLEU-2", "BLEU-3", METEOR, "ROUGE-L")
COHERENCE = "coherence"  # dimensions: ``words``, how they are found, and ``top``, the number of words
NEAR, USED = "near", "used"  # methods of finding the words of topics


class Evaluation(Measuring):
    """Options of the evaluation."""

    lines: Count = 10_000
    """Number of training lines to draw from a domain. They are used to find topic words and to train the baselines."""
    topic_words: Count = 20
    """Number of words per topic."""
    min_count: Count = 5
    """Minimum number of lines with a word."""
    coherence: list[Annotated[int, Field(ge=2)]] = [5, 10, 20]
    """Numbers of top words per topic to measure coherence with."""
    baselines: list[Literal["lda", "nmf"]] = ["lda", "nmf"]
    """Topic models without a language model."""
    baseline_topics: list[Count] = [10, 20]
    """Numbers of topics of the baselines."""
    base_domains: list[str] = []
    """Domains like the text of a pretrained base; forgetting is measured on these."""
    base_lines: Count = 100
    """Number of test lines of each of the base's own domains; forgetting is measured on these."""
    prompts: Count = 200
    """Maximum number of test lines of a domain that are used as prompts."""
    prompt_words: Count = 5
    """Number of words per prompt."""
    max_len: Count = 40
    """Maximum number of tokens of a text, including the prompt."""
    temperature: Annotated[Number, Field(gt=0)] = 0.8
    """Sampling temperature."""
    top_k: Count = 10
    """Number of most probable tokens to sample from."""
    max_tokens: Count = 4096
    """Maximum number of tokens in a batch; does not change results."""

    @model_validator(mode="after")
    def _check_coherence(self) -> Evaluation:
        most = max(self.coherence, default=0)
        if most > self.topic_words:
            raise ValueError(f"coherence: {most} is greater than topic_words, {self.topic_words}; raise topic_words")
        return self


class TopicModel(LanguageModel):
    """A language model: the base, or a model that adapts it. Other keys are options of fairseq-train."""

    @property
    def domains(self) -> list[str]:
        """Domains listed in the option ``train-domains``."""
        return names_in(str(option_of(self.options, "train-domains") or ""))

    @property
    def has_topics(self) -> bool:
        """Whether the model has topics in addition to topic 0."""
        return self.is_a(TOPIC_MODEL) and str(option_of(self.options, "num-topics")) != "0"


class Topics(LanguageModelExperiment[TopicModel]):
    """Experiment with topic models."""

    base_type = TopicModel

    topics: Annotated[Evaluation, EMPTY_AS_DEFAULTS] = Evaluation()

    @cached_property
    def base_system(self) -> TopicModel:
        """The base language model."""
        return next(system for system in self.systems.values() if system.start is None)

    @property
    def adapted(self) -> list[TopicModel]:
        """Systems that adapt the base."""
        return [system for system in self.systems.values() if system.start is not None]

    @property
    def domains(self) -> list[str]:
        """Domains that the base is adapted to, in the order of the file."""
        return list(dict.fromkeys(system.domains[0] for system in self.adapted))

    def domains_of(self, name: str) -> list[str]:
        """Return the domains that a system is measured on: its own, or all for the base."""
        return self.domains if name == self.base_system.name else self.systems[name].domains

    def topics_file(self, run: Run) -> Path:
        """Return the file of the topics of a run."""
        return self.work_dir / "topics" / run.name / "topics.json"

    @property
    def base_domains(self) -> Sequence[str]:
        """The base's own domains; for a given checkpoint, those listed in ``train-domains``, if any."""
        system = self.base_system
        if self.base:
            return self.topics.base_domains
        if system.domains or system.checkpoint:
            return system.domains
        return list(text_files(self.corpora.folder))

    @property
    def tokens_per_sample(self) -> int:
        """Maximum number of tokens per line; all adapted systems have the same."""
        return self.adapted[0].tokens_per_sample

    @model_validator(mode="after")
    def _check_systems(self) -> Topics:
        bases = [name for name, system in self.systems.items() if system.start is None]
        if len(bases) != 1 or len(self.systems) < 2:
            raise ValueError(
                f"train: systems: {', '.join(bases) or 'none'} without from; give exactly one base, which the others "
                "start from"
            )
        for system in self.adapted:
            if len(system.domains) != 1:
                raise ValueError(f"train: systems: {system.name}: train-domains: give exactly one domain to adapt to")
            if system.tokens_per_sample != self.tokens_per_sample:
                raise ValueError(
                    f"train: systems: {system.name}: tokens-per-sample: is {system.tokens_per_sample}, but "
                    f"{self.adapted[0].name!r} has {self.tokens_per_sample}; set the same value in all but the base"
                )
        return self
