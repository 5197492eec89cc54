"""fairseq's command lines with this package: ``python -m fairseq_ext.tool train …`` for ``fairseq-train …``.

This package comes first here, so that fairseq loads in half the time.
"""

import importlib
import sys


def main() -> None:
    """Run the tool that the first word names with those that follow."""
    # Before the rest of fairseq: it says where messages go.
    tool = importlib.import_module(f"fairseq_cli.{sys.argv.pop(1)}")
    import fairseq_ext.registration  # noqa: F401
    from fairseq_ext.engine.kept_memory import give_back_at_times

    sys.argv[0] = str(tool.__file__)
    # Processes that it spawns begin with it, and find this package by --user-dir.
    sys.modules["__main__"].__spec__ = tool.__spec__
    give_back_at_times()
    tool.cli_main()


if __name__ == "__main__":
    main()
