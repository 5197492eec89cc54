"""Measure a run, and topic models without a language model.

Each line of text is one row, truncated to the same length for all models, so that all are measured on the same tokens.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from fairseq_ext.base.json_file import write_json
from fairseq_ext.criterions.topic_language_modeling import count_dead_topics, topic_entropy
from fairseq_ext.experiments.config import Run
from fairseq_ext.experiments.language_models import DATA_DIR, checkpoint_of
from fairseq_ext.experiments.metrics.records import RECORDS_FILE, Record, write_rows
from fairseq_ext.experiments.scoring import Batch, LanguageModelScorer, Likelihood
from fairseq_ext.experiments.topics.config import (
    BASE_TEXT,
    COHERENCE,
    DEAD,
    ENTROPY,
    NEAR,
    PERPLEXITY,
    SAMPLES_FILE,
    TOPIC_0,
    USED,
    Topics,
)
from fairseq_ext.experiments.topics.texts import choose_prompts, continue_prompts, text_metrics
from fairseq_ext.experiments.topics.words import (
    WordCorpus,
    count_use,
    learn_topics,
    read_word_corpus,
    u_mass,
    words_by_use,
    words_near,
)
from fairseq_ext.text.line_split import text_path
from fairseq_ext.text.split import stable_hash
from fairseq_ext.text.text_files import stream_lines

Of = Callable[..., Record]  # creates a record of a run


def measure_run(folder: Path, config: Topics, run: Run) -> None:
    """Measure a run and write its records, generated texts and topics."""
    scorer = LanguageModelScorer.load(
        checkpoint_of(config, run),
        config.work_dir / DATA_DIR,
        tokens_per_sample=config.tokens_per_sample,
        max_tokens=config.topics.max_tokens,
        cpu=config.topics.cpu,
        by_line=True,
    )
    domains = config.domains_of(run.system.name)
    of = partial(Record, system=run.system.name, run=run.name, seed=run.seed)
    records = list(_perplexities(config, scorer, of, domains))
    samples = {domain: _samples(config, scorer, domain) for domain in domains}
    write_json(folder / SAMPLES_FILE, samples)
    for domain, written in samples.items():
        scores = text_metrics([text["written"] for text in written], [text["reference"] for text in written])
        records += [of(domain=domain, metric=metric, value=score, n=len(written)) for metric, score in scores.items()]
    if hasattr(scorer.model, "num_topics"):
        topics, of_topics = _find_topics(config, scorer, domains[0], partial(of, domain=domains[0]))
        write_json(folder / config.topics_file(run).name, {"topics": topics})
        scorer.model.decoder.forced_topic = 0  # last, because this is not reset
        records += [*of_topics, *_perplexities(config, scorer, partial(of, dims=TOPIC_0), domains)]
    write_rows(folder / RECORDS_FILE, records)


def measure_baselines(config: Topics, domain: str) -> Iterator[Record]:
    """Measure the coherence of topics found by LDA and NMF."""
    how, corpus = config.topics, word_corpus(config, domain)
    for method in how.baselines:
        for number in how.baseline_topics:
            words = learn_topics(method, corpus.documents, number, how.topic_words, config.seed)
            of = partial(Record, system=f"{method.upper()}, {number} topics", domain=domain)
            yield from _coherence(of, USED, u_mass(words, corpus.documents, how.coherence))


def _perplexities(config: Topics, scorer: LanguageModelScorer, of: Of, domains: Sequence[str]) -> Iterator[Record]:
    """Measure perplexities on the domains that a run is compared on, and on those of the base."""
    count, seed = config.topics.base_lines, config.seed
    of_base = {
        domain: text_likelihood(scorer, scorer.drawn_batches(domain, "test", count, seed)[0])
        for domain in config.base_domains
    }
    compared = {domain: text_likelihood(scorer, scorer.batches(domain, "test")) for domain in domains}
    for domain, likelihood in {**of_base, **compared}.items():
        yield of(domain=domain, metric=PERPLEXITY, value=math.exp(likelihood.loss), n=likelihood.tokens)
    if of_base:
        mean = statistics.fmean(likelihood.loss for likelihood in of_base.values())
        tokens = sum(likelihood.tokens for likelihood in of_base.values())
        yield of(domain=BASE_TEXT, metric=PERPLEXITY, value=math.exp(mean), n=tokens)


def _coherence(of: Of, words: str, by_top: Mapping[int, float]) -> Iterator[Record]:
    for top, value in by_top.items():
        yield of(metric=COHERENCE, value=value, dims={"words": words, "top": top})


def text_likelihood(scorer: LanguageModelScorer, batches: Sequence[Batch]) -> Likelihood:
    """Compute the likelihood of text with a model with or without topics.

    Mixtures compute only the probabilities of the targets, a few tokens at a time.
    """
    if not hasattr(scorer.model, "num_topics"):
        return scorer.score(batches)
    device, pad = next(scorer.model.parameters()).device, scorer.task.target_dictionary.pad()
    likelihood = Likelihood()
    for batch in batches:
        target = batch["target"].to(device)
        with torch.inference_mode():
            _, extra = scorer.model(batch["net_input"]["src_tokens"].to(device), targets=target)
        likelihood.nats -= extra["log_prob"].item()
        likelihood.tokens += int(target.ne(pad).sum())
    return likelihood


def word_corpus(config: Topics, domain: str) -> WordCorpus:
    """Read the words of a domain's lines that are used to measure topics."""
    path, how = text_path(config.work_dir / "encoded", domain, "train"), config.topics
    data = config.work_dir / DATA_DIR
    return read_word_corpus(path, data, domain, count=how.lines, min_count=how.min_count, seed=config.seed)


def _find_topics(
    config: Topics, scorer: LanguageModelScorer, domain: str, of: Of
) -> tuple[list[dict[str, Any]], list[Record]]:
    """Return the share and words of each topic, and records of the topics' usage and coherence."""
    corpus = word_corpus(config, domain)
    dictionary, decoder = scorer.task.target_dictionary, scorer.model.decoder
    counts = count_use(scorer.model, scorer.chosen_batches(domain, "train", corpus.numbers), dictionary.pad())
    shares = (counts.sum(0) / counts.sum()).numpy()
    candidates, number = [dictionary.index(piece) for piece in corpus.words], config.topics.topic_words
    tokens = {
        NEAR: words_near(decoder.topics.steering.embeddings, decoder.output_weight, candidates, number),
        USED: words_by_use(counts, candidates, number),
    }
    words = {
        way: [[corpus.words[dictionary[token]] for token in topic] for topic in topics]
        for way, topics in tokens.items()
    }
    records = [of(metric=ENTROPY, value=topic_entropy(shares)), of(metric=DEAD, value=count_dead_topics(shares))]
    for way, (_, *topics) in words.items():
        # Exclude topic 0: it is the base, and the baselines do not have it.
        if topics:
            records += _coherence(of, way, u_mass(topics, corpus.documents, config.topics.coherence))
    columns = zip(shares.tolist(), words[USED], words[NEAR], strict=True)
    return [{"share": share, USED: used, NEAR: near} for share, used, near in columns], records


def _samples(config: Topics, scorer: LanguageModelScorer, domain: str) -> list[dict[str, str]]:
    """Continue test lines of a domain. Return prompts, continuations and references."""
    path, how = text_path(config.work_dir / "splits", domain, "test"), config.topics
    prompts = choose_prompts(stream_lines(path), how.prompt_words, how.prompts, str(path))
    seed, data = stable_hash(config.seed, "sampling", domain), config.work_dir / DATA_DIR
    texts = continue_prompts(scorer.model, scorer.task, data, [text for text, _ in prompts], how, seed)
    return [
        {"text": text, "reference": reference, "written": written}
        for (text, reference), written in zip(prompts, texts, strict=True)
    ]
