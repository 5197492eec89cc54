"""A few typed sentences through ``fairseq-interactive``, with what the gates thought of them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from fairseq_ext.corpora.text_files import read_lines
from fairseq_ext.engine.fairseq_cli import run_fairseq
from fairseq_ext.engine.steps import Step, add_step_options, run_steps
from fairseq_ext.experiments.translation.config import load_config
from fairseq_ext.experiments.translation.experiment import TranslationExperiment
from fairseq_ext.experiments.translation.translate import how_to_make, read_hypotheses
from fairseq_ext.inputs.errors import run_command

TEXT_FILE = "examples.txt"


def examples_step(config: TranslationExperiment) -> Step:
    """The step that translates ``translate: examples``, the lines of each output by the first of its runs."""
    examples = config.examples
    outputs = {name: how_to_make(config, config.output_runs(name)[0]) for name in examples}

    def build(folder: Path) -> None:
        blocks = []
        for name, output in outputs.items():
            printed, typed = folder / f"{name}.txt", "".join(f"{line}\n" for line in examples[name])
            gates = ["--print-gates"] if output.run.output.gates else []
            arguments = [
                str(output.inputs[0]),
                *output.arguments,
                *gates,
                "--buffer-size",
                str(len(examples[name])),
            ]
            run_fairseq("interactive", arguments, output=printed, typed=typed, messages=folder / f"{name}.log")
            blocks.append(f"{name}\n" + format_examples(examples[name], read_lines(printed)))
        (folder / TEXT_FILE).write_text("\n".join(blocks), encoding="utf-8")

    inputs = sorted({path for output in outputs.values() for path in output.inputs})
    options = {
        "examples": examples,
        "arguments": {name: output.arguments for name, output in outputs.items()},
    }
    commands = [output.command for output in outputs.values()]
    folder = config.work_dir / "examples"
    return Step(folder, inputs=inputs, options=options, build=build, commands=commands, side_by_side=True)


def format_examples(sources: Sequence[str], printed: Iterable[str]) -> str:
    """Source, translation and the largest gate weights of every line, from what fairseq-interactive printed."""
    printed = list(printed)
    hypotheses = read_hypotheses(printed)
    gates = {int(number): text for number, text in re.findall(r"^G-(\d+)\t(.*)$", "\n".join(printed), re.MULTILINE)}
    width = max(map(len, sources))
    lines = []
    for number, source in enumerate(sources):
        line = f"  {source:<{width}}  →  {hypotheses[number]}"
        if number in gates:
            weights = [part.split("=") for part in gates[number].split()]
            largest = sorted(weights, key=lambda pair: -float(pair[1]))[:3]
            line += "\n" + " " * (width + 7) + " ".join(f"{name} {float(w):.2f}" for name, w in largest)
        lines.append(line)
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/examples.sh``."""
    parser = argparse.ArgumentParser(
        prog="scripts/examples.sh",
        description="Translate the lines under translate: examples through fairseq-interactive and print them.",
    )
    parser.add_argument("config", type=Path, help="experiment file (YAML), see configs/")
    add_step_options(parser)
    options = parser.parse_args(arguments)
    step = examples_step(load_config(options.config))
    run_steps([step], dry_run=options.dry_run)
    if not options.dry_run:
        print((step.output / TEXT_FILE).read_text(encoding="utf-8"), end="")


if __name__ == "__main__":
    run_command(main)
