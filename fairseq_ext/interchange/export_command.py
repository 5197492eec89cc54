"""The command that writes one domain's adapters as a plain Transformer."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from fairseq_ext.engine.steps import Step, run_steps

_VERSION = 1
_MODEL = "model.pt"


def export_step(checkpoint: Path, domain: str, output: Path) -> Step:
    """The step that makes ``model.pt`` of a checkpoint with plain adapters and one of its domains."""

    def build(folder: Path) -> None:
        from fairseq_ext.interchange.conversions import export_domain

        export_domain(checkpoint, domain, folder)

    return Step(output, [checkpoint], {"version": _VERSION, "domain": domain}, build, results=[_MODEL])


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``fairseq-ext export-domain``."""
    parser = argparse.ArgumentParser(
        description="Write a model with plain adapters, for one domain, as a plain fairseq transformer with a layer "
        "for every adapter: the same translations, for tools that know no adapters, such as CTranslate2."
    )
    parser.add_argument("checkpoint", type=Path, metavar="FILE.pt", help="checkpoint of plain, pre-norm adapters (AD)")
    parser.add_argument("domain", help="name of the domain")
    parser.add_argument("output", type=Path, metavar="DIRECTORY", help=f"directory to make, with {_MODEL}")
    given = parser.parse_args(arguments)
    run_steps([export_step(given.checkpoint, given.domain, given.output)])
