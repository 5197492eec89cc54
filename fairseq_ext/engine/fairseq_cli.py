"""Calling fairseq's command lines with the options of an experiment file."""

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

from fairseq_ext.engine.children import how_it_ended, run_child
from fairseq_ext.engine.progress import progress
from fairseq_ext.inputs.errors import InputError, shown

_OPTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_UPDATE = re.compile(r"epoch (\d+): +(\d+) / (\d+) .*?\bloss=([\d.]+).*?\bnum_updates=(\d+)")
_LAST_LINES, _LAST_BYTES = 20, 16 << 10  # of its messages
# glibc gives large free blocks back to the kernel, which cleans and maps them anew for every batch; training on a CPU
# spends a third to a half of its time on that, unless the process keeps them.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}
USER_DIR = Path(__file__).resolve().parents[1]


def option_of(options: Mapping[str, Any], name: str) -> Any:
    """An option of fairseq's, whose words may be joined by hyphens or underscores; None if it is not given."""
    return options.get(name, options.get(name.replace("-", "_")))


def check_option(name: str, where: str) -> None:
    """Check that this can be the name of one of fairseq's options."""
    if not _OPTION.fullmatch(name):
        raise InputError(f"{where}: {shown(name)} is no name of an option; use letters, digits, '-' and '_' only")


def check_counts(options: Mapping[str, Any], names: Sequence[str], where: str) -> None:
    """Check those options of fairseq's that this program counts with itself: whole numbers above zero, if given."""
    for name in names:
        value = option_of(options, name)
        # isinstance(True, int) holds.
        if value is not None and (type(value) is not int or value < 1):
            raise InputError(f"{where}: {name}: expected a whole number above 0, got {shown(value)}")


def as_arguments(options: Mapping[str, Any]) -> list[str]:
    """Options as a command line: ``{"lr": 0.1, "fp16": True}`` becomes ``--lr 0.1 --fp16``.

    False and None leave an option out; a list gives it several values.
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


def own_environment() -> dict[str, str]:
    """The environment of a program that finds this package; fairseq loads faster where it comes second."""
    path = os.pathsep.join([str(USER_DIR.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    # Warnings of fairseq's own dependencies about each other tell a user nothing.
    return os.environ | {"PYTHONPATH": path, "PYTHONWARNINGS": "ignore"}


def run_fairseq(
    tool: str, arguments: Sequence[str], output: Path | None = None, typed: str = "", messages: Path | None = None
) -> None:
    """Run ``fairseq-TOOL``, which reads ``typed``, with this package as its user directory.

    What it prints goes to ``output``, or where its messages go: these are added to a file, or go to stderr.
    """
    # -P: a folder of the user's, say one named "examples", must not pass for a module.
    command = [sys.executable, "-P", "-m", "fairseq_ext.tool", tool, *arguments, "--user-dir", str(USER_DIR)]
    environment = KEEP_MEMORY | own_environment()
    # Each training under torchrun meets at a store of its own, not at the one they would share.
    environment.pop("TORCHELASTIC_USE_AGENT_STORE", None)
    with ExitStack() as files:
        stderr = files.enter_context(messages.open("a", encoding="utf-8")) if messages else None
        stdout = files.enter_context(output.open("w", encoding="utf-8")) if output else stderr or sys.stderr
        status = run_child(command, input=typed, stdout=stdout, stderr=stderr, env=environment, text=True).returncode
    if status == -signal.SIGINT:
        raise KeyboardInterrupt
    if status != 0:
        if messages is not None:
            lines = last_lines(messages).splitlines()[-_LAST_LINES:]
            print(*lines, f"(the end of {messages})", sep="\n", file=sys.stderr)
        raise InputError(f"fairseq-{tool} {how_it_ended(status)}")


def run_training(label: str, arguments: Sequence[str], log: Path) -> None:
    """Run ``fairseq-train``, tell how far it is on stderr, and add what it says itself to a file."""
    with progress(label, partial(training_progress, log, arguments)):
        run_fairseq("train", [*arguments, "--log-format", "simple", "--log-interval", "100"], messages=log)


def last_lines(path: Path) -> str:
    """The end of a text file that may be being written, or nothing."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _LAST_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def training_progress(log: Path, arguments: Sequence[str]) -> tuple[float, str] | None:
    """The part of its epochs or updates that a training of fairseq's has done, as its log's last lines say."""
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
    """Let nothing through but warnings: with fairseq loaded, every library says all that it could."""
    logging.basicConfig()  # before one of them does, with a level of its own
    logging.getLogger().setLevel(logging.WARNING)
    # What fairseq's own dependencies warn of tells a user nothing.
    warnings.filterwarnings("ignore", module="torch")
