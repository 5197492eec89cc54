"""A whole experiment with language models, from text by domain to its report, as stages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fairseq_ext.engine.stages import Stage, check_stage_names, run_chosen, stage_parser
from fairseq_ext.engine.steps import Step
from fairseq_ext.errors import InputError
from fairseq_ext.experiment.language_models import (
    all_lm_runs,
    evaluation_of,
    language_models_of,
    lm_runs_of,
    needs_induced_tree,
    trees_of,
)
from fairseq_ext.experiment.lm_config import LanguageModelExperiment, load_lm_config
from fairseq_ext.experiment.topic_models import topic_evaluation_of, topic_systems_of


def lm_stages_of(config: LanguageModelExperiment) -> list[Stage]:
    """The stages of an experiment, in order: every system is one, under its own name.

    Systems that need an induced tree come behind the stage ``tree``, those that it is induced from before it. An
    experiment with topic models has no trees; ``topics`` measures its systems.

    Raises:
        InputError: if a system is named like another stage, or the file is wrong in what it says of systems and trees.
    """
    models = language_models_of(config)
    if config.topics is not None:
        return check_stage_names(_topic_stages(config, list(models)), f"{config.path}: train: systems")
    evaluation_of(config)
    for tree in trees_of(config).values():
        if tree.is_induced and needs_induced_tree(config, str(tree.system)):
            raise InputError(f"{config.path}: tree: {tree.name}: system: {tree.system!r} needs an induced tree itself")
    late = [name for name in models if needs_induced_tree(config, name)]
    early = [name for name in models if name not in late]
    after = {"paths": _paths, "evaluate": _perplexities, "report": _report}
    stages = [
        Stage("prepare", partial(_preparation, config)),
        *(Stage(name, partial(_training, config, name)) for name in early),
        Stage("tree", partial(_trees, config)),
        *(Stage(name, partial(_training, config, name)) for name in late),
        *(Stage(name, partial(make, config)) for name, make in after.items()),
    ]
    return check_stage_names(stages, f"{config.path}: train: systems")


def _topic_stages(config: LanguageModelExperiment, systems: Sequence[str]) -> list[Stage]:
    topic_evaluation_of(config)
    topic_systems_of(config)
    return [
        Stage("prepare", partial(_preparation, config)),
        *(Stage(name, partial(_training, config, name)) for name in systems),
        Stage("topics", partial(_topics, config)),
        Stage("report", partial(_topic_report, config)),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/run_lm_experiment.sh``."""
    parser = stage_parser(
        "scripts/run_lm_experiment.sh",
        "Run an experiment with language models from its text to its report. Its stages are prepare, every system by "
        "its name, tree (before the systems that need an induced tree), paths, evaluate and report; with topic models "
        "prepare, every system, topics and report. What is finished is not done again; stop the command as you like "
        "and start it again.",
    )
    options = parser.parse_args(arguments)
    run_chosen(lm_stages_of(load_lm_config(options.config)), options)


# The libraries of a stage can take seconds to import; only where it is used it pays.


def _preparation(config: LanguageModelExperiment) -> list[Step]:
    from fairseq_ext.preparation.lm_prepare import lm_preparation_steps

    return lm_preparation_steps(config)


def _training(config: LanguageModelExperiment, name: str) -> list[Step]:
    from fairseq_ext.pipeline.lm_training import lm_training_step

    steps = [lm_training_step(config, run) for run in lm_runs_of(config, name)]
    return [step for step in steps if step is not None]


def _trees(config: LanguageModelExperiment) -> list[Step]:
    from fairseq_ext.pipeline.lm_training import tree_step

    return [tree_step(config, tree) for tree in trees_of(config).values() if tree.is_induced]


def _paths(config: LanguageModelExperiment) -> list[Step]:
    from fairseq_ext.pipeline.lm_training import paths_step

    if not config.corpora.unseen:
        return []
    return [paths_step(config, tree) for tree in trees_of(config).values() if tree.is_induced]


def _perplexities(config: LanguageModelExperiment) -> list[Step]:
    from fairseq_ext.evaluation.perplexity_steps import perplexity_step

    return [perplexity_step(config, run) for run in all_lm_runs(config)]


def _report(config: LanguageModelExperiment) -> list[Step]:
    from fairseq_ext.report.lm_build import lm_report_step

    return [lm_report_step(config)]


def _topics(config: LanguageModelExperiment) -> list[Step]:
    from fairseq_ext.topics.topic_steps import topic_steps

    return topic_steps(config, all_lm_runs(config))


def _topic_report(config: LanguageModelExperiment) -> list[Step]:
    from fairseq_ext.report.topic_build import topic_report_step

    return [topic_report_step(config)]


if __name__ == "__main__":
    main()
