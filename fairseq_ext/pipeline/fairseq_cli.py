"""Calling fairseq's command lines with the options of an experiment file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from fairseq_ext.errors import InputError

# glibc gives large free blocks back to the kernel, which cleans and maps them anew for every batch. Training on a CPU
# spends a third to a half of its time on that, unless the process keeps them.
_KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}

USER_DIR = Path(__file__).resolve().parents[1]


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


def run_fairseq(
    tool: str,
    arguments: Sequence[str],
    output: Path | None = None,
    typed: str = "",
    messages: Path | None = None,
) -> None:
    """Run ``fairseq-TOOL`` with this package as its user directory; messages go to stderr.

    Args:
        tool: ``train``, ``generate``, ….
        arguments: its command line.
        output: file for what the tool prints on stdout; None for none.
        typed: its standard input.
        messages: file for what it says on stderr; None for this program's stderr.

    Raises:
        InputError: if it fails; its own messages came before.
    """
    command = [sys.executable, "-m", f"fairseq_cli.{tool}", *arguments, "--user-dir", str(USER_DIR)]
    # Warnings of fairseq's own dependencies about each other tell a user nothing.
    environment = _KEEP_MEMORY | os.environ | {"PYTHONWARNINGS": "ignore"}
    # Each training under torchrun meets at a store of its own, not at the one they would share.
    environment.pop("TORCHELASTIC_USE_AGENT_STORE", None)
    with _stdout_for(output) as stdout, _stderr_for(messages) as stderr:
        status = subprocess.run(
            command, input=typed, stdout=stdout, stderr=stderr, env=environment, text=True, check=False, close_fds=False
        ).returncode  # open descriptors: the step's lock
    if status != 0:
        if messages is not None:
            sys.stderr.write(messages.read_text(encoding="utf-8", errors="replace"))
        raise InputError(f"fairseq-{tool} ended with status {status}; the reason is above")


def _stdout_for(output: Path | None) -> AbstractContextManager[Any]:
    """Where stdout goes: to the file; else, being fairseq's log, to stderr, or nowhere beside a progress bar."""
    if output is not None:
        return output.open("w", encoding="utf-8")
    return open(os.devnull, "w") if sys.stderr.isatty() else nullcontext(sys.stderr)


def _stderr_for(messages: Path | None) -> AbstractContextManager[Any]:
    return nullcontext() if messages is None else messages.open("w", encoding="utf-8")
