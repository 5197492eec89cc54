"""fairseq's command lines end with one line where the user's input is at fault."""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from fairseq.distributed import utils as distributed_utils
from torch.multiprocessing.spawn import ProcessRaisedException

from fairseq_ext.inputs.errors import InputError, input_error_in, line_of

_AS_TEXT = f"{InputError.__module__}.{InputError.__name__}: "


def end_commands_with_one_line() -> None:
    """Turn an :class:`InputError` into its line and exit status 1 in all of fairseq's commands, and only there.

    Most of them pass ``call_main``, which Hydra would otherwise give a traceback of its own; ``fairseq-generate``, and
    whatever fails before, ends in the interpreter's hook.
    """
    if not hasattr(distributed_utils.call_main, "__wrapped__"):
        distributed_utils.call_main = _ending(distributed_utils.call_main)
        sys.excepthook = _explaining(sys.excepthook)


def _ending(call_main: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call_main)
    def call_and_end(*args: Any, **kwargs: Any) -> Any:
        try:
            return call_main(*args, **kwargs)
        except Exception as error:
            if (line := _line_in(error)) is None:
                raise
            raise SystemExit(line) from None

    return call_and_end


def _explaining(hook: Callable[..., Any]) -> Callable[..., Any]:
    def explain(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        line = _line_in(error) if _is_of_a_command(trace) else None
        if line is None:
            hook(kind, error, trace)
        else:
            print(line, file=sys.stderr)

    return explain


def _line_in(error: BaseException) -> str | None:
    """The line of the input error that ended the program; None if it was something else."""
    if isinstance(error, ProcessRaisedException):  # one of several processes; its traceback comes as text
        lines = [line for line in str(error).splitlines() if line.startswith(_AS_TEXT)]
        return lines[-1].removeprefix(_AS_TEXT) if lines else None
    found = input_error_in(error)  # fairseq wraps what goes wrong with a checkpoint in an exception of its own
    return None if found is None else line_of(found)


def _is_of_a_command(trace: TracebackType | None) -> bool:
    return any(
        frame.f_code.co_name == "cli_main" and Path(frame.f_code.co_filename).parent.name == "fairseq_cli"
        for frame, _ in traceback.walk_tb(trace)
    )
