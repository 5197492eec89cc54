"""How fast the systems translate (Klimaszewski et al. 2023, Table 7): greedy, in batches of 64, a domain at a time.

What counts is fairseq's own measure, the time it spends in decoding: loading, cutting into batches and writing are not
in it. Outputs that take the domain from the classifier pay for it too, its loading again left out.
"""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fairseq_ext.classifiers.classifier import MODEL_FOLDER, load_classifier
from fairseq_ext.data.teacher_labels import read_teacher_record
from fairseq_ext.engine.fairseq_cli import run_fairseq
from fairseq_ext.engine.processes import cores
from fairseq_ext.inputs.errors import InputError

ROUNDS = 2
METHOD = (
    f"greedy, batches of 64, a domain at a time; the best of {ROUNDS} rounds, in which the systems take turns; "
    "decoding and, where it is used, the classifier are timed, loading is not; tokens are those of the translations, "
    "sentence ends included"
)
_GREEDY = ["--beam", "1", "--batch-size", "64", "--quiet"]
# Each with one value; they would contradict the above. A limit in tokens would make some batches smaller.
_CONTRADICTING = {"--beam", "--nbest", "--batch-size", "--max-sentences", "--max-tokens"}
_TRANSLATED = re.compile(
    r"Translated ([\d,]+) sentences \(([\d,]+) tokens\) in [\d.]+s \([\d.]+ sentences/s, ([\d.]+) tokens/s\)"
)


class Timing(NamedTuple):
    """What fairseq-generate says at its end."""

    seconds: float
    sentences: int
    tokens: int


def time_outputs(
    logs: Path, outputs: Mapping[str, Mapping[str, Sequence[str]]], rounds: int = ROUNDS
) -> dict[str, dict[str, Timing]]:
    """By output and domain the best timing; those of an interrupted call are reused.

    The machine's other work can only add to timings, so the best of the rounds counts. The outputs take turns, in the
    second round in the opposite order, so that slow minutes hit all alike.

    Args:
        logs: where fairseq's messages are written.
        outputs: by name and domain the arguments of fairseq-generate; what would make it anything but greedy is left
            out.
        rounds: how often each is timed.
    """
    best: dict[str, dict[str, Timing]] = {name: {} for name in outputs}
    for number in range(1, rounds + 1):
        names = list(outputs) if number % 2 else list(outputs)[::-1]
        for domain in sorted({domain for output in outputs.values() for domain in output}):
            for name in names:
                if domain in outputs[name]:
                    log = logs / f"round {number}" / name / f"{domain}.log"
                    timing = _generate(log, domain, outputs[name][domain])
                    best[name][domain] = min(timing, best[name].get(domain, timing))
    return best


def _generate(log: Path, domain: str, arguments: Sequence[str]) -> Timing:
    """Translate a domain's test set, or take over what an interrupted run found."""
    timing = parse_timing(log.read_text(encoding="utf-8")) if log.is_file() else None
    if timing is None:
        log.parent.mkdir(parents=True, exist_ok=True)
        arguments = [*greedy_arguments(arguments), "--gen-subset", f"test:{domain}"]
        run_fairseq("generate", arguments, output=Path(os.devnull), messages=log)
        timing = parse_timing(log.read_text(encoding="utf-8"))
    if timing is None:
        raise InputError(f"{log}: fairseq-generate did not say how fast it was; is LOGLEVEL set? unset it")
    return timing


def parse_timing(log: str) -> Timing | None:
    """Find fairseq-generate's last words about its speed; None if it never came so far."""
    match = _TRANSLATED.search(log)
    if match is None:
        return None
    sentences, tokens = (int(match[group].replace(",", "")) for group in (1, 2))
    # The seconds are rounded to tenths, the tokens a second are not.
    return Timing(tokens / float(match[3]), sentences, tokens)


def greedy_arguments(arguments: Sequence[str]) -> list[str]:
    """fairseq-generate's arguments for greedy decoding in batches of 64 sentences."""
    kept, rest = [], iter(arguments)
    for argument in rest:
        if argument in _CONTRADICTING:
            next(rest)
        else:
            kept.append(argument)
    return kept + _GREEDY


def time_classifier(teacher: Path, texts: Mapping[str, Sequence[str]], rounds: int = ROUNDS) -> dict[str, float]:
    """The seconds that the classifier needs for the raw sentences of each domain, once it is loaded; the best count.

    A domain is one call, which the classifier cuts into batches of its own.
    """
    classifier = load_classifier(teacher / MODEL_FOLDER, read_teacher_record(teacher)["backend"])
    classifier.predict(["A first sentence also pays for what is set up at the first call."])
    best: dict[str, float] = {}
    for _ in range(rounds):
        for domain, sentences in texts.items():
            start = time.perf_counter()
            classifier.predict(sentences)
            seconds = time.perf_counter() - start
            best[domain] = min(seconds, best.get(domain, seconds))
    return best


def describe_machine(on_cpu: bool) -> str:
    """Processor, threads, torch's version and the GPU, unless it was not used; without a name of the machine."""
    import torch

    info = Path("/proc/cpuinfo")
    match = re.search(r"^model name\s*: (.+)$", info.read_text(encoding="utf-8"), re.M) if info.is_file() else None
    processor = match[1] if match else platform.machine()
    gpu = [] if on_cpu or not torch.cuda.is_available() else [torch.cuda.get_device_name(0)]
    threads = f"{processor}, cores: {cores()}, threads: {torch.get_num_threads()}"
    return ", ".join([*gpu, threads, f"torch {torch.__version__}"])
