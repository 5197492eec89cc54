"""The steps that measure the word language models of an experiment: ``perplexity/RUN/perplexity.json``.

A record has by set, ``valid`` and ``test``, the negative log-likelihood in ``nats`` and the number of ``tokens``, every
word and one end a line; and ``parameters``, those of a neural model, or the number of n-grams.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from fairseq_ext.engine.steps import Step
from fairseq_ext.experiments.systems import Run
from fairseq_ext.experiments.training import best_checkpoint
from fairseq_ext.experiments.word_lm.config import WordLmExperiment
from fairseq_ext.experiments.word_lm.prepare import DATA_DIR, text_file
from fairseq_ext.experiments.word_lm.train import ARPA_FILE, KNESER_NEY
from fairseq_ext.text.split import HELD_OUT

PERPLEXITY_FILE = "perplexity.json"
_VERSION = 1


def perplexity_step(config: WordLmExperiment, run: Run) -> Step:
    """The step that measures a trained run."""
    checkpoint, data = best_checkpoint(config, run.name), config.work_dir / DATA_DIR

    def build(folder: Path) -> None:
        # Loads fairseq.
        from fairseq_ext.metrics.word_perplexity import ContiguousScorer

        scorer = ContiguousScorer.load(checkpoint, data, cpu=config.evaluate.cpu)
        found = {split: scorer.score(split) for split in HELD_OUT}
        sets = {split: (likelihood.nats, likelihood.tokens) for split, likelihood in found.items()}
        _write(folder, sets, scorer.num_parameters)

    return Step(_folder(config, run.name), [checkpoint, data], {"version": _VERSION}, build)


def ngram_perplexity_step(config: WordLmExperiment) -> Step:
    """The step that measures the n-gram model."""
    arpa = config.work_dir / KNESER_NEY / ARPA_FILE
    texts = {split: text_file(config.work_dir, split) for split in HELD_OUT}

    def build(folder: Path) -> None:
        from fairseq_ext.reranking.kneser_ney import count_ngrams, likelihood

        _write(folder, {split: likelihood(arpa, text) for split, text in texts.items()}, count_ngrams(arpa))

    return Step(_folder(config, KNESER_NEY), [arpa, *texts.values()], {"version": _VERSION}, build)


def _folder(config: WordLmExperiment, run: str) -> Path:
    return config.work_dir / "perplexity" / run


def _write(folder: Path, sets: Mapping[str, tuple[float, int]], parameters: int) -> None:
    record = {
        "sets": {split: {"nats": nats, "tokens": tokens} for split, (nats, tokens) in sets.items()},
        "parameters": parameters,
    }
    (folder / PERPLEXITY_FILE).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
