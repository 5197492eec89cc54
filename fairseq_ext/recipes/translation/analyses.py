"""Analyses of an experiment, as records: distances between domains, gates, parameters, speed. Shares are in percent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_ext.engine.steps import Step
from fairseq_ext.inputs.domain_names import DOMAINS_FILE
from fairseq_ext.metrics.records import RECORDS_FILE, Record, write_records
from fairseq_ext.recipes.report import measure_step
from fairseq_ext.recipes.train import best_checkpoint
from fairseq_ext.recipes.translation.config import Translation
from fairseq_ext.recipes.translation.decoding import GATES_FILE, decoding, translation_dir
from fairseq_ext.recipes.translation.gates import ClassifiedSentences, gate_records, read_gates
from fairseq_ext.recipes.translation.sections import OutputRun
from fairseq_ext.recipes.translation.speed import ROUNDS, TimedOutput, describe_machine, measure_speed

# Metrics.
PARAMETERS, TRAINED = "parameters", "trained parameters"
SENTENCES_PER_SECOND, TOKENS_PER_SECOND = "sentences per second", "tokens per second"
DECODING_SECONDS, CLASSIFIER_SECONDS = "seconds", "the classifier's seconds"
MACHINE_FILE = "machine.txt"
ANALYSES = ("distances", "gates", "parameters", "speed")
_VERSION = 2


def analysis_steps(config: Translation) -> dict[str, Step]:
    """The steps of the analyses that the experiment gives reason for, by name, of :data:`ANALYSES`."""
    steps = {"distances": distances_step(config)} if len(config.domains) > 1 else {}
    if config.gated_runs:
        steps["gates"] = gates_step(config)
    if config.systems:
        steps["parameters"] = parameters_step(config)
    if config.evaluate.speed:
        steps["speed"] = speed_step(config)
    return steps


def analysis_dir(config: Translation, name: str) -> Path:
    """Where an analysis is written."""
    return config.work_dir / "analysis" / name


def distances_step(config: Translation) -> Step:
    """The step that measures how far apart the domains are: D×D distances."""
    splits, sentences = config.work_dir / "splits", config.evaluate.distance_sentences
    given: dict[str, Any] = {"lang": config.source_lang, "seed": config.seed, "sentences": sentences}

    def measure() -> Iterator[Record]:
        # scikit-learn takes a second to load.
        from fairseq_ext.recipes.translation.distances import measure_distances

        domains, size, matrix = measure_distances(splits, **given)
        for domain, row in zip(domains, matrix.tolist(), strict=True):
            for other, value in zip(domains, row, strict=True):
                yield Record(domain=domain, metric=distance_to(other), value=value, n=size)

    return measure_step(analysis_dir(config, "distances"), [splits], {"version": _VERSION, **given}, measure)


def distance_to(domain: str) -> str:
    """The metric: the distance of a domain to another one."""
    return f"distance to {domain}"


def gates_step(config: Translation) -> Step:
    """The step that measures what the gates of all decoding runs with ``gates: true`` choose."""
    runs = {name: translation_dir(config, name) / GATES_FILE for name in config.gated_runs}
    splits, teacher = config.work_dir / "splits", config.work_dir / "teacher"

    def measure() -> Iterator[Record]:
        sentences = ClassifiedSentences.read(splits, teacher)
        for run, path in runs.items():
            gates = read_gates(path, len(sentences.labels), len(sentences.domains))
            yield from gate_records(run, gates, sentences)

    options = {"version": _VERSION, "runs": list(runs)}
    inputs = [splits / DOMAINS_FILE, teacher, *runs.values()]
    return measure_step(analysis_dir(config, "gates"), inputs, options, measure)


def parameters_step(config: Translation) -> Step:
    """The step that counts the parameters of all runs."""
    runs = config.all_runs
    checkpoints = {run.name: best_checkpoint(config, run.name) for run in runs}

    def measure() -> Iterator[Record]:
        for run in runs:
            total, trained = count_parameters(checkpoints[run.name], run.system.data or config.work_dir / "data-bin")
            of = partial(Record, system=run.system.name, run=run.name, seed=run.seed)
            yield of(metric=PARAMETERS, value=total)
            yield of(metric=TRAINED, value=trained)

    # The data give no more than the names of the symbols; a checkpoint that they do not fit is refused.
    options = {"version": _VERSION, "runs": list(checkpoints)}
    return measure_step(analysis_dir(config, "parameters"), list(checkpoints.values()), options, measure)


def count_parameters(checkpoint: Path, data: Path) -> tuple[int, int]:
    """Count all and trained parameters of a model; shared ones count once.

    The model is built from the checkpoint, because the file does not say which entries are shared, frozen or no
    parameters.
    """
    import fairseq  # noqa: F401  before the package's registrations
    from fairseq import checkpoint_utils

    from fairseq_ext import registration  # noqa: F401  the checkpoints' models and task

    models, _, _ = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], {"data": str(data)})
    sizes = {parameter: parameter.numel() for parameter in models[0].parameters()}
    return sum(sizes.values()), sum(size for parameter, size in sizes.items() if parameter.requires_grad)


def speed_step(config: Translation) -> Step:
    """The step that times the decoding runs of ``evaluate: speed``.

    Of a system with several seeds the first run is timed; of one with a run a domain, each on its domain. Timings are
    no function of the inputs: they are taken once for given checkpoints and options.
    """
    data, splits, teacher = (config.work_dir / name for name in ("data-bin", "splits", "teacher"))
    inputs, outputs, options = {splits}, {}, {}
    for name in config.evaluate.speed:
        made = {domain: decoding(config, run) for domain, run in _run_by_domain(config, name).items()}
        output = config.outputs[name]
        arguments = {domain: [str(data), *command.arguments] for domain, (_, command) in made.items()}
        outputs[name] = TimedOutput(arguments, uses_classifier=output.uses_classifier)
        options[name] = output.options
        inputs |= {path for paths, _ in made.values() for path in paths}

    def build(folder: Path) -> None:
        timings = measure_speed(folder, outputs, splits=splits, teacher=teacher, lang=config.source_lang)
        on_cpu = all("--cpu" in each for output in outputs.values() for each in output.arguments.values())
        (folder / MACHINE_FILE).write_text(describe_machine(on_cpu) + "\n", encoding="utf-8")
        write_records(folder / RECORDS_FILE, speed_records(timings))

    given = {"version": _VERSION, "rounds": ROUNDS, "outputs": options}
    return Step(analysis_dir(config, "speed"), sorted(inputs), given, build, resumable=True)


def speed_records(timings: Mapping[str, Mapping[str, Any]]) -> Iterator[Record]:
    """Sentences and tokens per second of decoding runs, and the seconds by domain."""
    for output, found in timings.items():
        of = partial(Record, system=output)
        yield of(metric=SENTENCES_PER_SECOND, value=found["sentences_per_second"])
        yield of(metric=TOKENS_PER_SECOND, value=found["tokens_per_second"])
        for metric, key in ((DECODING_SECONDS, "seconds"), (CLASSIFIER_SECONDS, "classifier_seconds")):
            seconds = {domain: part[key] for domain, part in found["domains"].items()}
            for domain, value in {**seconds, "": sum(seconds.values())}.items():
                yield of(domain=domain, metric=metric, value=value)


def _run_by_domain(config: Translation, name: str) -> dict[str, OutputRun]:
    """Which model of a decoding run translates each domain."""
    runs = config.output_runs(name)
    if all(run.run.domain for run in runs):
        return {str(run.run.domain): run for run in runs}
    return dict.fromkeys(config.domains, runs[0])
