"""The steps that measure topic models: ``topics/RUN/topics.json`` and ``topic-baselines/DOMAIN/baselines.json``.

A record of a run has under ``texts`` a domain's negative log-likelihood in nats, ``nats``, by ``all`` the topics and by
topic ``0`` alone; how many lines and tokens that is of, and how many tokens were ``cut`` off; and the ``metrics`` of
what the model wrote. ``base`` has the same without metrics for the base's own domains. ``topics`` has the ``usage`` of
each topic, topic 0 first, its ``words``, found in two ways, and their ``coherence`` without topic 0. ``samples.json``
has texts by domain, ``forced.json`` one text by each topic alone.

All that is scored is a line a row and cut at the same length, so all models are asked about the same tokens.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_ext.corpora.text_files import stream_lines
from fairseq_ext.engine.steps import Step, atomic_write
from fairseq_ext.experiments.topics.config import TopicEvaluation, TopicExperiment
from fairseq_ext.recipes.config import Run
from fairseq_ext.recipes.language_models import DATA_DIR, checkpoint_of
from fairseq_ext.text.byte_level_bpe import VOCAB_FILE, read_spellings
from fairseq_ext.text.line_split import text_path
from fairseq_ext.text.split import stable_hash

# Relative to the experiment's folder; by run, and by domain.
TOPICS_FILE, SAMPLES_FILE, FORCED_FILE = (f"topics/{{}}/{name}.json" for name in ("topics", "samples", "forced"))
BASELINES_FILE = "topic-baselines/{}/baselines.json"
ALL, RESIDUAL = "all", "0"  # over which topics text is scored
NEAR, USED = "near", "used"  # how a topic's words are found
_PARTS = "parts"
_VERSION = 1
_NOT_MEASURING = ("samples", "max_tokens", "cpu", "reading")  # these leave the records as they are


@dataclass(frozen=True)
class Places:
    """Where a measurement finds what it needs.

    Attributes:
        data: directory of the binarised text.
        splits: folder of the raw text, whose test lines are written on.
        encoded: folder of the text in pieces.
        checkpoint: the model; None for the baselines.
    """

    data: Path
    splits: Path
    encoded: Path
    checkpoint: Path | None = None

    @classmethod
    def of(cls, experiment: TopicExperiment, checkpoint: Path | None = None) -> Places:
        work_dir = experiment.work_dir
        return cls(work_dir / DATA_DIR, work_dir / "splits", work_dir / "encoded", checkpoint)


@dataclass(frozen=True)
class TopicMeasurement:
    """What is measured of one run.

    Attributes:
        domains: that it is compared on; of a model with topics, the first is what they are about.
        base_domains: on which forgetting is measured.
        tokens_per_sample: read of a line, at most.
        evaluation: how.
        seed: draws lines and samples.
    """

    domains: Sequence[str]
    base_domains: Sequence[str]
    tokens_per_sample: int
    evaluation: TopicEvaluation
    seed: int

    def recorded(self) -> dict[str, Any]:
        """All that the figures depend on."""
        record = dataclasses.asdict(self)
        record["evaluation"] = {k: v for k, v in record["evaluation"].items() if k not in _NOT_MEASURING}
        return {"version": _VERSION, **record}


def topic_steps(experiment: TopicExperiment) -> list[Step]:
    """One step a run, and one a domain for the baselines."""
    steps = [topic_step(experiment, run) for run in experiment.all_runs]
    if experiment.topics.baselines:
        steps += [baseline_step(experiment, domain) for domain in experiment.comparison.domains]
    return steps


def topic_step(experiment: Any, run: Run) -> Step:
    """The step that measures a run."""
    systems, evaluation = experiment.comparison, experiment.topics
    model = systems.adapted.get(run.system.name)
    domains = systems.domains if model is None else [model.domain]
    what = TopicMeasurement(domains, systems.base_domains, systems.tokens_per_sample, evaluation, experiment.seed)
    checkpoint = checkpoint_of(experiment, run)
    places = Places.of(experiment, checkpoint)
    texts = [text_path(places.splits, name, "test") for name in domains]
    pieces = [text_path(places.encoded, name, "train") for name in domains]
    return Step(
        experiment.work_dir / "topics" / run.name,
        [checkpoint, places.data, *texts, *pieces],
        what.recorded(),
        lambda folder: measure_topics(folder, places, what),
        resumable=True,
    )


def baseline_step(experiment: TopicExperiment, domain: str) -> Step:
    """The step that finds a domain's topics without a language model, and measures their coherence."""
    evaluation, places = experiment.topics, Places.of(experiment)
    what = TopicMeasurement([domain], [], 0, evaluation, experiment.seed)
    keys = ("baselines", "baseline_topics", "coherence", "lines", "min_count", "topic_words")
    options = {key: getattr(evaluation, key) for key in keys}
    return Step(
        experiment.work_dir / "topic-baselines" / domain,
        [text_path(places.encoded, domain, "train"), *([places.data / VOCAB_FILE] if experiment.subwords.gpt2 else [])],
        {"version": _VERSION, "seed": experiment.seed, "domain": domain, **options},
        lambda folder: measure_baselines(folder, places, what),
        resumable=True,
    )


def measure_topics(folder: Path, places: Places, what: TopicMeasurement) -> None:
    """Write the records of a run; parts that an interrupted one has measured are taken over."""
    # Loads fairseq.
    from fairseq_ext.metrics.perplexity import LanguageModelScorer

    assert places.checkpoint is not None
    scorer = LanguageModelScorer.load(
        places.checkpoint,
        places.data,
        tokens_per_sample=what.tokens_per_sample,
        max_tokens=what.evaluation.max_tokens,
        cpu=what.evaluation.cpu,
        by_line=True,
    )
    part = partial(_part, folder)
    scored = {n: part(f"text-{n}", partial(_score_text, scorer, places, what, n)) for n in what.domains}
    base = {n: part(f"base-{n}", partial(_score_base, scorer, what, n)) for n in what.base_domains}
    written = {n: part(f"written-{n}", partial(_write_texts, scorer, places, what, n)) for n in what.domains}
    record: dict[str, Any] = {
        "texts": {n: {**scored[n], "metrics": written[n]["metrics"]} for n in what.domains},
        "base": base,
        "tokens_per_sample": what.tokens_per_sample,
        "topics": None,
    }
    _write_json(folder / "samples.json", {n: written[n]["samples"] for n in what.domains})
    if _has_topics(scorer.model):
        domain = what.domains[0]
        record["topics"] = part("topics", partial(_find_topics, scorer, places, what, domain))
        _write_json(folder / "forced.json", part("forced", partial(_write_by_topic, scorer, places, what, domain)))
    _write_json(folder / "topics.json", record)
    shutil.rmtree(folder / _PARTS)


def measure_baselines(folder: Path, places: Places, what: TopicMeasurement) -> None:
    """Write ``baselines.json``: by kind and number of topics, their words and coherence."""
    from fairseq_ext.experiments.topics.topic_baselines import learn_topics
    from fairseq_ext.metrics.coherence import u_mass

    corpus = _word_corpus(places, what, what.domains[0])

    def learn(kind: str, number: int) -> dict[str, Any]:
        words = learn_topics(kind, corpus.documents, number, what.evaluation.topic_words, what.seed)
        coherence = u_mass(words, corpus.documents, what.evaluation.coherence)
        return {"kind": kind, "num_topics": number, "words": words, "coherence": coherence}

    found = [
        _part(folder, f"{kind}-{number}", partial(learn, kind, number))
        for kind in what.evaluation.baselines
        for number in what.evaluation.baseline_topics
    ]
    record = {"lines": len(corpus.documents), "candidates": len(corpus.words), "topics": found}
    _write_json(folder / "baselines.json", record)
    shutil.rmtree(folder / _PARTS)


def line_nats(scorer: Any, batches: Sequence[dict[str, Any]]) -> tuple[float, int]:
    """The negative log-likelihood of text, and of how many tokens it is.

    A mixture says how probable the targets are by itself, a few tokens at a time, and never makes the probabilities of
    all other words.
    """
    if not _has_topics(scorer.model):
        likelihood = scorer.score(batches)[0]
        return likelihood.nats, likelihood.tokens
    import torch

    device, pad = next(scorer.model.parameters()).device, scorer.task.target_dictionary.pad()
    nats, tokens = 0.0, 0
    for batch in batches:
        target = batch["target"].to(device)
        with torch.inference_mode():
            _, extra = scorer.model(batch["net_input"]["src_tokens"].to(device), targets=target)
        nats -= extra["log_prob"].item()
        tokens += int(target.ne(pad).sum())
    return nats, tokens


def _score_text(scorer: Any, places: Places, what: TopicMeasurement, domain: str) -> dict[str, Any]:
    from fairseq.data import data_utils

    # The sizes lie in the file that the data set keeps open; without it they cannot be read.
    texts = data_utils.load_indexed_dataset(str(places.data / domain / "test"), scorer.task.source_dictionary)
    cut = int((texts.sizes - what.tokens_per_sample).clip(min=0).sum())
    return {"lines": len(texts), "cut": cut, **_nats_of(scorer, scorer.batches(domain, "test"))}


def _score_base(scorer: Any, what: TopicMeasurement, domain: str) -> dict[str, Any]:
    batches, lines = scorer.drawn_batches(domain, "test", what.evaluation.base_lines, what.seed)
    return {"lines": lines, **_nats_of(scorer, batches)}


def _nats_of(scorer: Any, batches: Sequence[dict[str, Any]]) -> dict[str, Any]:
    from fairseq_ext.experiments.topics.continuations import only_topic

    nats, tokens = line_nats(scorer, batches)
    found = {ALL: nats}
    if _has_topics(scorer.model):
        with only_topic(scorer.model, 0):
            found[RESIDUAL], _ = line_nats(scorer, batches)
    return {"tokens": tokens, "nats": found}


def _write_texts(scorer: Any, places: Places, what: TopicMeasurement, domain: str) -> dict[str, Any]:
    from fairseq_ext.metrics.text_metrics import text_metrics

    prompts = _prompts(places, what, domain)
    texts = _writer(scorer, places, what).write([prompt.text for prompt in prompts], _sampling_seed(what, domain))
    metrics = text_metrics(texts, [prompt.reference for prompt in prompts])
    samples = [{**dataclasses.asdict(prompt), "written": text} for prompt, text in zip(prompts, texts, strict=True)]
    return {"metrics": {**metrics, "prompts": len(prompts)}, "samples": samples}


def _write_by_topic(scorer: Any, places: Places, what: TopicMeasurement, domain: str) -> dict[str, Any]:
    """What each topic alone makes of the first prompt."""
    from fairseq_ext.experiments.topics.continuations import only_topic

    [prompt] = _prompts(places, what, domain)[:1]
    writer, seed = _writer(scorer, places, what), _sampling_seed(what, domain)
    texts = []
    for topic in range(scorer.model.num_topics + 1):
        with only_topic(scorer.model, topic):
            texts += writer.write([prompt.text], seed)
    return {**dataclasses.asdict(prompt), "domain": domain, "written": texts}


def _find_topics(scorer: Any, places: Places, what: TopicMeasurement, domain: str) -> dict[str, Any]:
    from fairseq_ext.criterions.topic_language_modeling import count_dead_topics, topic_entropy
    from fairseq_ext.experiments.topics.topic_words import count_use, words_by_use, words_near
    from fairseq_ext.metrics.coherence import u_mass

    corpus, dictionary, decoder = (
        _word_corpus(places, what, domain),
        scorer.task.target_dictionary,
        scorer.model.decoder,
    )
    batches = scorer.chosen_batches(domain, "train", corpus.numbers)
    use = count_use(scorer.model, batches, dictionary.pad())
    candidates = [dictionary.index(piece) for piece in corpus.words]
    number = what.evaluation.topic_words
    found = {
        NEAR: words_near(decoder.topics.steering.embeddings, decoder.output_weight, candidates, number),
        USED: words_by_use(use.counts, candidates, number),
    }
    words = {
        key: [[corpus.words[dictionary[token]] for token in topic] for topic in topics] for key, topics in found.items()
    }
    usage = use.shares.numpy()
    return {
        "num_topics": scorer.model.num_topics,
        "lines": len(corpus.documents),
        "candidates": len(candidates),
        "usage": usage.tolist(),
        "entropy": topic_entropy(usage),
        "dead": count_dead_topics(usage),
        "words": words,
        # Without topic 0, which is the base and which the baselines do not have.
        "coherence": {k: u_mass(w[1:], corpus.documents, what.evaluation.coherence) for k, w in words.items() if w[1:]},
    }


def _word_corpus(places: Places, what: TopicMeasurement, domain: str) -> Any:
    from fairseq_ext.experiments.topics.word_corpus import read_word_corpus

    path, options = text_path(places.encoded, domain, "train"), what.evaluation
    vocab = places.data / VOCAB_FILE
    spellings = read_spellings(vocab) if vocab.is_file() else {}
    return read_word_corpus(
        path, domain, count=options.lines, min_count=options.min_count, seed=what.seed, spellings=spellings
    )


def _prompts(places: Places, what: TopicMeasurement, domain: str) -> Any:
    from fairseq_ext.experiments.topics.continuations import choose_prompts

    path, options = text_path(places.splits, domain, "test"), what.evaluation
    return choose_prompts(stream_lines(path), options.prompt_words, options.prompts, str(path))


def _writer(scorer: Any, places: Places, what: TopicMeasurement) -> Any:
    from fairseq_ext.experiments.topics.continuations import Sampling, Writer

    options = what.evaluation
    sampling = Sampling(options.max_len, options.temperature, options.top_k)
    return Writer(scorer.model, scorer.task, places.data, sampling)


def _sampling_seed(what: TopicMeasurement, domain: str) -> int:
    return stable_hash(what.seed, "sampling", domain)


def _has_topics(model: Any) -> bool:
    return hasattr(model, "num_topics")


def _part(folder: Path, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A part of a record, kept in a file of its own until all are there."""
    path = folder / _PARTS / f"{name}.json"
    if not path.is_file():
        part = make()
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps(part), encoding="utf-8")
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return result


def _write_json(path: Path, record: dict[str, Any]) -> None:
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
