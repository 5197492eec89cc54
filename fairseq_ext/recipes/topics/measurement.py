"""What is measured: likelihood of text, what the topics are like, and texts that the models write.

``topics/RUN`` has ``records.jsonl``, ``samples.json`` (by domain, how prompts are continued) and, of a model with
topics, ``topics.json`` (of each topic, topic 0 first, its share, its words and what it writes alone).
``topic-baselines/DOMAIN`` has the records of topic models without a language model.

A line of text is a row, cut at the same length for all models, so that all are measured on the same tokens.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairseq_ext.corpora.byte_level_bpe import VOCAB_FILE
from fairseq_ext.corpora.line_split import text_path
from fairseq_ext.corpora.split import stable_hash
from fairseq_ext.corpora.text_files import stream_lines
from fairseq_ext.engine.steps import Step
from fairseq_ext.inputs.json_file import write_json
from fairseq_ext.metrics.records import RECORDS_FILE, Record, Records, write_records
from fairseq_ext.recipes.config import Run
from fairseq_ext.recipes.language_models import DATA_DIR, checkpoint_of
from fairseq_ext.recipes.report import measure_step, measured, training_records
from fairseq_ext.recipes.topics.config import Topics

if TYPE_CHECKING:
    from torch import Tensor

    from fairseq_ext.recipes.perplexity import Batch, LanguageModelScorer
    from fairseq_ext.recipes.topics.continuations import Prompt, Writer
    from fairseq_ext.recipes.topics.word_corpus import WordCorpus

SAMPLES_FILE, TOPICS_FILE = "samples.json", "topics.json"
# Metrics; those of texts have their own names.
PERPLEXITY, TOPIC_0_PERPLEXITY = "perplexity", "perplexity, topic 0 alone"
ENTROPY, DEAD, LARGEST, TOPIC_0_SHARE = "entropy", "dead topics", "largest share", "share of topic 0"
BASE_TEXT = "base text"  # the domains of the base as one set: the perplexity of their mean loss
NEAR, USED = "near", "used"  # how the words of topics are found
_VERSION = 2
_NOT_MEASURING = {"max_tokens", "cpu"}  # these change no result

Of = Callable[..., Record]  # a record of a run
Likelihoods = Mapping[str, tuple[float, int]]  # by metric, negative log-likelihood in nats and number of tokens


def coherence(way: str, top: int | str) -> str:
    """The metric of coherence by so many words, which were found in one way."""
    return f"coherence, {way}, N = {top}"


def topic_steps(config: Topics) -> list[Step]:
    """The steps that measure each run, and the baselines of each domain."""
    steps = [_step_of_run(config, run) for run in config.all_runs]
    if config.topics.baselines:
        steps += [_step_of_baselines(config, domain) for domain in config.domains]
    return steps


def all_records(config: Topics) -> Records:
    """Everything that was measured so far."""
    return Records([*training_records(config), *measured(topic_steps(config))])


def measured_text(config: Topics, run: Run, name: str) -> Path:
    """``samples.json`` or ``topics.json`` of a run."""
    return config.work_dir / "topics" / run.name / name


def _step_of_run(config: Topics, run: Run) -> Step:
    domains = config.domains_of(run.system.name)
    texts = [text_path(config.work_dir / "splits", name, "test") for name in domains]
    pieces = [text_path(config.work_dir / "encoded", name, "train") for name in domains]
    options = {
        "version": _VERSION,
        "domains": domains,
        "base_domains": config.base_domains,
        "tokens_per_sample": config.tokens_per_sample,
        "evaluation": config.topics.model_dump(mode="json", exclude=_NOT_MEASURING),
        "seed": config.seed,
    }
    return Step(
        config.work_dir / "topics" / run.name,
        [checkpoint_of(config, run), config.work_dir / DATA_DIR, *texts, *pieces],
        options,
        lambda folder: _measure_run(folder, config, run),
    )


def _step_of_baselines(config: Topics, domain: str) -> Step:
    keys = {"baselines", "baseline_topics", "coherence", "lines", "min_count", "topic_words"}
    options = config.topics.model_dump(mode="json", include=keys)
    pieces = text_path(config.work_dir / "encoded", domain, "train")
    spellings = [config.work_dir / DATA_DIR / VOCAB_FILE] if config.subwords.gpt2 else []
    return measure_step(
        config.work_dir / "topic-baselines" / domain,
        [pieces, *spellings],
        {"version": _VERSION, "seed": config.seed, "domain": domain, **options},
        lambda: _measure_baselines(config, domain),
    )


# Measuring


def _measure_run(folder: Path, config: Topics, run: Run) -> None:
    # Loads fairseq.
    from fairseq_ext.recipes.topics.topic_models import has_topics

    scorer = _load_scorer(config, run)
    domains = config.domains_of(run.system.name)
    of = partial(Record, system=run.system.name, run=run.name, seed=run.seed)
    own = {domain: _likelihoods(scorer, scorer.batches(domain, "test")) for domain in domains}
    drawn = partial(scorer.drawn_batches, split="test", count=config.topics.base_lines, seed=config.seed)
    base = {domain: _likelihoods(scorer, drawn(domain)[0]) for domain in config.base_domains}
    records = list(perplexity_records(of, own, base))
    samples = {domain: _continue_prompts(config, scorer, domain) for domain in domains}
    write_json(folder / SAMPLES_FILE, samples)
    for domain, texts in samples.items():
        records += _text_metrics(of, domain, texts)
    if has_topics(scorer.model):
        topics, usage, coherences = _find_topics(config, scorer, domains[0])
        write_json(folder / TOPICS_FILE, topics)
        records += topic_records(of, domains[0], usage, coherences)
    write_records(folder / RECORDS_FILE, records)


def _load_scorer(config: Topics, run: Run) -> LanguageModelScorer:
    from fairseq_ext.recipes.perplexity import LanguageModelScorer

    return LanguageModelScorer.load(
        checkpoint_of(config, run),
        config.work_dir / DATA_DIR,
        tokens_per_sample=config.tokens_per_sample,
        max_tokens=config.topics.max_tokens,
        cpu=config.topics.cpu,
        by_line=True,
    )


def _measure_baselines(config: Topics, domain: str) -> Iterator[Record]:
    """The coherence of what LDA and NMF find."""
    from fairseq_ext.recipes.topics.coherence import learn_topics, u_mass

    how, corpus = config.topics, word_corpus(config, domain)
    for method in how.baselines:
        for number in how.baseline_topics:
            words = learn_topics(method, corpus.documents, number, how.topic_words, config.seed)
            name = f"{method.upper()}, {number} topics"
            for top, value in u_mass(words, corpus.documents, how.coherence).items():
                yield Record(system=name, domain=domain, metric=coherence(USED, top), value=value)


# Likelihood


def _likelihoods(scorer: LanguageModelScorer, batches: Sequence[Batch]) -> Likelihoods:
    from fairseq_ext.recipes.topics.topic_models import has_topics, only_topic, text_likelihood

    found = {PERPLEXITY: text_likelihood(scorer, batches)}
    if has_topics(scorer.model):
        with only_topic(scorer.model, 0):
            found[TOPIC_0_PERPLEXITY] = text_likelihood(scorer, batches)
    return {metric: (each.nats, each.tokens) for metric, each in found.items()}


def perplexity_records(of: Of, own: Mapping[str, Likelihoods], base: Mapping[str, Likelihoods]) -> Iterator[Record]:
    """The perplexities of a run, of the domains that it is compared on and of those of the base."""
    for metric in (PERPLEXITY, TOPIC_0_PERPLEXITY):
        found = {domain: each[metric] for domain, each in {**base, **own}.items() if metric in each}
        for domain, (nats, tokens) in found.items():
            yield of(domain=domain, metric=metric, value=math.exp(nats / tokens), n=tokens)
        of_base = [each[metric] for each in base.values() if metric in each]
        if of_base:
            perplexity = statistics.geometric_mean(math.exp(nats / tokens) for nats, tokens in of_base)
            yield of(domain=BASE_TEXT, metric=metric, value=perplexity, n=sum(tokens for _, tokens in of_base))


# Topics


def word_corpus(config: Topics, domain: str) -> WordCorpus:
    """The lines of a domain that topics are measured on, as words; see :func:`read_word_corpus`."""
    from fairseq_ext.recipes.topics.word_corpus import read_word_corpus

    path, how = text_path(config.work_dir / "encoded", domain, "train"), config.topics
    data = config.work_dir / DATA_DIR
    return read_word_corpus(path, data, domain, count=how.lines, min_count=how.min_count, seed=config.seed)


def _find_topics(
    config: Topics, scorer: LanguageModelScorer, domain: str
) -> tuple[dict[str, Any], Sequence[float], Mapping[str, Mapping[str, float]]]:
    """What ``topics.json`` has; the share of each topic; and by the way that words were found, their coherence."""
    from fairseq_ext.recipes.topics.coherence import u_mass
    from fairseq_ext.recipes.topics.topic_models import count_use

    corpus = word_corpus(config, domain)
    batches = scorer.chosen_batches(domain, "train", corpus.numbers)
    counts = count_use(scorer.model, batches, scorer.task.target_dictionary.pad())
    usage = (counts.sum(0) / counts.sum()).tolist()
    words = _words_of_topics(config, scorer, corpus, counts)
    # Without topic 0, which is the base and which the baselines do not have.
    own = {way: topics[1:] for way, topics in words.items() if topics[1:]}
    coherences = {way: u_mass(topics, corpus.documents, config.topics.coherence) for way, topics in own.items()}
    prompt, texts = _write_by_topic(config, scorer, domain)
    columns = zip(usage, words[USED], words[NEAR], texts, strict=True)
    topics = [{"share": share, USED: used, NEAR: near, "written": text} for share, used, near, text in columns]
    return {"prompt": asdict(prompt), "topics": topics}, usage, coherences


def _words_of_topics(
    config: Topics, scorer: LanguageModelScorer, corpus: WordCorpus, counts: Tensor
) -> dict[str, list[list[str]]]:
    """The words of each topic, by the way that they were found."""
    from fairseq_ext.recipes.topics.topic_models import words_by_use, words_near

    dictionary, decoder = scorer.task.target_dictionary, scorer.model.decoder
    candidates, number = [dictionary.index(piece) for piece in corpus.words], config.topics.topic_words
    found = {
        NEAR: words_near(decoder.topics.steering.embeddings, decoder.output_weight, candidates, number),
        USED: words_by_use(counts, candidates, number),
    }
    return {
        way: [[corpus.words[dictionary[token]] for token in topic] for topic in topics] for way, topics in found.items()
    }


def topic_records(
    of: Of, domain: str, usage: Sequence[float], coherences: Mapping[str, Mapping[str, float]]
) -> Iterator[Record]:
    """How the topics of a run are used, by their shares, and their coherence, by the way that words were found."""
    import numpy as np

    from fairseq_ext.criterions.topic_language_modeling import count_dead_topics, topic_entropy

    shares = np.array(usage)
    values = {
        ENTROPY: topic_entropy(shares),
        DEAD: count_dead_topics(shares),
        LARGEST: 100 * max(usage),
        TOPIC_0_SHARE: 100 * usage[0],
    }
    for way, by_top in coherences.items():
        values |= {coherence(way, top): value for top, value in by_top.items()}
    for metric, value in values.items():
        yield of(domain=domain, metric=metric, value=value)


# Texts


def prompts_of(config: Topics, domain: str) -> list[Prompt]:
    """The test lines of a domain that are continued."""
    from fairseq_ext.recipes.topics.continuations import choose_prompts

    path, how = text_path(config.work_dir / "splits", domain, "test"), config.topics
    return choose_prompts(stream_lines(path), how.prompt_words, how.prompts, str(path))


def _continue_prompts(config: Topics, scorer: LanguageModelScorer, domain: str) -> list[dict[str, str]]:
    prompts = prompts_of(config, domain)
    texts = _writer(config, scorer).write([prompt.text for prompt in prompts], _sampling_seed(config, domain))
    return [{**asdict(prompt), "written": text} for prompt, text in zip(prompts, texts, strict=True)]


def _write_by_topic(config: Topics, scorer: LanguageModelScorer, domain: str) -> tuple[Prompt, list[str]]:
    """How each topic alone continues the first prompt, by the same random numbers."""
    from fairseq_ext.recipes.topics.topic_models import only_topic

    prompt, writer, texts = prompts_of(config, domain)[0], _writer(config, scorer), []
    for topic in range(scorer.model.num_topics + 1):
        with only_topic(scorer.model, topic):
            texts += writer.write([prompt.text], _sampling_seed(config, domain))
    return prompt, texts


def _text_metrics(of: Of, domain: str, samples: Sequence[Mapping[str, str]]) -> Iterator[Record]:
    from fairseq_ext.recipes.topics.text_metrics import text_metrics

    texts, references = ([sample[key] for sample in samples] for key in ("written", "reference"))
    for metric, value in text_metrics(texts, references).items():
        yield of(domain=domain, metric=metric, value=value, n=len(samples))


def _writer(config: Topics, scorer: LanguageModelScorer) -> Writer:
    from fairseq_ext.recipes.topics.continuations import Writer

    data, how = config.work_dir / DATA_DIR, config.topics
    return Writer(scorer.model, scorer.task, data, max_len=how.max_len, temperature=how.temperature, top_k=how.top_k)


def _sampling_seed(config: Topics, domain: str) -> int:
    return stable_hash(config.seed, "sampling", domain)
