"""Training the word language models of an experiment, and its n-gram model: as steps."""

from __future__ import annotations

from pathlib import Path

from fairseq_ext.engine.fairseq_cli import as_arguments, option_of
from fairseq_ext.engine.steps import Step
from fairseq_ext.experiments.systems import Run
from fairseq_ext.experiments.training import train_step
from fairseq_ext.experiments.word_lm.config import KneserNeyBaseline, WordLmExperiment
from fairseq_ext.experiments.word_lm.prepare import DATA_DIR, text_file, vectors_file

TASK = "contiguous_language_modeling"
KNESER_NEY = "kneser-ney"
ARPA_FILE = "model.arpa"
_VECTORS_VERSION = 2  # 1: as they are in their file
_NGRAM_VERSION = 2


def training_step(config: WordLmExperiment, run: Run) -> Step:
    """The step that trains one run."""
    inputs, vectors = [config.work_dir / DATA_DIR], {}
    options = {key: value for key, value in run.system.options.items() if key.replace("_", "-") != "word-vectors"}
    arguments = ["--task", TASK, "--seed", str(run.seed), "--no-epoch-checkpoints", *as_arguments(options)]
    file = option_of(run.system.options, "word-vectors")
    if file:
        # What counts is what has been cut out of the file, not where it lies.
        inputs.append(vectors_file(config, Path(file)))
        arguments += ["--word-vectors", str(inputs[-1])]
        vectors = {"vectors": _VECTORS_VERSION}
    return train_step(config, run, inputs, arguments, {"system": options, "seed": run.seed, **vectors})


def kneser_ney_step(config: WordLmExperiment, baseline: KneserNeyBaseline) -> Step:
    """The step that trains the n-gram model."""
    text, valid = text_file(config.work_dir, "train"), text_file(config.work_dir, "valid")
    held_out = valid if baseline.discounts == "held-out" else None

    def build(folder: Path) -> None:
        from fairseq_ext.reranking.kneser_ney import train_kneser_ney

        train_kneser_ney(text, folder / ARPA_FILE, order=baseline.order, held_out=held_out)

    return Step(
        config.work_dir / KNESER_NEY,
        [text, *([held_out] if held_out else [])],
        {"version": _NGRAM_VERSION, "order": baseline.order, "discounts": baseline.discounts},
        build,
    )
