"""Steps that translate the test sets to ``translations/RUN``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from fairseq_ext.base.domain_names import DOMAINS_FILE, read_domain_names
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.fairseq_cli import as_arguments, option_of, run_fairseq
from fairseq_ext.base.fairseq_options import FairseqCommand, named_files
from fairseq_ext.base.progress import progress
from fairseq_ext.base.provenance import EXTRA
from fairseq_ext.base.steps import Step
from fairseq_ext.experiments.train import best_checkpoint
from fairseq_ext.experiments.translation.config import Translation
from fairseq_ext.experiments.translation.sections import OutputRun
from fairseq_ext.text.text_files import read_lines

TASK = "multi_domain_translation"
GATES_FILE = "gates.jsonl"


def decoding(config: Translation, run: OutputRun) -> tuple[list[Path], FairseqCommand]:
    """Return the inputs of a decoding run, ``data-bin`` first, and its fairseq-generate command.

    fairseq-interactive takes the same options.
    """
    checkpoint, data = best_checkpoint(config, run.run.name), config.work_dir / "data-bin"
    inputs = [data, checkpoint]
    arguments = ["--task", TASK, "--path", str(checkpoint)]
    arguments += ["--bpe", "sentencepiece", "--sentencepiece-model", str(data / "sentencepiece.model")]
    if run.output.uses_classifier:
        inputs.append(config.work_dir / "teacher")
        arguments += ["--teacher-dir", str(inputs[-1])]
    arguments += as_arguments(run.output.options)
    # A system that was trained with tags needs them.
    if run.output.system.has_tags and option_of(run.output.options, "domain-tags") is None:
        arguments += ["--domain-tags"]
    inputs += named_files(arguments, run.name, inputs)
    return inputs, FairseqCommand("generate", tuple(arguments), run.output.place)


def translation_dir(config: Translation, name: str) -> Path:
    """Return the directory of an output run's translations, ``DOMAIN.LANG``."""
    return config.work_dir / "translations" / name


def translation_step(config: Translation, run: OutputRun, extra: Sequence[str] = ()) -> Step:
    """Return the step that translates the test sets. ``extra`` are fairseq-generate options, such as ``--fp16``."""
    inputs, command = decoding(config, run)
    domain, output = config.domain_of(run), translation_dir(config, run.name)
    data, splits = config.work_dir / "data-bin", config.work_dir / "splits"
    subset = ["--gen-subset", f"test:{domain}" if domain else "test"]

    def build(folder: Path) -> None:
        gates = ["--gates-output", str(folder / GATES_FILE)] if run.output.gates else []
        printed = folder / "generate.txt"
        lengths = {
            name: len(read_lines(splits / name / f"test.{config.source_lang}"))
            for name in ([domain] if domain else read_domain_names(data / DOMAINS_FILE))
        }
        arguments = [str(data), *subset, *command.arguments, *gates, *extra]
        with progress(f"{run.name} translates", partial(_look_at, printed, sum(lengths.values()))):
            run_fairseq("generate", arguments, output=printed, messages=folder / "generate.log")
        write_hypotheses(folder, printed, lengths, config.target_lang)

    inputs = [*inputs, splits]
    inputs += named_files(extra, run.name, inputs)
    # Record the key only if the file has it, so that finished translations are recognised.
    gates = {"gates": run.output.gates} if "gates" in run.output.model_fields_set else {}
    options = {**run.output.options, **gates, "system": run.output.system_name, EXTRA: list(extra)}
    options |= {"domain": domain} if domain else {}
    return Step(output, inputs, options, build, commands=[replace(command, extra=tuple(extra))], side_by_side=True)


def _look_at(printed: Path, total: int) -> tuple[float, str] | None:
    """Return the share of sentences translated so far, and describe it; None before the first."""
    done = printed.read_bytes().count(b"\nD-") if printed.exists() else 0
    return (min(done / total, 1.0), f"{done:,} of {total:,} sentences") if done else None


def translate_file(folder: Path, source: Path, arguments: Sequence[str], lengths: Mapping[str, int], lang: str) -> None:
    """Translate a file by fairseq-interactive to ``NAME.LANG`` in a folder; ``lengths`` are those of its parts by name.

    All lines are read at once, so that batches have lines of similar length.
    """
    reading = ["--input", str(source), "--buffer-size", str(sum(lengths.values()))]
    printed = folder / "interactive.txt"
    run_fairseq("interactive", [*arguments, *reading], output=printed, messages=folder / "interactive.log")
    write_hypotheses(folder, printed, lengths, lang)


def write_hypotheses(folder: Path, printed: Path, lengths: Mapping[str, int], lang: str) -> None:
    """Split the output of fairseq-generate or -interactive into ``NAME.LANG``, in the order of the sets."""
    hypotheses: dict[int, str] = {}
    for line in read_lines(printed):
        if line.startswith("D-"):
            number, _, text = line[2:].split("\t", 2)
            hypotheses.setdefault(int(number), text)  # the first of an n-best list is the best
    first = 0
    for name, length in lengths.items():
        numbers = range(first, first + length)
        for missing in set(numbers) - hypotheses.keys():
            raise InputError(
                f"{printed}: sentence {missing - first + 1} of {name} was not translated; "
                "shorten it if it is longer than --max-source-positions"
            )
        (folder / f"{name}.{lang}").write_text("".join(f"{hypotheses[n]}\n" for n in numbers), encoding="utf-8")
        first += length
