"""Translations of the test sets, of further sets, and of example lines, as steps.

``translations/RUN`` are the test sets, ``extra/RUN`` the further sets, as decoding runs translate them.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fairseq_ext.corpora.entries import check_entries, entry_paths
from fairseq_ext.corpora.import_corpora import import_domain
from fairseq_ext.corpora.joined import draw_pairs, write_pairs
from fairseq_ext.corpora.normalise import normalise_lines
from fairseq_ext.corpora.text_files import read_lines, read_parallel, write_lines
from fairseq_ext.engine.fairseq_cli import as_arguments, option_of, run_fairseq
from fairseq_ext.engine.fairseq_options import FairseqCommand, named_files
from fairseq_ext.engine.progress import Look, progress
from fairseq_ext.engine.provenance import EXTRA
from fairseq_ext.engine.steps import Step
from fairseq_ext.inputs.domain_names import DOMAINS_FILE, domain_tag, read_domain_names
from fairseq_ext.inputs.errors import InputError, check_choice
from fairseq_ext.recipes.train import best_checkpoint
from fairseq_ext.recipes.translation.config import DOMAIN_SWITCH, OutputRun, Translation

TASK = "multi_domain_translation"
GATES_FILE = "gates.jsonl"
EXAMPLES_FILE = "examples.txt"
# Before the names of further sets in tables, where no domain has a colon in its name.
TEST, OOD = "test:", "ood:"


def decoding(config: Translation, run: OutputRun) -> tuple[list[Path], FairseqCommand]:
    """The inputs of a decoding run, ``data-bin`` first, and its command of fairseq-generate.

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
    # A system that was trained with tags understands nothing else.
    if run.output.system.has_tags and option_of(run.output.options, "domain-tags") is None:
        arguments += ["--domain-tags"]
    inputs += named_files(arguments, run.name, inputs)
    return inputs, FairseqCommand("generate", tuple(arguments), run.output.place)


def translation_dir(config: Translation, name: str) -> Path:
    """Where the translations of an output run lie, as ``DOMAIN.LANG``."""
    return config.work_dir / "translations" / name


def translation_step(config: Translation, run: OutputRun, extra: Sequence[str] = ()) -> Step:
    """The step that translates the test sets; ``extra`` are more options for fairseq-generate, such as ``--fp16``."""
    inputs, command = decoding(config, run)
    domain, output = run.run.domain, translation_dir(config, run.name)
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
        with progress(f"{run.name} translates", _look_at(printed, sum(lengths.values()))):
            run_fairseq("generate", arguments, output=printed, messages=folder / "generate.log")
        write_hypotheses(folder, printed, lengths, config.target_lang)

    inputs = [*inputs, splits]
    inputs += named_files(extra, run.name, inputs)
    options = {**run.output.in_file, EXTRA: list(extra), **({"domain": domain} if domain else {})}
    return Step(output, inputs, options, build, commands=[replace(command, extra=tuple(extra))], side_by_side=True)


def _look_at(printed: Path, total: int) -> Look:
    """A look at the share of the sentences that have been translated, by the lines printed so far."""

    def look() -> tuple[float, str] | None:
        done = printed.read_bytes().count(b"\nD-") if printed.exists() else 0
        return (min(done / total, 1.0), f"{done:,} of {total:,} sentences") if done else None

    return look


def write_hypotheses(folder: Path, printed: Path, lengths: Mapping[str, int], lang: str) -> None:
    """Split what fairseq-generate or -interactive printed into ``NAME.LANG``, in the order of the sets."""
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


# Further test sets: the user's own, those out of domain, and the domain-switch set


def sets_dir(config: Translation) -> Path:
    """Where the sets lie, as ``SET.LANG``."""
    return config.work_dir / "extra-sets"


def extra_dir(config: Translation, name: str) -> Path:
    """Where an output run's translations of the sets lie, as ``SET.LANG``."""
    return config.work_dir / "extra" / name


def column_of(config: Translation, name: str) -> str:
    """What a set is called in tables of scores, where no domain has a colon in its name."""
    return f"{TEST if name in config.evaluate.tests else OOD}{name}"


def sets_for(config: Translation, run: OutputRun) -> list[str]:
    """The sets that an output run can translate; a model of one domain is for sets of that domain alone."""
    only = run.run.domain
    return [
        name
        for name, domain in config.evaluate.sets.items()
        if run.output.can_translate(domain) and only in (None, domain)
    ]


def extra_set_steps(config: Translation) -> list[Step]:
    """The steps that make the sets of ``evaluate: tests``, ``ood`` and ``domain_switch``, and translate them."""
    if not config.evaluate.sets:
        return []
    for name, test in config.evaluate.tests.items():
        if test.domain is not None:
            check_choice(test.domain, config.domains, f"{config.path}: evaluate: tests: {name}: domain")
    runs = [run for run in config.all_output_runs() if sets_for(config, run)]
    return [_sets_step(config), *(_extra_translation_step(config, run) for run in runs)]


def import_sets(folder: Path, config: Translation) -> None:
    """Write the sets: normalised like the corpora, not filtered but for pairs with an empty side."""
    langs = config.langs
    for name, entry in sorted(config.evaluate.corpora.items()):
        with tempfile.TemporaryDirectory(dir=folder, prefix=".import-") as temporary:
            imported = Path(temporary)
            on_bad_utf8, markup = config.corpora.on_bad_utf8, config.corpora.markup
            downloads = config.work_dir / "downloads"
            import_domain(imported, name, [entry], langs, on_bad_utf8=on_bad_utf8, downloads=downloads, markup=markup)
            pairs = read_parallel(*(imported / f"{name}.{lang}" for lang in langs))
        for lang, lines in zip(langs, zip(*pairs, strict=True), strict=True):
            normal = normalise_lines(lines, lang, config.cleaning.normalise) if config.cleaning.normalise else lines
            write_lines(folder / f"{name}.{lang}", normal)
    if config.evaluate.domain_switch:
        splits, count = config.work_dir / "splits", config.evaluate.domain_switch
        drawn = draw_pairs(splits, langs, count, config.split.max_words, config.seed)
        write_pairs(folder / DOMAIN_SWITCH, langs, drawn)


def with_guessed_domains(lines: Sequence[str], teacher: Path) -> list[str]:
    """Put before every line the tag of the domain that the classifier takes it for."""
    # The classifier's libraries take seconds to import; only what needs them pays.
    from fairseq_ext.data.teacher_labels import read_teacher_record
    from fairseq_ext.teacher.classifier import MODEL_FOLDER, load_classifier

    record = read_teacher_record(teacher)
    guesses = load_classifier(teacher / MODEL_FOLDER, record["backend"]).predict(lines).argmax(axis=1)
    return [f"{domain_tag(record['domains'][guess])} {line}" for guess, line in zip(guesses, lines, strict=True)]


def _sets_step(config: Translation) -> Step:
    langs = config.langs
    sets = {name: [entry] for name, entry in config.evaluate.corpora.items()}
    clean, switch = config.cleaning.normalise, config.evaluate.domain_switch
    return Step(
        sets_dir(config),
        inputs=[*check_entries(sets, langs), *([config.work_dir / "splits"] if switch else [])],
        options={
            # As with the corpora: what is fetched is known by its name, local files by their contents.
            "sets": {name: Path(e).name if entry_paths(e, langs) else e for name, [e] in sets.items()},
            "langs": langs,
            "on_bad_utf8": config.corpora.on_bad_utf8,
            "markup": config.corpora.markup,
            "normalise": clean.model_dump() if clean else None,
            **({"joined": switch, "max_words": config.split.max_words, "seed": config.seed} if switch else {}),
        },
        build=lambda folder: import_sets(folder, config),
    )


def _extra_translation_step(config: Translation, run: OutputRun) -> Step:
    inputs, command = decoding(config, run)
    sets, names = sets_dir(config), sets_for(config, run)
    # Only outputs with an oracle domain are given the set's.
    domains = [config.evaluate.sets[name] if run.output.uses_oracle and not run.run.domain else None for name in names]

    def build(folder: Path) -> None:
        texts = {name: read_lines(sets / f"{name}.{config.source_lang}") for name in names}
        lines = [line for text in texts.values() for line in text]
        if run.output.domain_source == "classifier":
            lines = with_guessed_domains(lines, config.work_dir / "teacher")
        else:
            known = [domain for domain, text in zip(domains, texts.values(), strict=True) for _ in text]
            lines = [f"{domain_tag(d)} {line}" if d else line for d, line in zip(known, lines, strict=True)]
        typed, printed = folder / "typed.txt", folder / "interactive.txt"
        write_lines(typed, lines)
        # All lines at once, so that batches hold lines of one length.
        reading = ["--input", str(typed), "--buffer-size", str(len(lines))]
        arguments = [str(inputs[0]), *command.arguments, *reading]
        run_fairseq("interactive", arguments, output=printed, messages=folder / "interactive.log")
        write_hypotheses(folder, printed, {name: len(text) for name, text in texts.items()}, config.target_lang)

    options = {**run.output.options, "source": run.output.domain_source, "sets": names, "domains": domains}
    folder = extra_dir(config, run.name)
    return Step(folder, [*inputs, sets], options, build, commands=[command], side_by_side=True)


# Examples


def examples_step(config: Translation) -> Step:
    """The step that translates ``translate: examples``, the lines of each decoding run with the first of its models."""
    examples = config.translate.examples
    runs = {name: config.output_runs(name)[0] for name in examples}
    made = {name: decoding(config, run) for name, run in runs.items()}

    def build(folder: Path) -> None:
        blocks = []
        for name, (inputs, command) in made.items():
            printed, typed = folder / f"{name}.txt", "".join(f"{line}\n" for line in examples[name])
            gates = ["--print-gates"] if runs[name].output.gates else []
            arguments = [str(inputs[0]), *command.arguments, *gates, "--buffer-size", str(len(examples[name]))]
            run_fairseq("interactive", arguments, output=printed, typed=typed, messages=folder / f"{name}.log")
            blocks.append(f"{name}\n" + format_examples(examples[name], read_lines(printed)))
        (folder / EXAMPLES_FILE).write_text("\n".join(blocks), encoding="utf-8")

    inputs = sorted({path for paths, _ in made.values() for path in paths})
    commands = [command for _, command in made.values()]
    arguments = {name: list(command.arguments) for name, (_, command) in made.items()}
    options = {"examples": examples, "arguments": arguments}
    return Step(config.work_dir / "examples", inputs, options, build, commands=commands, side_by_side=True)


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
