"""A whole experiment of any kind, from its corpora to its report: the command of ``scripts/run_experiment.sh``."""

from __future__ import annotations

from collections.abc import Sequence

from fairseq_ext.engine.stages import run_chosen, stage_parser
from fairseq_ext.experiments.kinds import kind_names, load_experiment
from fairseq_ext.inputs.errors import run_command


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the stages of an experiment that a command line asks for."""
    parser = stage_parser(
        "scripts/run_experiment.sh",
        f"Run an experiment from its corpora to its report. Its kind ({', '.join(kind_names())}) is said in its file "
        "and decides its stages, which --dry-run lists; every system is one, by its name. What is finished is not done "
        "again; stop the command as you like and start it again.",
    )
    options = parser.parse_args(arguments)
    kind, experiment = load_experiment(options.config)
    run_chosen(kind.stages(experiment), options)


if __name__ == "__main__":
    run_command(main)
