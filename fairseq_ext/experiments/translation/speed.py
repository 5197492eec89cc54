"""Translation speed (Klimaszewski et al. 2023, Table 7): greedy, in batches of 64, one domain at a time.

Times are those that fairseq measures for decoding. They exclude loading, batching and writing. For outputs that take
the domain from the classifier, they include its time without loading.
"""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.fairseq_cli import run_fairseq
from fairseq_ext.base.processes import cores
from fairseq_ext.base.steps import Step
from fairseq_ext.classifiers.classifier import MODEL_FOLDER, load_classifier
from fairseq_ext.data.teacher_labels import read_teacher_record
from fairseq_ext.experiments.metrics.records import RECORDS_FILE, Record, write_rows
from fairseq_ext.experiments.translation.config import Translation
from fairseq_ext.experiments.translation.decoding import decoding
from fairseq_ext.text.text_files import read_lines

SENTENCES_PER_SECOND, TOKENS_PER_SECOND = "sentences per second", "tokens per second"  # metrics
MACHINE_FILE = "machine.txt"
ROUNDS = 2
METHOD = (
    f"greedy search in batches of 64, one domain at a time; the best of {ROUNDS} rounds, with the systems in turn; "
    "times include decoding and, if used, the classifier, but not loading; tokens are those of the translations, "
    "including sentence ends"
)
# If an option is repeated, the last value counts. A lower --max-tokens would make some batches smaller.
_GREEDY = ["--beam", "1", "--nbest", "1", "--batch-size", "64", "--max-tokens", "1000000000", "--quiet"]
_VERSION = 2
_TRANSLATED = re.compile(
    r"Translated ([\d,]+) sentences \(([\d,]+) tokens\) in [\d.]+s \([\d.]+ sentences/s, ([\d.]+) tokens/s\)"
)


class Timing(NamedTuple):
    """Timing that fairseq-generate reports at its end."""

    seconds: float
    sentences: int
    tokens: int


def speed_step(config: Translation) -> Step:
    """Return the step that times the decoding runs of ``evaluate: speed``.

    If a system has several seeds, its first run is timed. If it is trained per domain, each run is timed on its domain.
    Timings are not reproducible; they are taken once for given checkpoints and options.
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
        classifier = _time_classifier(teacher, texts) if routed else {}
        on_cpu = all("--cpu" in arguments for output in outputs.values() for arguments in output.values())
        (folder / MACHINE_FILE).write_text(describe_machine(on_cpu) + "\n", encoding="utf-8")
        records = [
            speed_records(name, by_domain, classifier if name in routed else {}) for name, by_domain in timings.items()
        ]
        write_rows(folder / RECORDS_FILE, chain.from_iterable(records))

    by_output = {name: config.outputs[name].options for name in outputs}
    options = {"version": _VERSION, "rounds": ROUNDS, "outputs": by_output}
    return Step(config.work_dir / "analysis/speed", sorted(inputs), options, build, resumable=True)


def speed_records(output: str, timings: Mapping[str, Timing], classifier: Mapping[str, float]) -> Iterator[Record]:
    """Yield sentences and tokens per second of a decoding run. ``classifier`` has its additional seconds by domain."""
    seconds = sum(timing.seconds + classifier.get(domain, 0) for domain, timing in timings.items())
    sentences = sum(timing.sentences for timing in timings.values())
    tokens = sum(timing.tokens for timing in timings.values())
    yield Record(system=output, metric=SENTENCES_PER_SECOND, value=sentences / seconds)
    yield Record(system=output, metric=TOKENS_PER_SECOND, value=tokens / seconds)


def time_outputs(logs: Path, outputs: Mapping[str, Mapping[str, Sequence[str]]]) -> dict[str, dict[str, Timing]]:
    """Return the best timing by output and domain. Timings of an interrupted call are reused.

    Other load on the machine can only slow down decoding, so the best round counts. Outputs are timed in turn, in
    the second round in reverse order, so that slow periods affect all of them.

    Args:
        logs: folder for the logs of fairseq-generate.
        outputs: arguments of fairseq-generate by output and domain.
    """
    best: dict[str, dict[str, Timing]] = {name: {} for name in outputs}
    for number in range(1, ROUNDS + 1):
        names = list(outputs) if number % 2 else list(outputs)[::-1]
        for domain in sorted({domain for output in outputs.values() for domain in output}):
            for name in names:
                if domain in outputs[name]:
                    log = logs / f"round {number}" / name / f"{domain}.log"
                    timing = _generate(log, domain, outputs[name][domain])
                    best[name][domain] = min(timing, best[name].get(domain, timing))
    return best


def _generate(log: Path, domain: str, arguments: Sequence[str]) -> Timing:
    """Translate a domain's test set and return the timing, or read it from the log of an interrupted run."""
    match = _TRANSLATED.search(log.read_text(encoding="utf-8")) if log.is_file() else None
    if match is None:
        log.parent.mkdir(parents=True, exist_ok=True)
        arguments = [*arguments, *_GREEDY, "--gen-subset", f"test:{domain}"]
        run_fairseq("generate", arguments, output=Path(os.devnull), messages=log)
        match = _TRANSLATED.search(log.read_text(encoding="utf-8"))
    if match is None:
        raise InputError(f"{log}: has no timing of fairseq-generate; unset LOGLEVEL")
    sentences, tokens = (int(match[group].replace(",", "")) for group in (1, 2))
    # The seconds that fairseq prints are rounded to tenths, unlike tokens per second.
    return Timing(tokens / float(match[3]), sentences, tokens)


def _time_classifier(teacher: Path, texts: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Return the seconds that the loaded classifier needs for the raw sentences of each domain, in the best round.

    Each domain is one call, which the classifier splits into batches.
    """
    classifier = load_classifier(teacher / MODEL_FOLDER, read_teacher_record(teacher)["backend"])
    classifier.predict(["A first sentence also pays for what is set up at the first call."])
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        for domain, sentences in texts.items():
            start = time.perf_counter()
            classifier.predict(sentences)
            seconds = time.perf_counter() - start
            best[domain] = min(seconds, best.get(domain, seconds))
    return best


def describe_machine(on_cpu: bool) -> str:
    """Describe the GPU if used, processor, cores, threads and torch version, but not the host name."""
    import torch

    info = Path("/proc/cpuinfo")
    match = re.search(r"^model name\s*: (.+)$", info.read_text(encoding="utf-8"), re.M) if info.is_file() else None
    processor = match[1] if match else platform.machine()
    gpu = [] if on_cpu or not torch.cuda.is_available() else [torch.cuda.get_device_name(0)]
    threads = f"{processor}, cores: {cores()}, threads: {torch.get_num_threads()}"
    return ", ".join([*gpu, threads, f"torch {torch.__version__}"])
