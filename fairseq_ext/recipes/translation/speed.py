"""How fast the systems translate (Klimaszewski et al. 2023, Table 7): greedy, in batches of 64, a domain at a time.

What counts is fairseq's own measure, the time it spends in decoding: loading, cutting into batches and writing are not
in it. Outputs that take the domain from the classifier pay for it too, its loading again left out.
"""

from __future__ import annotations

import json
import os
import platform
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_ext.classifiers.classifier import MODEL_FOLDER, load_classifier
from fairseq_ext.corpora.text_files import read_lines
from fairseq_ext.data.teacher_labels import read_teacher_record
from fairseq_ext.engine.fairseq_cli import run_fairseq
from fairseq_ext.engine.processes import cores
from fairseq_ext.engine.steps import atomic_write
from fairseq_ext.inputs.errors import InputError

ROUNDS = 2
METHOD = (
    f"greedy, batches of 64, a domain at a time; the best of {ROUNDS} rounds, in which the systems take turns; "
    "decoding and, where it is used, the classifier are timed, loading is not; tokens are those of the translations, "
    "sentence ends included"
)
_LOGS = "logs"
_GREEDY = ["--beam", "1", "--batch-size", "64", "--quiet"]
# Each with one value; they would contradict the above. A limit in tokens would make some batches smaller.
_CONTRADICTING = {"--beam", "--nbest", "--batch-size", "--max-sentences", "--max-tokens"}
_TRANSLATED = re.compile(
    r"Translated ([\d,]+) sentences \(([\d,]+) tokens\) in [\d.]+s \([\d.]+ sentences/s, ([\d.]+) tokens/s\)"
)


@dataclass(frozen=True)
class TimedOutput:
    """An output to time.

    Attributes:
        arguments: by domain those of fairseq-generate, as for the best translations; what would make them anything
            but greedy is left out.
        uses_classifier: whether the domain is the classifier's guess, whose time then counts.
    """

    arguments: dict[str, list[str]]
    uses_classifier: bool = False


@dataclass(frozen=True)
class Timing:
    """What fairseq-generate says at its end."""

    sentences: int
    tokens: int
    seconds: float


def measure_speed(
    folder: Path, outputs: Mapping[str, TimedOutput], *, splits: Path, teacher: Path, lang: str
) -> dict[str, dict[str, Any]]:
    """Time the outputs; timings of an interrupted call are reused.

    Timings differ from run to run. The machine's other work can only add to them, so the best of two rounds counts;
    the outputs take turns, in the second round in the opposite order, so that slow minutes hit all alike.

    Args:
        folder: where ``logs/``, fairseq's messages, are written.
        outputs: by name.
        splits: folder with the classifier's text, ``DOMAIN/test.LANG``.
        teacher: the classifier; needed only if it is used.
        lang: the source language.

    Returns:
        by output the entry of :func:`summarise_output`.
    """
    domains = sorted({domain for output in outputs.values() for domain in output.arguments})
    timings: dict[tuple[str, str], list[Timing]] = {(name, d): [] for name in outputs for d in outputs[name].arguments}
    classifier: dict[str, list[float]] = {domain: [] for domain in domains}
    for number in range(ROUNDS):
        logs = folder / _LOGS / f"round {number + 1}"
        if any(output.uses_classifier for output in outputs.values()):
            for domain, seconds in _cached_classifier_seconds(logs, splits, teacher, lang, domains).items():
                classifier[domain].append(seconds)
        for domain in domains:
            for name in list(outputs) if number % 2 == 0 else reversed(list(outputs)):
                if domain in outputs[name].arguments:
                    log = logs / name / f"{domain}.log"
                    timings[name, domain].append(_generate(log, domain, outputs[name].arguments[domain]))
    return {
        name: summarise_output(
            {domain: timings[name, domain] for domain in output.arguments},
            {domain: classifier[domain] if output.uses_classifier else [] for domain in output.arguments},
        )
        for name, output in outputs.items()
    }


def parse_timing(lines: Iterable[str]) -> Timing | None:
    """Find fairseq-generate's last words about its speed; None if it never came so far."""
    for line in lines:
        if match := _TRANSLATED.search(line):
            sentences, tokens = (int(match[group].replace(",", "")) for group in (1, 2))
            # The seconds are rounded to tenths, the tokens a second are not.
            return Timing(sentences, tokens, tokens / float(match[3]))
    return None


def summarise_output(timings: Mapping[str, Sequence[Timing]], classifier: Mapping[str, Sequence[float]]) -> dict:
    """The timings of an output: by domain the best of the rounds, and sentences and tokens per second.

    Args:
        timings: by domain one of every round.
        classifier: by domain its seconds in every round; empty where it is not used.
    """
    domains: dict[str, dict[str, Any]] = {}
    for domain, rounds in timings.items():
        domains[domain] = {
            "sentences": rounds[0].sentences,
            "tokens": rounds[0].tokens,
            "seconds": round(min(timing.seconds for timing in rounds), 4),
            "classifier_seconds": round(min(classifier[domain], default=0), 4),
            "rounds": [round(timing.seconds, 4) for timing in rounds],
        }
    seconds = sum(entry["seconds"] + entry["classifier_seconds"] for entry in domains.values())
    return {
        "domains": domains,
        "sentences_per_second": round(sum(entry["sentences"] for entry in domains.values()) / seconds, 2),
        "tokens_per_second": round(sum(entry["tokens"] for entry in domains.values()) / seconds, 2),
    }


def greedy_arguments(arguments: Sequence[str]) -> list[str]:
    """fairseq-generate's arguments for greedy decoding in batches of 64 sentences."""
    kept, rest = [], iter(arguments)
    for argument in rest:
        if argument in _CONTRADICTING:
            next(rest)
        else:
            kept.append(argument)
    return kept + _GREEDY


def describe_machine(on_cpu: bool) -> str:
    """Processor or GPU, threads and torch's version, without a name of the machine.

    Args:
        on_cpu: whether no GPU was used, though there may be one.
    """
    import torch

    processor = f"{_processor()}, cores: {cores()}, threads: {torch.get_num_threads()}"
    gpu = [] if on_cpu or not torch.cuda.is_available() else [torch.cuda.get_device_name(0)]
    return ", ".join([*gpu, processor, f"torch {torch.__version__}"])


def _processor() -> str:
    try:
        match = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        match = None
    return match[1] if match else platform.machine()


def _generate(log: Path, domain: str, arguments: Sequence[str]) -> Timing:
    """Translate a domain's test set, or take over what an interrupted run found."""
    timing = parse_timing(log.read_text(encoding="utf-8").split("\n")) if log.is_file() else None
    if timing is None:
        log.parent.mkdir(parents=True, exist_ok=True)
        run_fairseq(
            "generate",
            [*greedy_arguments(arguments), "--gen-subset", f"test:{domain}"],
            output=Path(os.devnull),
            messages=log,
        )
        timing = parse_timing(log.read_text(encoding="utf-8").split("\n"))
    if timing is None:
        raise InputError(f"{log}: fairseq-generate did not say how fast it was; is LOGLEVEL set? unset it")
    return timing


def _cached_classifier_seconds(
    logs: Path, splits: Path, teacher: Path, lang: str, domains: Sequence[str]
) -> dict[str, float]:
    path = logs / "classifier.json"
    if not path.is_file():
        texts = {domain: read_lines(splits / domain / f"test.{lang}") for domain in domains}
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps(classifier_seconds(teacher, texts)) + "\n", encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))


def classifier_seconds(teacher: Path, texts: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """How long the classifier needs for the raw sentences of each domain, once it is loaded.

    A domain is one call, which the classifier cuts into batches of its own.
    """
    classifier = load_classifier(teacher / MODEL_FOLDER, read_teacher_record(teacher)["backend"])
    classifier.predict(["A first sentence also pays for what is set up at the first call."])
    seconds = {}
    for domain, sentences in texts.items():
        start = time.perf_counter()
        classifier.predict(sentences)
        seconds[domain] = time.perf_counter() - start
    return seconds
