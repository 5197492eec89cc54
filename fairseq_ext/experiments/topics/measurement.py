"""Measurements of the topics recipe: likelihood of text, properties of topics, and generated texts.

``topics/RUN`` contains ``records.jsonl``, ``samples.json`` (continuations of prompts by domain) and, for models with
topics, ``topics.json`` (share and words of each topic, topic 0 first). ``topic-baselines/DOMAIN`` contains the records
of topic models without a language model.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fairseq_ext.base.steps import Step
from fairseq_ext.experiments.config import Run
from fairseq_ext.experiments.language_models import DATA_DIR, checkpoint_of
from fairseq_ext.experiments.metrics.records import Record, Records
from fairseq_ext.experiments.report import measure_step, measured, training_records
from fairseq_ext.experiments.topics.config import Topics
from fairseq_ext.experiments.topics.metric_names import TOPICS_FILE
from fairseq_ext.text.byte_level_bpe import TOKENIZER_FILE
from fairseq_ext.text.line_split import text_path

_VERSION = 2
_NOT_MEASURING = {"max_tokens", "cpu", "base_domains"}  # options that do not change results, or count anyway


def topic_steps(config: Topics) -> list[Step]:
    """Return the steps that measure each run and the baselines of each domain."""
    steps = [_step_of_run(config, run) for run in config.all_runs]
    if config.topics.baselines:
        steps += [_step_of_baselines(config, domain) for domain in config.domains]
    return steps


def all_records(config: Topics) -> Records:
    """Return all records measured so far."""
    return Records([*training_records(config), *measured(topic_steps(config))])


def topics_file(config: Topics, run: Run) -> Path:
    """Return the path of ``topics.json`` of a run."""
    return _folder(config, run) / TOPICS_FILE


def _folder(config: Topics, run: Run) -> Path:
    return config.work_dir / "topics" / run.name


def _step_of_run(config: Topics, run: Run) -> Step:
    def build(folder: Path) -> None:
        # Loads fairseq.
        from fairseq_ext.experiments.topics.measure import measure_run

        measure_run(folder, config, run)

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
    inputs = [checkpoint_of(config, run), config.work_dir / DATA_DIR, *texts, *pieces]
    return Step(_folder(config, run), inputs, options, build)


def _step_of_baselines(config: Topics, domain: str) -> Step:
    def measure() -> Iterator[Record]:
        # Loads gensim.
        from fairseq_ext.experiments.topics.measure import measure_baselines

        return measure_baselines(config, domain)

    keys = {"baselines", "baseline_topics", "coherence", "lines", "min_count", "topic_words"}
    options = config.topics.model_dump(mode="json", include=keys)
    pieces = text_path(config.work_dir / "encoded", domain, "train")
    spellings = [config.work_dir / DATA_DIR / TOKENIZER_FILE] if config.base else []
    return measure_step(
        config.work_dir / "topic-baselines" / domain,
        [pieces, *spellings],
        {"version": _VERSION, "seed": config.seed, "domain": domain, **options},
        measure,
    )
