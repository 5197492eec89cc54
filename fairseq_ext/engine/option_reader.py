"""What is wrong with options of fairseq's, found by fairseq's own parsers.

A program of its own, started by :mod:`fairseq_ext.engine.fairseq_options`, because fairseq takes seconds to import;
the registration comes before, so that all architectures, tasks and criterions are there.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from difflib import get_close_matches
from typing import Any, NamedTuple, NoReturn

from fairseq import options

from fairseq_ext.engine.fairseq_cli import USER_DIR
from fairseq_ext.inputs.errors import shown

_PARSERS: dict[str, Callable[[], argparse.ArgumentParser]] = {
    "train": options.get_training_parser,
    "generate": options.get_generation_parser,
}
# Stands for the data directory, which is not looked at.
_DATA = "data"
# A negative number is none.
_FLAG = re.compile(r"--?[A-Za-z]")
_TYPES = {int: "a whole number", float: "a number", str: "text"}
_ALIKE = 0.75
_MOST_LISTED, _MOST_NEAR = 12, 3


class Mistake(NamedTuple):
    """The first option that fairseq does not take.

    Attributes:
        command: the number of its command.
        part: the number of the part of that command.
        flag: the option with its hyphens; empty if it is not one option that is wrong.
        text: what is wrong.
    """

    command: int
    part: int
    flag: str
    text: str


class _Given(NamedTuple):
    """An option in a part of a command line, with its values."""

    part: int
    flag: str
    values: list[str]


def first_mistake(commands: Iterable[tuple[str, Sequence[Sequence[str]]]]) -> Mistake | None:
    """Let fairseq read command lines, up to the first that it does not take.

    Args:
        commands: of each, the program (``train`` or ``generate``) and the parts of its command line, less the data
            directory.
    """
    for number, (program, parts) in enumerate(commands):
        if found := _mistake_in(program, parts):
            given, text = found
            return Mistake(number, given.part, given.flag, f"fairseq-{program} {text}")
    return None


def _mistake_in(program: str, parts: Sequence[Sequence[str]]) -> tuple[_Given, str] | None:
    parser = _PARSERS[program]()
    parser.exit_on_error, parser.error = False, _raise  # type: ignore[method-assign]
    line = [_DATA, *(argument for part in parts for argument in part), "--user-dir", str(USER_DIR)]
    if program == "train":
        # The base that is there may be one that is due to be trained anew; architectures would take its sizes.
        line += ["--finetune-from-model", ""]
    unknown, message = [], ""
    try:
        _, unknown = options.parse_args_and_arch(parser, line, parse_known=True)
    # A value such as "0.1." lets fairseq's parser raise anything, and --help ends it.
    except (Exception, SystemExit) as error:
        message = str(error) or type(error).__name__
    if not unknown and not message:
        return None
    given, actions = _options_in(parts), parser._option_string_actions
    for option in given:
        # What options there are is only known to a parser that came to its end.
        if option.flag in actions or unknown:
            text = _what_is_wrong(option, actions)
            if text is not None:
                return option, text
    if program == "train" and not {"--arch", "-a"} & {option.flag for option in given}:
        return _Given(0, "--arch", []), "needs an architecture"
    return _Given(0, "", []), f"does not take its options: {message or ' '.join(unknown)}"


def _raise(message: str) -> NoReturn:
    raise ValueError(message)


def _options_in(parts: Sequence[Sequence[str]]) -> list[_Given]:
    """The options of all parts; words that a part begins with have an empty flag."""
    found: list[_Given] = []
    for number, part in enumerate(parts):
        for argument in part:
            if _FLAG.match(argument):
                flag, has_value, value = argument.partition("=")
                found.append(_Given(number, flag, [value] if has_value else []))
            elif found and found[-1].part == number:
                found[-1].values.append(argument)
            else:
                found.append(_Given(number, "", [argument]))
    return found


def _what_is_wrong(option: _Given, actions: Mapping[str, argparse.Action]) -> str | None:
    if not option.flag:
        return f"takes no further words, got {', '.join(map(shown, option.values))}"
    if option.flag not in actions:
        return _unknown_option(option.flag, actions)
    if isinstance(actions[option.flag], argparse._HelpAction):
        return "would only print its help; take this out"
    return _wrong_number(actions[option.flag], option.values) or _wrong_value(actions[option.flag], option.values)


def _unknown_option(flag: str, known: Iterable[str]) -> str:
    name = flag.replace("_", "-").lstrip("-")
    names = sorted(other[2:] for other in known if other.startswith("--"))
    near = [other for other in names if other.startswith(name)] or get_close_matches(name, names, cutoff=_ALIKE)
    if near:
        return f"has no option {flag.lstrip('-')!r}; did you mean {_either(near)}?"
    return f"has no option {flag.lstrip('-')!r} with this task, architecture, criterion and optimizer; take it out"


def _wrong_number(action: argparse.Action, values: Sequence[str]) -> str | None:
    """What is wrong with how many values an option has; None if nothing is."""
    given = ", ".join(map(shown, values))
    if action.nargs == 0 and values:
        return f"takes no value here, got {given}; give true, or leave it out"
    if action.nargs not in (0, "?", "*") and not values:
        return "needs a value here"
    if action.nargs in (None, "?") and len(values) > 1:
        hint = "; join them by commas, as one text" if isinstance(_read(action.type, "1"), list) else ""
        return f"takes one value here, got {given}{hint}"
    return None


def _wrong_value(action: argparse.Action, values: Sequence[str]) -> str | None:
    """What is wrong with the values themselves; None if nothing is."""
    for value in values:
        read = _read(action.type, value)
        if read is None:
            return f"expects {_expected(action.type)}, got {shown(value)}"
        if action.choices is not None and read not in action.choices:
            return f"knows no {shown(value)}; {_choose(value, [str(choice) for choice in action.choices])}"
    return None


def _read(kind: Any, value: str) -> Any:
    """What fairseq reads a value as; None if it cannot."""
    try:
        return value if kind is None else kind(value)
    except Exception:  # whatever its own readers raise
        return None


def _expected(kind: Any) -> str:
    """What a reader of values takes: a type, or a function of fairseq's that makes a list."""
    if kind in _TYPES:
        return _TYPES[kind]
    read = _read(kind, "1")
    return f"{_TYPES[type(read[0])]}, or several joined by commas" if isinstance(read, list) else "another value"


def _choose(value: str, choices: Sequence[str]) -> str:
    near = get_close_matches(value, choices) or [choice for choice in choices if value in choice]
    if near:
        return f"did you mean {_either(near)}?"
    return f"choose one of {', '.join(choices)}" if len(choices) <= _MOST_LISTED else "its --help lists what there is"


def _either(names: Sequence[str]) -> str:
    return " or ".join(map(repr, names[:_MOST_NEAR]))


def main() -> None:
    """Read commands as JSON from stdin; write the first mistake in them, or null, to stdout."""
    with redirect_stdout(sys.stderr):  # where --help goes, too
        found = first_mistake(json.load(sys.stdin))
    print(json.dumps(found))
