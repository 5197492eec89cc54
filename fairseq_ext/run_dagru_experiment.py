"""A whole experiment with word language models, from text and word vectors to its report, as stages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fairseq_ext.engine.stages import Stage, check_stage_names, run_chosen, stage_parser
from fairseq_ext.engine.steps import Step
from fairseq_ext.experiment.word_lm_config import WordLmExperiment, load_word_lm_config, word_runs_of


def word_lm_stages_of(config: WordLmExperiment) -> list[Stage]:
    """The stages of an experiment, in order: every system is one, under its own name.

    Raises:
        InputError: if a system is named like another stage, or the file is wrong in what it says of systems.
    """
    systems = dict.fromkeys(run.system.name for run in word_runs_of(config))
    stages = [
        Stage("prepare", partial(_preparation, config)),
        *(Stage(name, partial(_training, config, name)) for name in systems),
        *([Stage("kneser-ney", partial(_ngrams, config))] if config.kneser_ney else []),
        Stage("evaluate", partial(_perplexities, config)),
        Stage("report", partial(_report, config)),
    ]
    return check_stage_names(stages, f"{config.path}: train: systems")


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/run_dagru_experiment.sh``."""
    parser = stage_parser(
        "scripts/run_dagru_experiment.sh",
        "Run an experiment with word language models from its text to its report. Its stages are prepare, every system "
        "by its name, kneser-ney, evaluate and report. What is finished is not done again; stop the command as you "
        "like and start it again.",
    )
    options = parser.parse_args(arguments)
    run_chosen(word_lm_stages_of(load_word_lm_config(options.config)), options)


# The libraries of a stage can take seconds to import; only where it is used it pays.


def _preparation(config: WordLmExperiment) -> list[Step]:
    from fairseq_ext.preparation.word_lm_prepare import word_lm_preparation_steps

    return word_lm_preparation_steps(config)


def _training(config: WordLmExperiment, name: str) -> list[Step]:
    from fairseq_ext.pipeline.word_lm_training import word_lm_training_step

    return [word_lm_training_step(config, run) for run in word_runs_of(config) if run.system.name == name]


def _ngrams(config: WordLmExperiment) -> list[Step]:
    from fairseq_ext.pipeline.word_lm_training import kneser_ney_step

    return [kneser_ney_step(config, config.kneser_ney)] if config.kneser_ney else []


def _perplexities(config: WordLmExperiment) -> list[Step]:
    from fairseq_ext.evaluation.word_perplexity_steps import ngram_perplexity_step, word_perplexity_step

    steps = [word_perplexity_step(config, run) for run in word_runs_of(config)]
    return [*steps, *([ngram_perplexity_step(config)] if config.kneser_ney else [])]


def _report(config: WordLmExperiment) -> list[Step]:
    from fairseq_ext.report.word_lm_build import word_lm_report_step

    return [word_lm_report_step(config)]


if __name__ == "__main__":
    main()
