"""The experiment file of topic models: one language model, what adapts it to domains, and what is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fairseq_ext.experiments.kinds import load_as
from fairseq_ext.experiments.language_models.config import LanguageModelExperiment, read_shared
from fairseq_ext.experiments.topics.systems import TopicSystems, read_model, topic_systems
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.sections import as_mapping, check_choice, check_numbers, read_section

BASELINES = ("lda", "nmf")


@dataclass(frozen=True)
class TopicEvaluation:
    """What is measured, and how.

    Attributes:
        lines: of a domain's training text, drawn, from which topics get their words; the coherence is that of words in
            these lines, and the baselines are learned from them.
        topic_words: how many words a topic is given.
        min_count: in how many of the lines a word has to be.
        coherence: of how many of a topic's first words the coherence is measured.
        baselines: topic models without a language model to compare with.
        baseline_topics: how many topics they have.
        base_lines: test lines of each of the base's own domains on which forgetting is measured.
        prompts: test lines of a domain that are written on.
        prompt_words: the words of each that are given.
        max_len: tokens of a text at most, those given included.
        temperature: of sampling.
        top_k: tokens to sample from.
        samples: texts that the report shows.
        max_tokens: tokens in a batch; makes no difference to the perplexities.
        cpu: whether to leave a GPU alone.
        reading: Markdown file beside the experiment file, with words on the results.
    """

    lines: int = 10_000
    topic_words: int = 20
    min_count: int = 5
    coherence: list[int] = field(default_factory=lambda: [5, 10, 20])
    baselines: list[str] = field(default_factory=lambda: list(BASELINES))
    baseline_topics: list[int] = field(default_factory=lambda: [10, 20])
    base_lines: int = 100
    prompts: int = 200
    prompt_words: int = 5
    max_len: int = 40
    temperature: float = 0.8
    top_k: int = 10
    samples: int = 8
    max_tokens: int = 4096
    cpu: bool = False
    reading: str | None = None


@dataclass(frozen=True, kw_only=True)
class TopicExperiment(LanguageModelExperiment):
    """A whole experiment file.

    Attributes:
        topics: what is measured.
    """

    topics: TopicEvaluation = field(default_factory=TopicEvaluation)

    @cached_property
    def comparison(self) -> TopicSystems:
        """Which system is the base, and what the others are adapted to."""
        return topic_systems(self)


def read_config(content: Mapping[str, Any], path: Path) -> TopicExperiment:
    """Read and check an experiment file.

    Raises:
        InputError: naming the file and key, and what is allowed there.
    """
    raw = dict(content)
    for key in ("tree", "evaluate"):
        if key in raw:
            raise InputError(f"{path}: {key}: is for experiments with trees; write kind: hierarchy, or take it out")
    topics = _read_evaluation(raw.pop("topics", {}), f"{path}: topics")
    experiment = replace(read_shared(TopicExperiment, raw, path, read_model), topics=topics)
    _ = experiment.comparison  # what cannot be compared is named here, too
    return experiment


def load_config(path: Path) -> TopicExperiment:
    """Read and check the file of such an experiment; see :func:`read_config`."""
    return load_as(["topics"], read_config, path)


def _read_evaluation(section: Any, where: str) -> TopicEvaluation:
    entries = dict(as_mapping(section, where))
    # An empty list has no type to check, and says: none.
    none = {key: entries.pop(key) for key in ("baselines", "coherence") if entries.get(key) == []}
    evaluation: TopicEvaluation = read_section(TopicEvaluation, entries, where, given=none)
    check_numbers({key: value for key, value in asdict(evaluation).items() if key != "cpu"}, where)
    for key, least in (("coherence", 2), ("baseline_topics", 1)):
        for number in getattr(evaluation, key):
            check_numbers({key: number}, where, {key: least})
    for name in evaluation.baselines:
        check_choice(name, BASELINES, f"{where}: baselines")
    if max(evaluation.coherence, default=0) > evaluation.topic_words:
        raise InputError(
            f"{where}: coherence: {max(evaluation.coherence)} is more than the {evaluation.topic_words} words of a "
            "topic; raise topic_words"
        )
    return evaluation
