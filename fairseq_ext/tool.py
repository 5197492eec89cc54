"""fairseq's commands with this package: ``python -m fairseq_ext.tool train …`` for ``fairseq-train …``."""

import ctypes
import importlib
import os
import sys
import time
from threading import Thread

from fairseq_ext import install

_TRIM_SECONDS = 30.0


def main() -> None:
    """Run the tool named by the first argument with the remaining arguments."""
    # Import the tool before the rest of fairseq: it configures logging.
    tool = importlib.import_module(f"fairseq_cli.{sys.argv.pop(1)}")
    install()
    sys.argv[0] = str(tool.__file__)
    # Spawned processes start with the tool as their main module, and load this package by --user-dir.
    sys.modules["__main__"].__spec__ = tool.__spec__
    give_back_at_times()
    tool.cli_main()


def give_back_at_times() -> None:
    """Return free memory to the system twice a minute if the allocator is configured to keep it.

    This also applies to forked processes. Without it, memory fragments until the process uses several times what it
    needs.
    """
    from fairseq_ext.base.fairseq_cli import KEEP_MEMORY

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
