"""Translating the test sets of an experiment: ``fairseq-generate`` as a step, one file a domain."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_ext.corpora.text_files import read_lines
from fairseq_ext.domains.names import DOMAINS_FILE, read_domain_names
from fairseq_ext.errors import InputError
from fairseq_ext.experiment.config import ExperimentConfig, load_config, named_entries
from fairseq_ext.pipeline.fairseq_cli import as_arguments, run_fairseq
from fairseq_ext.pipeline.steps import Step, run_steps
from fairseq_ext.pipeline.training import best_checkpoint, system_of

GATES_FILE = "gates.jsonl"


def outputs_of(config: ExperimentConfig) -> dict[str, dict[str, Any]]:
    """The translations under ``translate: outputs``, each with the options of ``translate: common`` first.

    Raises:
        InputError: naming a key that is not allowed or missing.
    """
    where = f"{config.path}: translate"
    outputs = named_entries(config.translate, "outputs", where, others=["examples"])
    for name, options in outputs.items():
        if "system" not in options:
            raise InputError(f"{where}: outputs: {name}: the key 'system' is missing")
    return outputs


@dataclass(frozen=True)
class Output:
    """One way to translate: a system and how it is used.

    Attributes:
        reports_gates: whether the gates' weights are wanted.
        inputs: directories and files that the translations depend on, ``data-bin`` first.
        arguments: for fairseq-generate and fairseq-interactive alike.
    """

    reports_gates: bool
    inputs: list[Path]
    arguments: list[str]


def output_of(config: ExperimentConfig, name: str) -> Output:
    """What ``translate: outputs`` says of one output.

    Raises:
        InputError: if there is no such output or system.
    """
    outputs = outputs_of(config)
    if name not in outputs:
        raise InputError(f"{config.path}: translate: outputs: no {name!r}; there are {', '.join(outputs)}")
    options = dict(outputs[name])
    checkpoint = best_checkpoint(config, system_of(config, options.pop("system")).name)
    reports_gates = bool(options.pop("gates", False))
    data = config.work_dir / "data-bin"
    inputs = [data, checkpoint]
    arguments = ["--task", "multi_domain_translation", "--path", str(checkpoint)]
    arguments += ["--bpe", "sentencepiece", "--sentencepiece-model", str(data / "sentencepiece.model")]
    if options.get("domain-source") == "classifier":
        inputs.append(config.work_dir / "teacher")
        arguments += ["--teacher-dir", str(inputs[-1])]
    return Output(reports_gates, inputs, arguments + as_arguments(options))


def translation_dir(config: ExperimentConfig, name: str) -> Path:
    """Where translations lie, as ``DOMAIN.LANG``."""
    return config.work_dir / "translations" / name


def translation_step(config: ExperimentConfig, name: str, extra: Sequence[str] = ()) -> Step:
    """The step that translates all test sets under one name of ``translate: outputs``.

    Args:
        config: the experiment.
        name: the output.
        extra: more options for fairseq-generate, such as ``--fp16``.

    Raises:
        InputError: if there is no such output or system.
    """
    output = output_of(config, name)
    data, splits = config.work_dir / "data-bin", config.work_dir / "splits"

    def build(folder: Path) -> None:
        gates = ["--gates-output", str(folder / GATES_FILE)] if output.reports_gates else []
        printed = folder / "generate.txt"
        run_fairseq("generate", [str(data), "--gen-subset", "test", *output.arguments, *gates, *extra], output=printed)
        lengths = {
            domain: len(read_lines(splits / domain / f"test.{config.source_lang}"))
            for domain in read_domain_names(data / DOMAINS_FILE)
        }
        write_hypotheses(folder, printed, lengths, config.target_lang)

    options = {**outputs_of(config)[name], "extra": list(extra)}
    return Step(translation_dir(config, name), inputs=[*output.inputs, splits], options=options, build=build)


def write_hypotheses(folder: Path, printed: Path, lengths: Mapping[str, int], lang: str) -> None:
    """Split what fairseq-generate printed into ``DOMAIN.LANG``, in the order of the test sets.

    Raises:
        InputError: if a sentence was not translated.
    """
    hypotheses = read_hypotheses(read_lines(printed))
    first = 0
    for domain, length in lengths.items():
        missing = [number for number in range(first, first + length) if number not in hypotheses]
        if missing:
            raise InputError(
                f"{printed}: sentence {missing[0] - first + 1} of domain {domain} was not translated; "
                "is it longer than --max-source-positions?"
            )
        lines = (hypotheses[number] + "\n" for number in range(first, first + length))
        (folder / f"{domain}.{lang}").write_text("".join(lines), encoding="utf-8")
        first += length


def read_hypotheses(lines: Iterable[str]) -> dict[int, str]:
    """The best translation of every sentence, from the D- lines of fairseq-generate or -interactive."""
    found: dict[int, str] = {}
    for line in lines:
        if line.startswith("D-"):
            number, _, text = line[2:].split("\t", 2)
            found.setdefault(int(number), text)  # the first of an n-best list is the best
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/translate.sh``."""
    parser = argparse.ArgumentParser(
        prog="scripts/translate.sh",
        description="Translate the test sets of all domains. Finished translations are not made again. Further "
        "options go to fairseq-generate, such as --fp16.",
    )
    parser.add_argument("config", type=Path, help="experiment file (YAML), see configs/")
    parser.add_argument("output", nargs="?", help="name under translate: outputs (default: all of them)")
    parser.add_argument("--dry-run", action="store_true", help="only print which translations would be made")
    options, extra = parser.parse_known_args(arguments)
    config = load_config(options.config)
    names = [options.output] if options.output else list(outputs_of(config))
    run_steps([translation_step(config, name, extra) for name in names], dry_run=options.dry_run)


if __name__ == "__main__":
    main()
