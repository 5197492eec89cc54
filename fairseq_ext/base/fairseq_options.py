"""Options of fairseq's commands: validation by fairseq's own parsers before the first step, and files named in options.

fairseq takes seconds to import, so its parsers run in a separate process (:func:`main`).
"""

from __future__ import annotations

import json
import os
import re
import sys
from argparse import Action
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple, NoReturn

from fairseq_ext.base.children import how_it_ended, run_child
from fairseq_ext.base.errors import InputError, shown
from fairseq_ext.base.fairseq_cli import USER_DIR, options_in, own_environment

_READER = "import fairseq_ext; fairseq_ext.install(); from fairseq_ext.base.fairseq_options import main; main()"
# The program (``train`` or ``generate``) and its options, without the data directory.
Spelled = tuple[str, Sequence[str]]
# Placeholder for the data directory, which is not read.
_DATA = "data"
_FLAG = re.compile(r"--?[A-Za-z]")  # a negative number is not an option
_NUMBER = re.compile(r"[-+]?[\d.]+(e[-+]?\d+)?")
_ARGUMENT = re.compile(r"argument (-\S+): (.*)", re.DOTALL)
_CHOICE = "invalid choice: '"
_MOST_NEAR = 3

_WRITTEN = {"save-dir", "log-file", "tensorboard-logdir", "gates-output", "results-path", "plasma-path"}
_CHECKPOINTS = {"restore-file", "finetune-from-model"}
_NAMES_A_PATH = ("file", "path", "dir")
# fairseq's default: the last checkpoint of the same training run.
OWN_CHECKPOINT = "checkpoint_last.pt"
_WITHOUT_RESULT = {
    "no-save": "training would keep no checkpoint",
    "disable-validation": "training could not choose the best checkpoint",
    "checkpoint-suffix": "later steps would not find the checkpoints",
    "save-dir": "the experiment file's work_dir sets the folder of checkpoints",
}


@dataclass(frozen=True)
class FairseqCommand:
    """A fairseq command that a step will run, with the options known so far."""

    program: str  # ``train`` or ``generate``
    arguments: tuple[str, ...]  # without the data directory
    place: Callable[[str], str] = field(compare=False)  # location of an option for messages: file and keys
    extra: tuple[str, ...] = ()  # additional options from this program's command line

    @property
    def spelled(self) -> Spelled:
        """The program and all options, as passed to fairseq."""
        return self.program, (*self.arguments, *self.extra)

    def place_of(self, option: str) -> str:
        """Return where an option or a word is given."""
        is_typed = option in [argument.partition("=")[0] for argument in self.extra]
        return f"command line: {option}" if is_typed else self.place(option.lstrip("-"))


class Mistake(NamedTuple):
    """The first option that fairseq rejects, with its hyphens; an empty string if no single option is at fault."""

    # Index of the command.
    command: int
    option: str
    text: str


def check_commands(commands: Sequence[FairseqCommand]) -> None:
    """Check in one process that fairseq accepts the options of all commands. Start no process without commands."""
    different = list({command.spelled: command for command in reversed(commands)}.values())[::-1]
    mistake = first_mistake_in([command.spelled for command in different]) if different else None
    if mistake is not None:
        number, option, text = mistake
        raise InputError(f"{different[number].place_of(option)}: {text}")


def first_mistake_in(commands: Sequence[Spelled]) -> Sequence | None:
    """Return the result of :func:`first_mistake`, computed in a process with fairseq loaded."""
    result = run_child(
        [sys.executable, "-P", "-c", _READER],
        input=json.dumps(commands),
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        env=own_environment(),
    )
    if result.returncode != 0:
        sys.stderr.write(result.stderr)
        raise InputError(f"fairseq's option parser {how_it_ended(result.returncode)}")
    return json.loads(result.stdout)


def main() -> None:
    """Read commands as JSON from stdin; write the first mistake in them, or null, to stdout."""
    with redirect_stdout(sys.stderr):  # --help also prints there
        mistake = first_mistake(json.load(sys.stdin))
    print(json.dumps(mistake))


def first_mistake(commands: Iterable[Spelled]) -> Mistake | None:
    """Parse command lines with fairseq, and return the first mistake; None if all are accepted."""
    for number, (program, arguments) in enumerate(commands):
        if mistake := _mistake_in(program, arguments):
            return Mistake(number, mistake[0], f"fairseq-{program} {mistake[1]}")
    return None


def _mistake_in(program: str, arguments: Sequence[str]) -> tuple[str, str] | None:
    """Return the option that is wrong in a command line, and the reason."""
    from fairseq import options

    parser = options.get_training_parser() if program == "train" else options.get_generation_parser()
    parser.error = _raise
    known: Mapping[str, Action] = parser._option_string_actions
    for argument in {"-h", "--help"}.intersection(arguments):
        return argument, "would only print its help; remove this option"
    line = [_DATA, *arguments, "--user-dir", str(USER_DIR)]
    if program == "train":
        if not {"-a", "--arch"} & {argument.partition("=")[0] for argument in arguments}:
            return "--arch", "needs an architecture"
        # An existing base may be outdated, and architectures would read its sizes.
        line += ["--finetune-from-model", ""]
    try:
        _, unknown = options.parse_args_and_arch(parser, line, parse_known=True)
    except (Exception, SystemExit) as error:
        return _refused(str(error) or type(error).__name__, arguments, known)
    if not unknown:
        return None
    # Report the last option before the first unknown word.
    word = unknown[0].partition("=")[0]
    if not _FLAG.match(word):
        before = [each.partition("=")[0] for each in arguments[: arguments.index(word)] if _FLAG.match(each)]
        return (before or [word])[-1], f"expects no further value, got {shown(word)}; separate several values by commas"
    near = _near(word.replace("_", "-"), known)
    return word, f"has no option {word.lstrip('-')!r} here; {near or 'take it out'}"


def _raise(message: str) -> NoReturn:
    raise ValueError(message)


def _refused(message: str, arguments: Sequence[str], known: Mapping[str, Action]) -> tuple[str, str]:
    """Return the option whose value cannot be read, or that argparse reports, and the reason."""
    for option, value in options_in(arguments):
        try:
            if value and (action := known.get(f"--{option}")) is not None and callable(action.type):
                action.type(value)
        except Exception:  # fairseq's converters may raise any exception
            return f"--{option}", f"rejects its value {shown(value)}"
    match = _ARGUMENT.match(message)
    if match is None:
        return "", f"rejects these options: {message}"
    names = match[1].split("/")
    typed = [argument.partition("=")[0] for argument in arguments]
    option = next((name for name in names if name in typed), names[0])
    _, _, value = match[2].partition(_CHOICE)
    near = _near(value.partition("'")[0], known[option].choices or ()) if value else ""
    return option, f"rejects it: {match[2].partition(' (')[0]}; {near}" if near else f"rejects it: {match[2]}"


def _near(name: str, known: Iterable[str]) -> str:
    names = sorted(map(str, known))
    near = [other for other in names if other.startswith(name)] or get_close_matches(name, names, cutoff=0.75)
    return f"did you mean {' or '.join(repr(other.lstrip('-')) for other in near[:_MOST_NEAR])}?" if near else ""


def named_files(arguments: Sequence[str], where: str, known: Sequence[Path] = ()) -> list[Path]:
    """Return the files and directories named in options that a result depends on, except those in known inputs.

    These are all values that name an existing file, and the values of options whose last word is ``file``, ``path`` or
    ``dir``, even if they do not exist. Output paths are excluded.
    """
    seen = {os.path.abspath(path) for path in known}
    files: list[Path] = []
    for option, value in options_in(arguments):
        for part in _paths_in(option, value):
            if option in _CHECKPOINTS and os.path.isdir(part):
                raise InputError(f"{where}: --{option} {part}: is a directory; give a .pt file")
            place = Path(os.path.abspath(part))
            if seen.isdisjoint(map(str, (place, *place.parents))):
                seen.add(str(place))
                files.append(Path(part))
    return files


def _paths_in(option: str, value: str) -> list[str]:
    if option in _WRITTEN or not value or _NUMBER.fullmatch(value):
        return []
    if option in _CHECKPOINTS:
        return [value] if value != OWN_CHECKPOINT else []
    parts = [value] if os.path.exists(value) else value.split(os.pathsep)
    if option.split("-")[-1] in _NAMES_A_PATH:
        return parts
    # The word "adam" is not a path even if a directory has that name.
    return [part for part in parts if os.path.isfile(part) or (os.sep in part and os.path.isdir(part))]


def check_training_options(arguments: Sequence[str], where: str) -> None:
    """Check that a training run keeps its result, and starts from at most one checkpoint."""
    starts = []
    for option, value in options_in(arguments):
        if option in _WITHOUT_RESULT:
            raise InputError(f"{where}: --{option}: {_WITHOUT_RESULT[option]}; remove it")
        if option in _CHECKPOINTS and value != OWN_CHECKPOINT:
            starts.append(f"--{option} {value}")
    if len(starts) > 1:
        raise InputError(
            f"{where}: {' and '.join(starts)}: training can start from only one checkpoint; remove the others"
        )
