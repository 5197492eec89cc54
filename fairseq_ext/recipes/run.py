"""A whole experiment of any recipe, from its corpora to its report: the command of ``scripts/run_experiment.sh``."""

from __future__ import annotations

from collections.abc import Sequence

from fairseq_ext.engine.stages import run_chosen, stage_parser
from fairseq_ext.inputs.errors import run_command
from fairseq_ext.recipes.registry import load_experiment, recipe_names


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
    run_chosen(recipe.stages(experiment), options)


if __name__ == "__main__":
    run_command(main)
