"""Translating the test sets of an experiment: ``fairseq-generate`` as a step, one file a domain."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fairseq_ext.corpora.text_files import read_lines
from fairseq_ext.domains.names import DOMAINS_FILE, read_domain_names
from fairseq_ext.engine.fairseq_cli import as_arguments, option_of, run_fairseq
from fairseq_ext.engine.fairseq_options import FairseqCommand
from fairseq_ext.engine.option_files import named_files
from fairseq_ext.engine.origins import EXTRA
from fairseq_ext.engine.progress import LinesWritten, Look, progress
from fairseq_ext.engine.steps import Step, add_step_options, run_steps
from fairseq_ext.experiments.translation.config import load_config
from fairseq_ext.experiments.translation.experiment import TranslationExperiment
from fairseq_ext.experiments.translation.export import export_step, trained_run
from fairseq_ext.experiments.translation.outputs import OutputRun
from fairseq_ext.inputs.errors import InputError, run_command
from fairseq_ext.recipes.train import best_checkpoint
from fairseq_ext.translators.command_line import text_parser, translate_text

GATES_FILE = "gates.jsonl"
MESSAGES_FILE = "generate.log"


@dataclass(frozen=True)
class Generation:
    """How the translations of an output run are made.

    Attributes:
        run: which they are.
        inputs: directories and files that they depend on, ``data-bin`` first.
        command: of fairseq-generate.
    """

    run: OutputRun
    inputs: list[Path]
    command: FairseqCommand

    @property
    def arguments(self) -> list[str]:
        """For fairseq-generate and fairseq-interactive alike."""
        return list(self.command.arguments)


def how_to_make(config: TranslationExperiment, run: OutputRun) -> Generation:
    """What fairseq has to be told for an output run."""
    checkpoint, data = best_checkpoint(config, run.run.name), config.work_dir / "data-bin"
    inputs = [data, checkpoint]
    arguments = ["--task", "multi_domain_translation", "--path", str(checkpoint)]
    arguments += ["--bpe", "sentencepiece", "--sentencepiece-model", str(data / "sentencepiece.model")]
    if run.output.uses_classifier:
        inputs.append(config.work_dir / "teacher")
        arguments += ["--teacher-dir", str(inputs[-1])]
    arguments += as_arguments(run.output.options)
    # A system that was trained with tags understands nothing else.
    if run.output.system.has_tags and option_of(run.output.options, "domain-tags") is None:
        arguments += ["--domain-tags"]
    command = FairseqCommand("generate", tuple(arguments), run.output.place)
    return Generation(run, [*inputs, *named_files(arguments, run.name, inputs)], command)


def translation_dir(config: TranslationExperiment, name: str) -> Path:
    """Where the translations of an output run lie, as ``DOMAIN.LANG``."""
    return config.work_dir / "translations" / name


def translation_steps(config: TranslationExperiment, name: str, extra: Sequence[str] = ()) -> list[Step]:
    """The steps that translate the test sets as an output says, one an output run.

    Args:
        config: the experiment.
        name: the output, made with all runs of its system, or one output run, such as ``gad@2``.
        extra: more options for fairseq-generate, such as ``--fp16``.

    Raises:
        InputError: if there is no such output or run.
    """
    return [_translation_step(config, run, extra) for run in config.output_runs(name)]


def _translation_step(config: TranslationExperiment, run: OutputRun, extra: Sequence[str]) -> Step:
    how, domain, output = how_to_make(config, run), run.run.domain, translation_dir(config, run.name)
    data, splits = config.work_dir / "data-bin", config.work_dir / "splits"
    subset = ["--gen-subset", f"test:{domain}" if domain else "test"]

    def build(folder: Path) -> None:
        gates = ["--gates-output", str(folder / GATES_FILE)] if run.output.gates else []
        printed = folder / "generate.txt"
        lengths = {
            name: len(read_lines(splits / name / f"test.{config.source_lang}"))
            for name in ([domain] if domain else read_domain_names(data / DOMAINS_FILE))
        }
        arguments = [str(data), *subset, *how.arguments, *gates, *extra]
        with progress(f"{run.name} translates", _look_at(printed, sum(lengths.values()))):
            run_fairseq("generate", arguments, output=printed, messages=folder / MESSAGES_FILE)
        write_hypotheses(folder, printed, lengths, config.target_lang)

    inputs = [*how.inputs, splits]
    inputs += named_files(extra, run.name, inputs)
    options = {**run.output.entry, EXTRA: list(extra), **({"domain": domain} if domain else {})}
    command = replace(how.command, extra=tuple(extra))
    return Step(output, inputs=inputs, options=options, build=build, commands=[command], side_by_side=True)


def _look_at(printed: Path, total: int) -> Look:
    """Tells what part of the sentences have been translated, as what is printed of them says."""
    count = LinesWritten(printed, b"D-")

    def look() -> tuple[float, str] | None:
        done = count()
        return (min(done / total, 1.0), f"{done:,} of {total:,} sentences") if done else None

    return look


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
    """Command line of ``scripts/translate.sh``: of a user's text, or of an experiment's test sets."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    text = text_parser("scripts/translate.sh")
    if _names_text(given):
        translate_text(text.parse_args(given), _export)
        return
    parser = argparse.ArgumentParser(
        prog="scripts/translate.sh",
        description="Translate the test sets of all domains. Finished translations are not made again. Further "
        "options go to fairseq-generate, such as --fp16; they count for this run only.",
        epilog=f"With --input, --output or an exported system, a text of your own:\n\n{text.format_help()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("config", type=Path, help="experiment file (YAML), see configs/")
    parser.add_argument(
        "output",
        nargs="?",
        help="name under translate: outputs, or one run of it, as gad@2 or ft@LAW (default: all that are trained)",
    )
    add_step_options(parser)
    options, extra = parser.parse_known_args(given)
    config = load_config(options.config)
    runs = config.output_runs(options.output) if options.output else config.all_output_runs()
    steps = [_translation_step(config, run, extra) for run in _trained(config, runs)]
    run_steps(steps, dry_run=options.dry_run)


def _names_text(arguments: Sequence[str]) -> bool:
    """Whether a command line is about a user's text."""
    if any(argument.partition("=")[0] in ("--input", "--output") for argument in arguments):
        return True
    first = next((argument for argument in arguments if not argument.startswith("-")), None)
    return first is not None and Path(first).is_dir()


def _export(path: Path, system: str | None) -> Path:
    """A system of an experiment, exported below the experiment's own folder."""
    config = load_config(path)
    step = export_step(config, trained_run(config, system))
    run_steps([step])
    return step.output


def _trained(config: TranslationExperiment, runs: Sequence[OutputRun]) -> list[OutputRun]:
    """Those output runs whose systems are trained; the others are named on stderr.

    Raises:
        InputError: if there are only others.
    """
    found = [run for run in runs if best_checkpoint(config, run.run.name).is_file()]
    for run in runs:
        if run not in found:
            command = f"scripts/train.sh {config.path} {run.run.name}"
            print(f"{run.name}: skipped, its system is not trained; run {command}", file=sys.stderr)
    if runs and not found:
        raise InputError(f"{config.path}: nothing to translate with; run the command above first")
    return found


if __name__ == "__main__":
    run_command(main)
