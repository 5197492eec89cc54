"""A whole experiment with word language models, from text and word vectors to its report, as stages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fairseq_ext.engine.stages import Stage, check_stage_names
from fairseq_ext.engine.steps import Step
from fairseq_ext.engine.tasks import Engine
from fairseq_ext.experiments.kinds import Kind
from fairseq_ext.experiments.systems import Run
from fairseq_ext.experiments.tuning import steps_of_runs
from fairseq_ext.experiments.word_lm.config import WordLmExperiment, read

_THIS_MACHINE = Engine()


def stages_of(config: WordLmExperiment) -> list[Stage]:
    """The stages of an experiment, in order: every system is one, under its own name.

    Raises:
        InputError: if a system is named like another stage.
    """
    stages = [
        Stage("prepare", partial(_preparation, config)),
        *(Stage(name, partial(_training, config, runs), trains=True) for name, runs in config.runs.items()),
        *([Stage("kneser-ney", partial(_ngrams, config))] if config.kneser_ney else []),
        Stage("evaluate", partial(_perplexities, config)),
        Stage("report", partial(_report, config)),
    ]
    return check_stage_names(stages, f"{config.path}: train: systems")


# The libraries of a stage can take seconds to import; only where it is used it pays.


def _preparation(config: WordLmExperiment, engine: Engine = _THIS_MACHINE) -> list[Step]:
    from fairseq_ext.experiments.word_lm.prepare import preparation_steps

    return preparation_steps(config)


def _training(config: WordLmExperiment, runs: Sequence[Run]) -> list[Step]:
    from fairseq_ext.experiments.word_lm.train import training_step

    return steps_of_runs(config, runs, partial(training_step, config))


def _ngrams(config: WordLmExperiment) -> list[Step]:
    from fairseq_ext.experiments.word_lm.train import kneser_ney_step

    return [kneser_ney_step(config, config.kneser_ney)] if config.kneser_ney else []


def _perplexities(config: WordLmExperiment) -> list[Step]:
    from fairseq_ext.experiments.word_lm.evaluate import ngram_perplexity_step, perplexity_step

    steps = [perplexity_step(config, run) for run in config.all_runs]
    return [*steps, *([ngram_perplexity_step(config)] if config.kneser_ney else [])]


def _report(config: WordLmExperiment) -> list[Step]:
    from fairseq_ext.experiments.word_lm.report import report_step

    return [report_step(config)]


KIND = Kind(read, _preparation, stages_of)
