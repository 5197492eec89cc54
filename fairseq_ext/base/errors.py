"""The error for invalid user input, and how commands report it."""

from __future__ import annotations

import errno
import os
import reprlib
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# Longer lines are cut in the middle: the problem is stated at the start, and the remedy at the end.
_LONGEST_LINE = 1200
_SHOWN = reprlib.Repr()
_SHOWN.maxlevel, _SHOWN.maxstring, _SHOWN.maxother = 3, 80, 80
# Errors where a traceback does not help: a full or read-only disk, missing permissions, a too long name, a file instead
# of a directory.
_ENVIRONMENT = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ENOMEM, errno.EACCES, errno.EPERM),
    *(errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP),
)
# Of the loader of libraries, PyTorch and C++ libraries, whose errors have no kind of their own.
_NO_MEMORY = ("failed to map segment", "can't allocate memory", "bad_alloc")


class InputError(Exception):
    """User input is invalid; the message states in one line the problem, its location and a remedy.

    In library code, this is an ordinary exception. Commands print its line to stderr and exit with status 1, see
    :func:`run_command` and, for fairseq's commands, :mod:`fairseq_ext.patches.commands`.
    """


_IN_TRACEBACK = f"\n{InputError.__module__}.{InputError.__qualname__}: "


def shown(value: Any) -> str:
    """Return the ``repr`` of a value for a message, limited in length, depth and number of items."""
    return _SHOWN.repr(value)


def check_choice(value: Any, allowed: Sequence[str], where: str) -> None:
    """Raise InputError unless ``value`` is one of the allowed values."""
    if value not in allowed:
        raise InputError(f"{where}: {shown(value)} is unknown; choose one of {', '.join(allowed)}")


@contextmanager
def naming(what: Path | str) -> Iterator[None]:
    """Prefix the messages of InputError with the name of a file or place."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{what}: {error}") from None


def input_error_in(error: BaseException | None) -> InputError | None:
    """Return the first InputError in the chain of an exception and its causes, or None."""
    while error is not None:
        if isinstance(error, InputError):
            return error
        error = error.__cause__ or error.__context__
    return None


def is_environment(error: OSError) -> bool:
    """Return whether an error is due to the disk, permissions or file names, and its message is sufficient."""
    return error.errno in _ENVIRONMENT


def line_of(error: InputError) -> str:
    """Return the message of an error as one printable line of bounded length.

    The traceback in front of a message from another process is removed. Line breaks and control characters, which file
    names can contain, are escaped.
    """
    message = str(error).rpartition(_IN_TRACEBACK)[2].rstrip()
    if len(message) > _LONGEST_LINE:
        message = f"{message[: _LONGEST_LINE * 2 // 3]} … {message[-_LONGEST_LINE // 3 :]}"
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in message)


class _Terminated(KeyboardInterrupt):
    """Raised on SIGTERM, which would otherwise end the program without cleaning up."""


def _terminate(*_: object) -> None:
    raise _Terminated


def run_command(main: Callable[[], None]) -> None:
    """Run a program; errors that the user can fix end it with one line on stderr and status 1.

    The exit status is 130 after Ctrl-C, 143 after SIGTERM (also with cleanup), and 141, as in shells, if the reader of
    its output has closed the pipe.
    """
    signal.signal(signal.SIGTERM, _terminate)
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes stdout again at exit; discard that output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(141) from None
    except KeyboardInterrupt as stop:
        print("stopped; run the same command to continue", file=sys.stderr)
        raise SystemExit(143 if isinstance(stop, _Terminated) else 130) from None
    except InputError as error:
        raise SystemExit(line_of(error)) from None
    except ModuleNotFoundError as error:
        if find_spec("torch") is not None:
            raise
        raise SystemExit(
            f"{error}: this command needs the training packages; pip install 'fairseq-ext[train]'"
        ) from None
    except OSError as error:
        if not is_environment(error):
            raise
        raise SystemExit(line_of(InputError(f"{error}; correct this and run the same command again"))) from None
    except (MemoryError, ImportError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not any(words in str(error) for words in _NO_MEMORY):
            raise
        raise SystemExit(
            line_of(InputError(f"out of memory ({error}); raise the limit, or use less at once"))
        ) from None
