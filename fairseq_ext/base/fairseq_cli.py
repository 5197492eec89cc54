"""Run fairseq's command-line tools with the options of an experiment file."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_ext.base.children import how_it_ended, run_child
from fairseq_ext.base.errors import InputError, shown
from fairseq_ext.base.progress import progress

_OPTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_UPDATE = re.compile(r"epoch (\d+): +(\d+) / (\d+) .*?\bloss=([\d.]+).*?\bnum_updates=(\d+)")
_LAST_LINES, _LAST_BYTES = 20, 16 << 10  # of a log file
# glibc returns large free blocks to the kernel, which clears and maps them again for every batch. Keeping them saves a
# third to a half of the training time on a CPU.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}
USER_DIR = Path(__file__).resolve().parents[1]


def option_of(options: Mapping[str, Any], name: str) -> Any:
    """Return one of fairseq's options, spelled with hyphens or underscores; None if it is not given."""
    return options.get(name, options.get(name.replace("-", "_")))


def check_option(name: str, where: str) -> None:
    """Check that a string can be the name of a fairseq option."""
    if not _OPTION.fullmatch(name):
        raise InputError(
            f"{where}: {shown(name)} is not a valid option name; use only letters, digits, '-', '_' and '.'"
        )


def check_counts(options: Mapping[str, Any], names: Sequence[str], where: str) -> None:
    """Check that the named options, if given, are positive integers."""
    for name in names:
        value = option_of(options, name)
        # bool is a subclass of int.
        if value is not None and (type(value) is not int or value < 1):
            raise InputError(f"{where}: {name}: expected a whole number above 0, got {shown(value)}")


def as_arguments(options: Mapping[str, Any]) -> list[str]:
    """Convert options to a command line: ``{"lr": 0.1, "fp16": True}`` becomes ``--lr 0.1 --fp16``.

    Options that are False or None are left out. A list gives an option several values.
    """
    arguments: list[str] = []
    for key, value in options.items():
        if value is None or value is False:
            continue
        arguments.append("--" + key.replace("_", "-"))
        if value is not True:
            arguments += [str(item) for item in value] if isinstance(value, list) else [str(value)]
    return arguments


def options_in(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each option, without its hyphens, with each of its values. An option without values has an empty value."""
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


def own_environment() -> dict[str, str]:
    """Return the environment for a program that imports this package."""
    path = os.pathsep.join([str(USER_DIR.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    # Users cannot act on warnings of fairseq's dependencies about each other.
    return os.environ | {"PYTHONPATH": path, "PYTHONWARNINGS": "ignore"}


def run_fairseq(tool: str, arguments: Sequence[str], output: Path | None = None, messages: Path | None = None) -> None:
    """Run ``fairseq-TOOL`` with this package as its user directory.

    Args:
        tool: name of the tool, such as ``train``.
        arguments: options of the tool.
        output: file for standard output; by default it goes where the messages go.
        messages: file that the messages are appended to; stderr by default.
    """
    # -P: a folder of the user, such as "examples", must not hide a module.
    command = [sys.executable, "-P", "-m", "fairseq_ext.tool", tool, *arguments, "--user-dir", str(USER_DIR)]
    environment = KEEP_MEMORY | own_environment()
    # Each training run under torchrun needs a separate store; torchrun's agent store would be shared.
    environment.pop("TORCHELASTIC_USE_AGENT_STORE", None)
    with ExitStack() as files:
        stderr = files.enter_context(messages.open("a", encoding="utf-8")) if messages else None
        stdout = files.enter_context(output.open("w", encoding="utf-8")) if output else stderr or sys.stderr
        status = run_child(command, input="", stdout=stdout, stderr=stderr, env=environment, text=True).returncode
    if status == -signal.SIGINT:
        raise KeyboardInterrupt
    if status != 0:
        if messages is not None:
            lines = last_lines(messages).splitlines()[-_LAST_LINES:]
            print(*lines, f"(the end of {messages})", sep="\n", file=sys.stderr)
        raise InputError(f"fairseq-{tool} {how_it_ended(status)}")


def run_training(label: str, arguments: Sequence[str], log: Path) -> None:
    """Run ``fairseq-train``, show its progress on stderr, and append its own messages to a log file."""
    with progress(label, partial(training_progress, log, arguments)):
        run_fairseq("train", [*arguments, "--log-format", "simple", "--log-interval", "100"], messages=log)


def last_lines(path: Path) -> str:
    """Return the end of a text file, which may still be growing; an empty string if it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _LAST_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def training_progress(log: Path, arguments: Sequence[str]) -> tuple[float, str] | None:
    """Return the fraction of epochs or updates that a training run has done, and a description, from its log."""
    found = _UPDATE.findall(last_lines(log))
    options = dict(options_in(arguments))
    epochs, updates = (float(options.get(name, 0)) for name in ("max-epoch", "max-update"))
    if not found or max(epochs, updates) <= 0:
        return None
    epoch, place, length, loss, update = map(float, found[-1])
    by_epoch = (epoch - 1 + place / max(length, 1)) / epochs if epochs > 0 else 0.0
    by_update = update / updates if updates > 0 else 0.0
    words = f"update {update:,.0f} of {updates:,.0f}" if by_update > by_epoch else f"epoch {epoch:.0f} of {epochs:.0f}"
    return min(max(by_epoch, by_update), 1.0), f"{words}, loss {loss:.2f}"


def quieten_fairseq() -> None:
    """Show only warnings. Once fairseq is loaded, every library would log at its most verbose level."""
    logging.basicConfig()  # first, before a library sets another level
    logging.getLogger().setLevel(logging.WARNING)
    # Users cannot act on warnings of fairseq's dependencies.
    warnings.filterwarnings("ignore", module="torch")
