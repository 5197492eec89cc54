"""Translating the test sets of an experiment: ``fairseq-generate`` as a step, one file a domain."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_ext.corpora.text_files import read_lines
from fairseq_ext.domains.names import DOMAINS_FILE, read_domain_names
from fairseq_ext.engine.steps import Step, run_steps
from fairseq_ext.errors import InputError
from fairseq_ext.experiment.config import ExperimentConfig, load_config
from fairseq_ext.experiment.runs import OutputRun, option_of, output_runs_of, outputs_of
from fairseq_ext.pipeline.fairseq_cli import as_arguments, run_fairseq
from fairseq_ext.pipeline.training import best_checkpoint

GATES_FILE = "gates.jsonl"


@dataclass(frozen=True)
class Output:
    """How the translations of an output run are made.

    Attributes:
        run: which they are.
        inputs: directories and files that they depend on, ``data-bin`` first.
        arguments: for fairseq-generate and fairseq-interactive alike.
    """

    run: OutputRun
    inputs: list[Path]
    arguments: list[str]


def output_of(config: ExperimentConfig, name: str) -> Output:
    """How an output run is made; the name of an output with several stands for the first of them.

    Raises:
        InputError: if there is no such output, run or system.
    """
    return how_to_make(config, output_runs_of(config, name)[0])


def how_to_make(config: ExperimentConfig, run: OutputRun) -> Output:
    """What fairseq has to be told for an output run."""
    checkpoint, data = best_checkpoint(config, run.run.name), config.work_dir / "data-bin"
    inputs = [data, checkpoint]
    arguments = ["--task", "multi_domain_translation", "--path", str(checkpoint)]
    arguments += ["--bpe", "sentencepiece", "--sentencepiece-model", str(data / "sentencepiece.model")]
    if run.domain_source == "classifier":
        inputs.append(config.work_dir / "teacher")
        arguments += ["--teacher-dir", str(inputs[-1])]
    arguments += as_arguments(run.options)
    # A system that was trained with tags understands nothing else.
    if run.run.system.has_tags and option_of(run.options, "domain-tags") is None:
        arguments += ["--domain-tags"]
    return Output(run, inputs, arguments)


def translation_dir(config: ExperimentConfig, name: str) -> Path:
    """Where the translations of an output run lie, as ``DOMAIN.LANG``."""
    return config.work_dir / "translations" / name


def translation_steps(config: ExperimentConfig, name: str, extra: Sequence[str] = ()) -> list[Step]:
    """The steps that translate the test sets as an output says, one an output run.

    Args:
        config: the experiment.
        name: the output, made with all runs of its system, or one output run, such as ``gad@2``.
        extra: more options for fairseq-generate, such as ``--fp16``.

    Raises:
        InputError: if there is no such output, run or system.
    """
    return [_translation_step(config, run, extra) for run in output_runs_of(config, name)]


def _translation_step(config: ExperimentConfig, run: OutputRun, extra: Sequence[str]) -> Step:
    output, domain = how_to_make(config, run), run.run.domain
    data, splits = config.work_dir / "data-bin", config.work_dir / "splits"
    subset = ["--gen-subset", f"test:{domain}" if domain else "test"]

    def build(folder: Path) -> None:
        gates = ["--gates-output", str(folder / GATES_FILE)] if run.gates else []
        printed = folder / "generate.txt"
        run_fairseq("generate", [str(data), *subset, *output.arguments, *gates, *extra], output=printed)
        lengths = {
            name: len(read_lines(splits / name / f"test.{config.source_lang}"))
            for name in ([domain] if domain else read_domain_names(data / DOMAINS_FILE))
        }
        write_hypotheses(folder, printed, lengths, config.target_lang)

    options = {**outputs_of(config)[run.output], "extra": list(extra), **({"domain": domain} if domain else {})}
    return Step(translation_dir(config, run.name), inputs=[*output.inputs, splits], options=options, build=build)


def write_hypotheses(folder: Path, printed: Path, lengths: Mapping[str, int], lang: str) -> None:
    """Split what fairseq-generate or -interactive printed into ``NAME.LANG``, in the order of the sets.

    Raises:
        InputError: if a sentence was not translated.
    """
    hypotheses = read_hypotheses(read_lines(printed))
    first = 0
    for name, length in lengths.items():
        missing = [number for number in range(first, first + length) if number not in hypotheses]
        if missing:
            raise InputError(
                f"{printed}: sentence {missing[0] - first + 1} of {name} was not translated; "
                "is it longer than --max-source-positions?"
            )
        lines = (hypotheses[number] + "\n" for number in range(first, first + length))
        (folder / f"{name}.{lang}").write_text("".join(lines), encoding="utf-8")
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
    parser.add_argument(
        "output",
        nargs="?",
        help="name under translate: outputs, or one run of it, as gad@2 or ft@LAW (default: all of them)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only print which translations would be made")
    options, extra = parser.parse_known_args(arguments)
    config = load_config(options.config)
    names = [options.output] if options.output else list(outputs_of(config))
    steps = [step for name in names for step in translation_steps(config, name, extra)]
    run_steps(steps, dry_run=options.dry_run)


if __name__ == "__main__":
    main()
