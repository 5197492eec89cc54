"""fairseq's command lines with this package: ``python -m fairseq_ext.tool train …`` for ``fairseq-train …``.

This package comes first here, so that fairseq loads in half the time.
"""

import ctypes
import importlib
import os
import sys
import time
from threading import Thread

_TRIM_SECONDS = 30.0


def main() -> None:
    """Run the tool that the first word names with those that follow."""
    # Before the rest of fairseq: it says where messages go.
    tool = importlib.import_module(f"fairseq_cli.{sys.argv.pop(1)}")
    import fairseq_ext.registration  # noqa: F401

    sys.argv[0] = str(tool.__file__)
    # Processes that it spawns begin with it, and find this package by --user-dir.
    sys.modules["__main__"].__spec__ = tool.__spec__
    give_back_at_times()
    tool.cli_main()


def give_back_at_times() -> None:
    """Let this process, and those that it forks, give free memory back twice a minute, if it was told to keep it.

    Kept for good, the pieces between what stays become too small for the next batch, and the process grows to several
    times what it needs.
    """
    from fairseq_ext.engine.fairseq_cli import KEEP_MEMORY

    library = ctypes.CDLL(None)

    def give_back() -> None:
        while True:
            time.sleep(_TRIM_SECONDS)
            library.malloc_trim(0)

    def start() -> None:
        Thread(target=give_back, name="memory", daemon=True).start()

    if os.environ.items() >= KEEP_MEMORY.items() and hasattr(library, "malloc_trim"):
        start()
        os.register_at_fork(after_in_child=start)


if __name__ == "__main__":
    main()
