"""The command that looks through checkpoints without making anything of them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from fairseq_ext.patches.checkpoints import check_checkpoint, load_checkpoints_safely


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``fairseq-ext check``."""
    parser = argparse.ArgumentParser(
        description="Look through checkpoints of fairseq's: whether they hold anything but weights and plain options, "
        "and name anything but the models and tasks that are used here. Nothing is built of them."
    )
    parser.add_argument("checkpoints", type=Path, nargs="+", metavar="FILE.pt", help="checkpoints, one or more")
    load_checkpoints_safely()
    for path in parser.parse_args(arguments).checkpoints:
        check_checkpoint(path)
        print(f"{path}: holds weights and plain options, nothing else")
