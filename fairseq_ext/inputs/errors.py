"""The one error a user's input can cause, and how a command line ends with it."""

from __future__ import annotations

import errno
import os
import reprlib
import signal
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

# Of a line that is longer, the middle is left out: what is wrong comes first, how to mend it last.
_LONGEST_LINE = 1200
_SHOWN = reprlib.Repr()
_SHOWN.maxlevel, _SHOWN.maxstring, _SHOWN.maxother = 3, 80, 80
# A full or read-only disk, missing rights, a name that is too long, a file where a directory should be: no traceback
# helps there.
_ENVIRONMENT = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EACCES, errno.EPERM),
    *(errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP),
)


class InputError(Exception):
    """Something the user gave cannot be used; the message says what, where, and how to mend it, in one line.

    An ordinary exception in library code. Command lines end with its line on stderr and status 1: ours by
    :func:`run_command`, fairseq's by :mod:`fairseq_ext.patches.commands`.
    """


_IN_TRACEBACK = f"\n{InputError.__module__}.{InputError.__qualname__}: "


def shown(value: Any) -> str:
    """A value for a message: its ``repr``, shortened in length, depth and number of items."""
    return _SHOWN.repr(value)


def check_choice(value: Any, allowed: Sequence[str], where: str) -> None:
    """Raise InputError unless ``value`` is one of the allowed ones."""
    if value not in allowed:
        raise InputError(f"{where}: {shown(value)} is unknown; choose one of {', '.join(allowed)}")


def input_error_in(error: BaseException | None) -> InputError | None:
    """The input error that an exception is, or came from; None if there is none."""
    while error is not None:
        if isinstance(error, InputError):
            return error
        error = error.__cause__ or error.__context__
    return None


def is_environment(error: OSError) -> bool:
    """Whether this is about the user's disk, rights or names, which the error's own message tells best."""
    return error.errno in _ENVIRONMENT


def line_of(error: InputError) -> str:
    """Its message as one printable line of bounded length.

    Of one that crossed from another process, the traceback in front is left out. Line breaks and control characters,
    which names of files may hold, are escaped.
    """
    message = str(error).rpartition(_IN_TRACEBACK)[2].rstrip()
    if len(message) > _LONGEST_LINE:
        message = f"{message[: _LONGEST_LINE * 2 // 3]} … {message[-_LONGEST_LINE // 3 :]}"
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in message)


class _Terminated(KeyboardInterrupt):
    """SIGTERM, which would else end the program without cleaning up."""


def _terminate(*_: object) -> None:
    raise _Terminated


def run_command(main: Callable[[], None]) -> None:
    """Run a program; what its user can mend ends it with one line on stderr, and status 1.

    Its status is 130 when stopped by Ctrl-C, 143 by SIGTERM, after which it cleans up alike, and 141, as the shell has
    it, when the reader of its output has gone.
    """
    signal.signal(signal.SIGTERM, _terminate)
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes once more as it ends; let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(141) from None
    except KeyboardInterrupt as stop:
        print("stopped; the same command goes on from here", file=sys.stderr)
        raise SystemExit(143 if isinstance(stop, _Terminated) else 130) from None
    except InputError as error:
        raise SystemExit(line_of(error)) from None
    except ModuleNotFoundError as error:
        if find_spec("torch") is not None:
            raise
        raise SystemExit(f"{error}: this needs what trains, too; pip install 'fairseq-ext[train]'") from None
    except OSError as error:
        if not is_environment(error):
            raise
        raise SystemExit(line_of(InputError(f"{error}; mend that and run the same command again"))) from None
