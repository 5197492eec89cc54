"""The analyses of an experiment as steps: distances of the domains, gates, parameters, speed.

Each is a directory ``analysis/NAME`` of its own with ``NAME.json`` in it, so that a change of what one depends on does
not repeat the others, of which speed is the slow one.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairseq_ext.domains.names import DOMAINS_FILE, read_domain_names
from fairseq_ext.engine.steps import Step, add_step_options, run_steps
from fairseq_ext.experiments.translation.config import load_config
from fairseq_ext.experiments.translation.experiment import TranslationExperiment
from fairseq_ext.experiments.translation.extra_sets import sets_dir, translations_dir
from fairseq_ext.experiments.translation.outputs import OutputRun
from fairseq_ext.experiments.translation.speed import ROUNDS, TimedOutput, write_speed
from fairseq_ext.experiments.translation.translate import GATES_FILE, how_to_make, translation_dir
from fairseq_ext.inputs.errors import InputError, run_command
from fairseq_ext.recipes.train import best_checkpoint

NAMES = ("distances", "gates", "joined", "parameters", "speed")


def analysis_steps(config: TranslationExperiment) -> list[Step]:
    """The steps of all analyses that the experiment gives reason for.

    ``gates`` wants an output with ``gates: true``, ``joined`` one and ``evaluate: joined``, ``parameters`` a
    system, ``speed`` what ``evaluate: speed`` names.
    """
    return [step for steps in _steps_by_name(config).values() for step in steps]


def _steps_by_name(config: TranslationExperiment) -> dict[str, list[Step]]:
    """The steps of each analysis, of which the last is its own."""
    steps = {"distances": [distances_step(config)]} if len(config.domains) > 1 else {}
    if _gated_runs(config):
        steps["gates"] = [gates_step(config)]
    if _gated_runs(config) and config.evaluate.joined:
        steps["joined"] = [joined_step(config)]
    if config.systems:
        steps["parameters"] = [parameters_step(config)]
    if config.evaluate.speed:
        steps["speed"] = [speed_step(config)]
    return steps


def distances_step(config: TranslationExperiment) -> Step:
    """The step that measures how far apart the domains are."""
    splits = config.work_dir / "splits"
    model = Path(config.evaluate.distance_model) if config.evaluate.distance_model else None
    options = {"lang": config.source_lang, "seed": config.seed, "sentences": config.evaluate.distance_sentences}

    def build(folder: Path) -> None:
        # scikit-learn takes a second to load; a step that is up to date does without.
        from fairseq_ext.experiments.translation.distances import write_distances

        write_distances(folder, splits, **options, model=model)  # type: ignore[arg-type]

    inputs = [splits, *([model] if model else [])]
    return Step(_folder(config, "distances"), inputs=inputs, options=options, build=build)


def gates_step(config: TranslationExperiment) -> Step:
    """The step that says what the gates of all outputs with ``gates: true`` decided."""
    from fairseq_ext.experiments.translation.gates import ClassifiedSentences, write_gates

    paths = {name: translation_dir(config, name) / GATES_FILE for name in _gated_runs(config)}
    splits, teacher = config.work_dir / "splits", config.work_dir / "teacher"

    def build(folder: Path) -> None:
        write_gates(folder, paths, ClassifiedSentences.read(splits, teacher))

    inputs = [splits / DOMAINS_FILE, teacher, *paths.values()]
    return Step(_folder(config, "gates"), inputs=inputs, options={"runs": list(paths)}, build=build)


def joined_step(config: TranslationExperiment) -> Step:
    """The step that says how gates go with sentences whose domain changes in the middle."""
    from fairseq_ext.experiments.translation.joined import write_joined

    splits, sets = config.work_dir / "splits", sets_dir(config)
    paths = {name: translations_dir(config, name) for name in _gated_runs(config)}

    def build(folder: Path) -> None:
        write_joined(folder, paths, read_domain_names(splits / DOMAINS_FILE), sets, config.source_lang)

    inputs = [splits / DOMAINS_FILE, sets, *paths.values()]
    return Step(_folder(config, "joined"), inputs=inputs, options={"runs": list(paths)}, build=build)


def _gated_runs(config: TranslationExperiment) -> list[str]:
    """The output runs that report gates, but for those of single domains."""
    return [run.name for run in config.all_output_runs() if run.output.gates and run.run.domain is None]


def parameters_step(config: TranslationExperiment) -> Step:
    """The step that counts the parameters of all runs."""
    runs = [run for name in config.systems for run in config.runs(name)]
    data = {run.name: run.system.data or config.work_dir / "data-bin" for run in runs}
    checkpoints = {run.name: best_checkpoint(config, run.name) for run in runs}

    def build(folder: Path) -> None:
        # Loads fairseq.
        from fairseq_ext.experiments.translation.parameters import write_parameters

        write_parameters(folder, checkpoints, data)

    # The data give no more than the names of the symbols; a checkpoint that they do not fit is refused.
    inputs = list(checkpoints.values())
    return Step(_folder(config, "parameters"), inputs=inputs, options={"runs": list(checkpoints)}, build=build)


def speed_step(config: TranslationExperiment) -> Step:
    """The step that times the outputs under ``evaluate: speed``.

    Of a system with several seeds the first run is timed, of one with a run a domain each on its own. Timings are no
    function of the inputs: for given checkpoints and options they are taken once.
    """
    data, splits, teacher = (config.work_dir / name for name in ("data-bin", "splits", "teacher"))
    inputs = {splits}
    outputs: dict[str, TimedOutput] = {}
    options: dict[str, Any] = {}
    for name in config.evaluate.speed:
        made = {domain: how_to_make(config, run) for domain, run in _run_by_domain(config, name).items()}
        output = config.outputs[name]
        arguments = {domain: [str(data), *each.arguments] for domain, each in made.items()}
        outputs[name] = TimedOutput(arguments, uses_classifier=output.uses_classifier)
        options[name] = output.options
        inputs |= {path for each in made.values() for path in each.inputs}

    def build(folder: Path) -> None:
        write_speed(folder, outputs, splits=splits, teacher=teacher, lang=config.source_lang)

    return Step(_folder(config, "speed"), sorted(inputs), {"rounds": ROUNDS, "outputs": options}, build, resumable=True)


def _run_by_domain(config: TranslationExperiment, name: str) -> dict[str, OutputRun]:
    """Which run of an output translates each domain."""
    runs = config.output_runs(name)
    if all(run.run.domain for run in runs):
        return {str(run.run.domain): run for run in runs}
    return dict.fromkeys(config.domains, runs[0])


def _folder(config: TranslationExperiment, name: str) -> Path:
    return config.work_dir / "analysis" / name


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/analyse.sh``."""
    parser = argparse.ArgumentParser(
        prog="scripts/analyse.sh",
        description="Analyse a trained and translated experiment: distances between its domains, what the gates "
        "decided, parameters, speed. Each writes analysis/NAME/NAME.json. What "
        "is up to date is not made again.",
    )
    parser.add_argument("config", type=Path, help="experiment file (YAML), see configs/")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)} (default: all)")
    add_step_options(parser)
    options = parser.parse_args(arguments)
    run_steps(chosen_steps(load_config(options.config), options.names), dry_run=options.dry_run)


def chosen_steps(config: TranslationExperiment, names: Sequence[str]) -> list[Step]:
    """The analyses of these names, or all of the experiment's.

    Raises:
        InputError: if there is no such analysis, or the experiment gives it nothing to do.
    """
    steps = _steps_by_name(config)
    for name in names:
        if name not in NAMES:
            raise InputError(f"no analysis {name!r}; there are {', '.join(NAMES)}")
        if name not in steps:
            reason = {
                "distances": "there is one domain",
                "gates": "no output under translate: outputs has gates: true",
                "joined": "evaluate: joined is 0, or no output has gates: true",
                "parameters": "train: systems is empty",
                "speed": "evaluate: speed names no output",
            }[name]
            raise InputError(f"{config.path}: {name}: nothing to analyse, {reason}")
    return [step for name in names or steps for step in steps[name]]


if __name__ == "__main__":
    run_command(main)
