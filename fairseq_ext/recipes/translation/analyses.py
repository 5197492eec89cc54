"""Analyses of an experiment, as records: distances between domains, gates, parameters, speed. Shares are in percent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from fairseq_ext.corpora.text_files import read_lines
from fairseq_ext.engine.steps import Step
from fairseq_ext.inputs.domain_names import DOMAINS_FILE
from fairseq_ext.metrics.records import RECORDS_FILE, Record, write_records
from fairseq_ext.recipes.report import measure_step
from fairseq_ext.recipes.train import best_checkpoint
from fairseq_ext.recipes.translation.config import Translation
from fairseq_ext.recipes.translation.decoding import GATES_FILE, decoding, translation_dir
from fairseq_ext.recipes.translation.gates import ClassifiedSentences, gate_records, read_gates
from fairseq_ext.recipes.translation.speed import ROUNDS, Timing, describe_machine, time_classifier, time_outputs

# Metrics.
PARAMETERS, TRAINED = "parameters", "trained parameters"
SENTENCES_PER_SECOND, TOKENS_PER_SECOND = "sentences per second", "tokens per second"
MACHINE_FILE = "machine.txt"
ANALYSES = ("distances", "gates", "parameters", "speed")
_VERSION = 2


def analysis_steps(config: Translation) -> dict[str, Step]:
    """By name the steps of those of :data:`ANALYSES` for which the experiment has what they need."""
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
            layers, weights = read_gates(path, len(sentences.labels), len(sentences.domains))
            yield from gate_records(run, layers, weights, sentences)

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
    inputs, outputs = {splits}, {}
    for name in config.evaluate.speed:
        runs = config.output_runs(name)
        by_domain = {run.run.domain: run for run in runs if run.run.domain} or dict.fromkeys(config.domains, runs[0])
        made = {domain: decoding(config, run) for domain, run in by_domain.items()}
        outputs[name] = {domain: [str(data), *command.arguments] for domain, (_, command) in made.items()}
        inputs |= {path for paths, _ in made.values() for path in paths}
    routed = [name for name in outputs if config.outputs[name].uses_classifier]

    def build(folder: Path) -> None:
        timings = time_outputs(folder / "logs", outputs)
        texts = {domain: read_lines(splits / domain / f"test.{config.source_lang}") for domain in config.domains}
        classifier = time_classifier(teacher, texts) if routed else {}
        on_cpu = all("--cpu" in arguments for output in outputs.values() for arguments in output.values())
        (folder / MACHINE_FILE).write_text(describe_machine(on_cpu) + "\n", encoding="utf-8")
        records = [speed_records(name, found, classifier if name in routed else {}) for name, found in timings.items()]
        write_records(folder / RECORDS_FILE, chain.from_iterable(records))

    options = {name: config.outputs[name].options for name in outputs}
    given = {"version": _VERSION, "rounds": ROUNDS, "outputs": options}
    return Step(analysis_dir(config, "speed"), sorted(inputs), given, build, resumable=True)


def speed_records(output: str, timings: Mapping[str, Timing], classifier: Mapping[str, float]) -> Iterator[Record]:
    """Sentences and tokens per second of a decoding run; ``classifier`` are the seconds that it adds by domain."""
    seconds = sum(timing.seconds + classifier.get(domain, 0) for domain, timing in timings.items())
    sentences = sum(timing.sentences for timing in timings.values())
    tokens = sum(timing.tokens for timing in timings.values())
    yield Record(system=output, metric=SENTENCES_PER_SECOND, value=sentences / seconds)
    yield Record(system=output, metric=TOKENS_PER_SECOND, value=tokens / seconds)
