"""Stages of the topics recipe: from text by domain to topic models and their report.

``topics/RUN`` contains ``records.jsonl``, ``samples.json`` (continuations of prompts by domain) and, for models with
topics, ``topics.json`` (share and words of each topic, topic 0 first). ``topic-baselines/DOMAIN`` contains the records
of topic models without a language model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from fairseq_ext.base.steps import Step
from fairseq_ext.experiments.config import Run
from fairseq_ext.experiments.language_models import DATA_DIR, LanguageModelRecipe, checkpoint_of
from fairseq_ext.experiments.metrics.records import Record, Records
from fairseq_ext.experiments.metrics.render import Page
from fairseq_ext.experiments.report import measure_step
from fairseq_ext.experiments.topics.config import Topics
from fairseq_ext.experiments.topics.report import page
from fairseq_ext.text.byte_level_bpe import TOKENIZER_FILE
from fairseq_ext.text.line_split import text_path

_VERSION = 3
_NOT_MEASURING = {"max_tokens", "cpu", "base_domains"}  # options that do not change results, or count anyway
_OF_BASELINES = {"baselines", "baseline_topics", "coherence", "lines", "min_count", "topic_words"}


class TopicsRecipe(LanguageModelRecipe[Topics]):
    """Topic models that adapt a language model."""

    experiment_type = Topics
    measuring = "topics"
    page_version = 8

    def measure(self) -> list[Step]:
        """Return the steps that measure each run and the baselines of each domain."""
        steps = [self._measure_run(run) for run in self.experiment.all_runs]
        domains = self.experiment.domains if self.experiment.topics.baselines else []
        return [*steps, *(self._measure_baselines(domain) for domain in domains)]

    def _measure_run(self, run: Run) -> Step:
        config, work_dir = self.experiment, self.experiment.work_dir

        def build(folder: Path) -> None:
            # Loads fairseq.
            from fairseq_ext.experiments.topics.measure import measure_run

            measure_run(folder, config, run)

        domains = config.domains_of(run.system.name)
        texts = [text_path(work_dir / "splits", name, "test") for name in domains]
        pieces = [text_path(work_dir / "encoded", name, "train") for name in domains]
        options = {
            "version": _VERSION,
            "domains": domains,
            "base_domains": config.base_domains,
            "tokens_per_sample": config.tokens_per_sample,
            "evaluation": config.topics.model_dump(mode="json", exclude=_NOT_MEASURING),
            "seed": config.seed,
        }
        inputs = [checkpoint_of(config, run), work_dir / DATA_DIR, *texts, *pieces]
        return Step(config.topics_file(run).parent, inputs, options, build)

    def _measure_baselines(self, domain: str) -> Step:
        config, work_dir = self.experiment, self.experiment.work_dir

        def measure() -> Iterator[Record]:
            # Loads gensim.
            from fairseq_ext.experiments.topics.measure import measure_baselines

            return measure_baselines(config, domain)

        options = config.topics.model_dump(mode="json", include=_OF_BASELINES)
        pieces = text_path(work_dir / "encoded", domain, "train")
        spellings = [work_dir / DATA_DIR / TOKENIZER_FILE] if config.base else []
        options |= {"version": _VERSION, "seed": config.seed, "domain": domain}
        return measure_step(work_dir / "topic-baselines" / domain, [pieces, *spellings], options, measure)

    def page_files(self) -> Sequence[Path]:
        """Return the files of the topics of all runs."""
        return [self.experiment.topics_file(run) for run in self.experiment.all_runs]

    def page(self, records: Records) -> Page:
        """Make the page of tables of the Topic Aware Transformer paper, and of the topics."""
        return page(self.experiment, records)


RECIPE = TopicsRecipe
