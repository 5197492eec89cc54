"""A whole translation experiment, from corpora to its report, as stages."""

from __future__ import annotations

from functools import partial

from fairseq_ext.engine.stages import Stage, check_stage_names
from fairseq_ext.engine.steps import Step
from fairseq_ext.engine.tasks import Engine
from fairseq_ext.experiments.kinds import Kind
from fairseq_ext.experiments.translation.config import read_config
from fairseq_ext.experiments.translation.experiment import TranslationExperiment
from fairseq_ext.experiments.translation.train import run_steps_of
from fairseq_ext.inputs.errors import InputError

_THIS_MACHINE = Engine()


def stages_of(config: TranslationExperiment) -> list[Stage]:
    """The stages of an experiment, in order: every system is one, under its own name.

    Raises:
        InputError: if a system is named like another stage.
    """
    before = {"prepare": _prepare, "teacher": _teacher}
    after = {"translate": _translation, "score": _scores, "analyse": _analyses, "report": _report}
    stages = [
        *(Stage(name, partial(make, config)) for name, make in before.items()),
        *(Stage(name, partial(_training, config, name), trains=True) for name in config.systems),
        *(Stage(name, partial(make, config)) for name, make in after.items()),
    ]
    return check_stage_names(stages, f"{config.path}: train: systems")


# The libraries of a stage can take seconds to import; only where it is used it pays.


def _teacher(config: TranslationExperiment) -> list[Step]:
    from fairseq_ext.experiments.translation.teacher import teacher_steps

    if len(config.domains) == 1:
        _check_needs_none(config)
        return []  # there is nothing to tell apart
    # The steps before the last are the stage prepare's.
    return teacher_steps(config)[-1:]


def _check_needs_none(config: TranslationExperiment) -> None:
    """Check that nothing needs a classifier, where there is none."""
    systems = [f"train: systems: {name}" for name, system in config.systems.items() if system.uses_teacher]
    outputs = [f"translate: outputs: {name}" for name, output in config.outputs.items() if output.uses_classifier]
    for name in [*systems, *outputs]:
        raise InputError(f"{config.path}: {name}: needs a classifier of domains, but there is one domain; leave it out")


def _training(config: TranslationExperiment, name: str) -> list[Step]:
    runs = config.runs(name)
    steps = [step for run in runs for step in run_steps_of(config, run, runs)]
    return list({step.output: step for step in steps}.values())  # several runs may share labels


def _translation(config: TranslationExperiment) -> list[Step]:
    from fairseq_ext.experiments.translation.examples import examples_step
    from fairseq_ext.experiments.translation.extra_sets import extra_set_steps
    from fairseq_ext.experiments.translation.translate import translation_steps

    steps = [step for name in config.outputs for step in translation_steps(config, name)]
    examples = [examples_step(config)] if config.examples else []
    return [*steps, *extra_set_steps(config), *examples]


def _scores(config: TranslationExperiment) -> list[Step]:
    from fairseq_ext.experiments.translation.scores import scoring_step

    return [scoring_step(config)] if config.outputs else []


def _analyses(config: TranslationExperiment) -> list[Step]:
    from fairseq_ext.experiments.translation.analyses import analysis_steps

    return analysis_steps(config)


def _report(config: TranslationExperiment) -> list[Step]:
    from fairseq_ext.experiments.translation.report import report_step

    return [report_step(config)]


def _prepare(config: TranslationExperiment, engine: Engine = _THIS_MACHINE) -> list[Step]:
    from fairseq_ext.experiments.translation.prepare import preparation_steps

    return preparation_steps(config, engine)


KIND = Kind(read_config, _prepare, stages_of)
