"""A whole experiment of any recipe, from its corpora to its report: the command of ``scripts/run_experiment.sh``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from fairseq_ext.engine.stages import run_chosen, stage_parser
from fairseq_ext.engine.tasks import Engine
from fairseq_ext.inputs.errors import run_command
from fairseq_ext.recipes.registry import load_experiment, recipe_names

PREPARE = "prepare"  # the stage that every recipe begins with


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the stages of an experiment that a command line asks for."""
    parser = stage_parser(
        "scripts/run_experiment.sh",
        "Run an experiment from its corpora to its report. Its recipe is named by kind in its file "
        f"({', '.join(recipe_names())}); --dry-run lists its stages, and every system is a stage of its name. Finished "
        "steps are not run again: stop the command as you like and start it again.",
    )
    options = parser.parse_args(arguments)
    recipe, experiment = load_experiment(options.config)
    stages = recipe.stages(experiment)
    if options.scheduler:
        # Its steps stay here, and share their work among the cluster's workers.
        prepare = partial(recipe.prepare, experiment, Engine(scheduler=options.scheduler))
        stages = [replace(each, steps=prepare, spreads=True) if each.name == PREPARE else each for each in stages]
    run_chosen(stages, options)


if __name__ == "__main__":
    run_command(main)
