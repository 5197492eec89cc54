"""What an experiment file of language models says where it compares topic models: its section ``topics``.

Systems are those of :mod:`fairseq_ext.experiment.language_models`. One of them, the base, starts from no other and has
no text of its own to be adapted to. Each of the others is trained on the lines of one domain, ``train-domains``, and
compared with those of the same domain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fairseq_ext.errors import InputError
from fairseq_ext.experiment.language_models import LanguageModel, language_models_of
from fairseq_ext.experiment.lm_config import LanguageModelExperiment
from fairseq_ext.experiment.runs import option_of
from fairseq_ext.experiment.yaml_sections import check_choice, check_numbers, read_section

TOPIC_MODEL = "transformer_lm_topic"
BASELINES = ("lda", "nmf")
CRITERION = "topic_language_modeling"
_DEFAULT_TOPICS, _DEFAULT_TDM, _DEFAULT_MIXTURE = 10, "triplet", "softmaxes"  # of --num-topics, --tdm and --mixture


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


@dataclass(frozen=True)
class AdaptedModel:
    """What a system other than the base is.

    Attributes:
        domain: the text it is adapted to.
        updates: of its training; None if the file does not say.
        num_topics: Z; None for a language model that is fine-tuned as a whole, 0 for one whose output embedding is.
        tdm: how its topics are drawn to their texts; ``none`` if they are not.
        mixture: what its topics' weights mix.
    """

    domain: str
    updates: int | None = None
    num_topics: int | None = None
    tdm: str = "none"
    mixture: str = _DEFAULT_MIXTURE

    @property
    def has_topics(self) -> bool:
        """Whether there are topics beside topic 0."""
        return bool(self.num_topics)

    @property
    def has_tdm(self) -> bool:
        """Whether there is topic distribution modelling."""
        return self.has_topics and self.tdm != "none"


@dataclass(frozen=True)
class TopicSystems:
    """The systems by what they are.

    Attributes:
        base: the name of the language model that the others start from.
        base_domains: its own text; none if it is a given checkpoint, of which the file cannot know.
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


def topic_evaluation_of(config: LanguageModelExperiment) -> TopicEvaluation:
    """The section ``topics``.

    Raises:
        InputError: naming a key or value that cannot be used.
    """
    where, entries = f"{config.path}: topics", dict(config.topics or {})
    # An empty list has no type to check, and says: none.
    none = {key: entries.pop(key) for key in ("baselines", "coherence") if entries.get(key) == []}
    evaluation: TopicEvaluation = read_section(TopicEvaluation, entries, where, given=none)
    check_numbers({key: value for key, value in asdict(evaluation).items() if key != "cpu"}, where)
    for key in ("coherence", "baseline_topics"):
        for number in getattr(evaluation, key):
            check_numbers({key: number}, where, {key: 2 if key == "coherence" else 1})
    for name in evaluation.baselines:
        check_choice(name, BASELINES, f"{where}: baselines")
    if max(evaluation.coherence, default=0) > evaluation.topic_words:
        raise InputError(
            f"{where}: coherence: {max(evaluation.coherence)} is more than the {evaluation.topic_words} words of a "
            "topic; raise topic_words"
        )
    return evaluation


def topic_systems_of(config: LanguageModelExperiment) -> TopicSystems:
    """Which system is the base, and what the others are adapted to.

    Raises:
        InputError: if they cannot be compared: no single base, several domains for one system, lines cut differently.
    """
    where = f"{config.path}: train: systems"
    for key in ("tree", "evaluate"):
        if getattr(config, key):
            raise InputError(f"{config.path}: {key}: is not for topic models; take it out, or the section topics")
    models = language_models_of(config)
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
    return TopicSystems(base, _base_domains(config, models[base]), adapted, next(iter(lengths.values())))


def _adapted(model: LanguageModel, where: str) -> AdaptedModel:
    options = model.system.options
    domains = _names(option_of(options, "train-domains"))
    if len(domains) != 1:
        raise InputError(
            f"{where}: train-domains: {', '.join(domains) or 'none'}; name the one domain that it is adapted to"
        )
    max_update = option_of(options, "max-update")
    updates = None if max_update is None else int(max_update)
    if not str(option_of(options, "arch")).startswith(TOPIC_MODEL):
        return AdaptedModel(domains[0], updates)
    num_topics = option_of(options, "num-topics")
    return AdaptedModel(
        domains[0],
        updates,
        _DEFAULT_TOPICS if num_topics is None else int(num_topics),
        str(option_of(options, "tdm") or _DEFAULT_TDM) if option_of(options, "criterion") == CRITERION else "none",
        str(option_of(options, "mixture") or _DEFAULT_MIXTURE),
    )


def _base_domains(config: LanguageModelExperiment, model: LanguageModel) -> list[str]:
    if model.checkpoint is not None:
        return []
    # Loads the tools that read corpora.
    from fairseq_ext.preparation.lm_prepare import text_files

    return _names(option_of(model.system.options, "train-domains")) or list(text_files(Path(config.corpora.folder)))


def _names(option: Any) -> list[str]:
    return [name.strip() for name in str(option or "").split(",") if name.strip()]
