"""The data of an experiment of any recipe, as steps: the command of ``data-prep/prepare.py``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from fairseq_ext.engine.steps import Step, add_step_options, run_steps
from fairseq_ext.engine.tasks import add_engine_options, engine_from
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.registry import load_experiment


def main(arguments: Sequence[str] | None = None) -> None:
    """Prepare the data of an experiment.

    Raises:
        InputError: naming the option, or the file and key, that cannot be used.
    """
    parser = argparse.ArgumentParser(
        description="Prepare an experiment's data: import, filter, hold out, subwords, numbers for fairseq. "
        "Finished steps are not run again.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("config", type=Path, help="experiment file (YAML), see configs/")
    add_step_options(parser)
    parser.add_argument("--to", metavar="STEP", help="stop after this step, for instance splits (default: the last)")
    add_engine_options(parser)
    options = parser.parse_args(arguments)
    engine = engine_from(options)
    recipe, experiment = load_experiment(options.config)
    steps = recipe.prepare(experiment, engine)
    run_steps(_up_to(steps, options.to), dry_run=options.dry_run)


def _up_to(steps: list[Step], last: str | None) -> list[Step]:
    names = [step.output.name for step in steps]
    if last is not None and last not in names:
        raise InputError(f"--to: {last!r} is no step; choose one of {', '.join(names)}")
    return steps[: names.index(last) + 1] if last else steps
