"""Options of fairseq's commands: checked by fairseq's own parsers before the first step, and the files that they name.

fairseq takes seconds to import, so its parsers run in a process of their own (:func:`main`).
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

from fairseq_ext.engine.children import how_it_ended, run_child
from fairseq_ext.engine.fairseq_cli import USER_DIR, options_in, own_environment
from fairseq_ext.inputs.errors import InputError, shown

_READER = "import fairseq_ext.registration; from fairseq_ext.engine.fairseq_options import main; main()"
# The program (``train`` or ``generate``) and its options, without the data directory.
Spelled = tuple[str, Sequence[str]]
# Stands for the data directory, which is not looked at.
_DATA = "data"
_FLAG = re.compile(r"--?[A-Za-z]")  # a negative number is none
_NUMBER = re.compile(r"[-+]?[\d.]+(e[-+]?\d+)?")
_ARGUMENT = re.compile(r"argument (-\S+): (.*)", re.DOTALL)
_CHOICE = "invalid choice: '"
_MOST_NEAR = 3

_WRITTEN = {"save-dir", "log-file", "tensorboard-logdir", "gates-output", "results-path", "plasma-path"}
_CHECKPOINTS = {"restore-file", "finetune-from-model"}
_NAMES_A_PATH = ("file", "path", "dir")
# fairseq's default, which stands for the training's own.
_OWN_CHECKPOINT = "checkpoint_last.pt"
_WITHOUT_RESULT = {
    "no-save": "no checkpoint would be kept",
    "disable-validation": "no checkpoint would be the best",
    "checkpoint-suffix": "the checkpoints would not be found",
    "save-dir": "the checkpoints lie where the experiment file's work_dir says",
}


@dataclass(frozen=True)
class FairseqCommand:
    """A command that a step will run, as far as its options are known already."""

    program: str  # ``train`` or ``generate``
    arguments: tuple[str, ...]  # without the data directory
    place: Callable[[str], str] = field(compare=False)  # where an option is given, for messages: file and keys
    extra: tuple[str, ...] = ()  # more options, from this program's own command line

    @property
    def spelled(self) -> Spelled:
        """What fairseq gets to see."""
        return self.program, (*self.arguments, *self.extra)

    def place_of(self, option: str) -> str:
        """Where an option or a word is given."""
        is_typed = option in [argument.partition("=")[0] for argument in self.extra]
        return f"command line: {option}" if is_typed else self.place(option.lstrip("-"))


class Mistake(NamedTuple):
    """The first option, with its hyphens, that fairseq does not take; none if it is not one option that is wrong."""

    # The number of its command.
    command: int
    option: str
    text: str


def check_commands(commands: Sequence[FairseqCommand]) -> None:
    """Check that fairseq takes the options of commands, in one process for all; none is started without commands."""
    different = list({command.spelled: command for command in reversed(commands)}.values())[::-1]
    found = first_mistake_in([command.spelled for command in different]) if different else None
    if found is not None:
        number, option, text = found
        raise InputError(f"{different[number].place_of(option)}: {text}")


def first_mistake_in(commands: Sequence[Spelled]) -> Sequence | None:
    """What :func:`first_mistake` returns, from a process that has fairseq loaded."""
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
        raise InputError(f"fairseq's parser of options {how_it_ended(result.returncode)}")
    return json.loads(result.stdout)


def main() -> None:
    """Read commands as JSON from stdin; write the first mistake in them, or null, to stdout."""
    with redirect_stdout(sys.stderr):  # where --help goes, too
        found = first_mistake(json.load(sys.stdin))
    print(json.dumps(found))


def first_mistake(commands: Iterable[Spelled]) -> Mistake | None:
    """Let fairseq read command lines, up to the first that it does not take."""
    for number, (program, arguments) in enumerate(commands):
        if found := _mistake_in(program, arguments):
            return Mistake(number, found[0], f"fairseq-{program} {found[1]}")
    return None


def _mistake_in(program: str, arguments: Sequence[str]) -> tuple[str, str] | None:
    """The option that is wrong in a command line, and what is wrong with it."""
    from fairseq import options

    parser = options.get_training_parser() if program == "train" else options.get_generation_parser()
    parser.error = _raise
    known: Mapping[str, Action] = parser._option_string_actions
    for argument in {"-h", "--help"}.intersection(arguments):
        return argument, "would only print its help; take this out"
    line = [_DATA, *arguments, "--user-dir", str(USER_DIR)]
    if program == "train":
        if not {"-a", "--arch"} & {argument.partition("=")[0] for argument in arguments}:
            return "--arch", "needs an architecture"
        # The base that is there may be one that is due to be trained anew; architectures would take its sizes.
        line += ["--finetune-from-model", ""]
    try:
        _, unknown = options.parse_args_and_arch(parser, line, parse_known=True)
    except (Exception, SystemExit) as error:
        return _refused(str(error) or type(error).__name__, arguments, known)
    if not unknown:
        return None
    # The last option before the first word that nothing takes is named.
    word = unknown[0].partition("=")[0]
    if not _FLAG.match(word):
        before = [each.partition("=")[0] for each in arguments[: arguments.index(word)] if _FLAG.match(each)]
        return (before or [word])[-1], f"takes no further word here, got {shown(word)}; join several by commas"
    near = _near(word.replace("_", "-"), known)
    return word, f"has no option {word.lstrip('-')!r} here; {near or 'take it out'}"


def _raise(message: str) -> NoReturn:
    raise ValueError(message)


def _refused(message: str, arguments: Sequence[str], known: Mapping[str, Action]) -> tuple[str, str]:
    """The option whose value cannot be read, or that a message of argparse is about, and what is wrong with it."""
    for option, value in options_in(arguments):
        try:
            if value and (action := known.get(f"--{option}")) is not None and callable(action.type):
                action.type(value)
        except Exception:  # whatever fairseq's own readers raise
            return f"--{option}", f"refuses its value {shown(value)}"
    found = _ARGUMENT.match(message)
    if found is None:
        return "", f"does not take these options: {message}"
    names = found[1].split("/")
    given = [argument.partition("=")[0] for argument in arguments]
    option = next((name for name in names if name in given), names[0])
    _, _, value = found[2].partition(_CHOICE)
    near = _near(value.partition("'")[0], known[option].choices or ()) if value else ""
    return option, f"refuses it: {found[2].partition(' (')[0]}; {near}" if near else f"refuses it: {found[2]}"


def _near(name: str, known: Iterable[str]) -> str:
    names = sorted(map(str, known))
    near = [other for other in names if other.startswith(name)] or get_close_matches(name, names, cutoff=0.75)
    return f"did you mean {' or '.join(repr(other.lstrip('-')) for other in near[:_MOST_NEAR])}?" if near else ""


def named_files(arguments: Sequence[str], where: str, known: Sequence[Path] = ()) -> list[Path]:
    """The files and directories that options name, whose contents a result depends on, but for those in known inputs.

    Those are all values that name a file, and the values of options whose last word is ``file``, ``path`` or
    ``dir``, whether they are there or not; but not what options say to write.
    """
    seen = {os.path.abspath(path) for path in known}
    found: list[Path] = []
    for option, value in options_in(arguments):
        for part in _paths_in(option, value):
            if option in _CHECKPOINTS and os.path.isdir(part):
                raise InputError(f"{where}: --{option} {part}: is a directory; give a checkpoint in it, a .pt file")
            place = Path(os.path.abspath(part))
            if seen.isdisjoint(map(str, (place, *place.parents))):
                seen.add(str(place))
                found.append(Path(part))
    return found


def _paths_in(option: str, value: str) -> list[str]:
    if option in _WRITTEN or not value or _NUMBER.fullmatch(value):
        return []
    if option in _CHECKPOINTS:
        return [value] if value != _OWN_CHECKPOINT else []
    parts = [value] if os.path.exists(value) else value.split(os.pathsep)
    if option.split("-")[-1] in _NAMES_A_PATH:
        return parts
    # A word such as "adam" is no path because somebody has a directory of this name.
    return [part for part in parts if os.path.isfile(part) or (os.sep in part and os.path.isdir(part))]


def check_training_options(arguments: Sequence[str], where: str) -> None:
    """Check that a training keeps its result, and starts from one checkpoint at most."""
    starts = []
    for option, value in options_in(arguments):
        if option in _WITHOUT_RESULT:
            raise InputError(f"{where}: --{option}: {_WITHOUT_RESULT[option]}; take it out")
        if option in _CHECKPOINTS and value != _OWN_CHECKPOINT:
            starts.append(f"--{option} {value}")
    if len(starts) > 1:
        raise InputError(f"{where}: {' and '.join(starts)}: a training starts from one checkpoint; take the others out")
