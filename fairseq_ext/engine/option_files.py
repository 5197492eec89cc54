"""What fairseq's options name: files that a result depends on, and options that would leave a training without one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from fairseq_ext.inputs.errors import InputError

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


def named_files(arguments: Sequence[str], where: str, known: Sequence[Path] = ()) -> list[Path]:
    """The files and directories that options name, whose contents a result depends on.

    Those are all values that name a file, and the values of options whose last word is ``file``, ``path`` or
    ``dir``, whether they are there or not; but not what options say to write.

    Args:
        arguments: a command line of fairseq's.
        where: the step, for messages.
        known: inputs that are known already; what lies in them is left out.

    Raises:
        InputError: naming an option that wants a checkpoint and is given a directory.
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


def check_training_options(arguments: Sequence[str], where: str) -> None:
    """Check that a training keeps its result, and starts from one checkpoint at most.

    Raises:
        InputError: naming the option to take out.
    """
    starts = []
    for option, value in options_in(arguments):
        if option in _WITHOUT_RESULT:
            raise InputError(f"{where}: --{option}: {_WITHOUT_RESULT[option]}; take it out")
        if option in _CHECKPOINTS and value != _OWN_CHECKPOINT:
            starts.append(f"--{option} {value}")
    if len(starts) > 1:
        raise InputError(f"{where}: {' and '.join(starts)}: a training starts from one checkpoint; take the others out")


def options_in(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each option, without its hyphens, with each of its values; with an empty one if it has none."""
    option, is_waiting = "", False
    for argument in arguments:
        if argument.startswith("--"):
            if is_waiting:
                yield option, ""
            option, has_value, value = argument[2:].replace("_", "-").partition("=")
            is_waiting = not has_value
            if has_value:
                yield option, value
        elif option:
            yield option, argument
            is_waiting = False
    if is_waiting:
        yield option, ""


def _paths_in(option: str, value: str) -> list[str]:
    if option in _WRITTEN or not value or _is_number(value):
        return []
    if option in _CHECKPOINTS:
        return [value] if value != _OWN_CHECKPOINT else []
    parts = [value] if os.path.exists(value) else value.split(os.pathsep)
    if option.split("-")[-1] in _NAMES_A_PATH:
        return parts
    # A word such as "adam" is no path because somebody has a directory of this name.
    return [part for part in parts if os.path.isfile(part) or (os.sep in part and os.path.isdir(part))]


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True
