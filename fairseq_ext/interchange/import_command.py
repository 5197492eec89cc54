"""The command that imports checkpoints of others."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from fairseq_ext.domains.names import DOMAINS_FILE, is_domain_name
from fairseq_ext.engine.steps import Step, run_steps
from fairseq_ext.inputs.errors import InputError

_VERSION = 1
_MODEL = "model.pt"


def import_step(
    sources: Sequence[tuple[str | None, Path]], output: Path, renamed: Mapping[str, str], outputs: Path | None
) -> Step:
    """The step that makes ``model.pt``, and ``domains.txt`` where there are adapters.

    Args:
        sources: checkpoints, each with the only adapter that is wanted of it, or None for all.
        output: directory to make.
        renamed: adapters of the published code that are to be called otherwise.
        outputs: what the original computed, to be compared; None for nothing.
    """

    def build(folder: Path) -> None:
        from fairseq_ext.interchange.conversions import import_checkpoints

        import_checkpoints(sources, folder, renamed, outputs)

    return Step(
        output,
        inputs=[*(path for _, path in sources), *([outputs] if outputs else [])],
        options={"version": _VERSION, "names": [name for name, _ in sources], "renamed": dict(renamed)},
        build=build,
        results=[_MODEL],
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``fairseq-ext import checkpoint``."""
    given = _parser().parse_args(arguments)
    sources = [_source(text) for text in given.sources]
    renamed = dict(_renamed(text) for text in given.rename)
    run_steps([import_step(sources, given.output, renamed, given.outputs)])
    print(_what_next(given.output))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Import checkpoints of others, strictly: one of fairseq's Transformers (transformer, BART, mBART, "
        "M2M, of whatever age) as a base for adapters; one of the published gated-adapters code, plain or gated; or "
        "several with plain adapters on one base, merged into one bank. What a file is, is read from it; it is read "
        "without running anything in it."
    )
    parser.add_argument(
        "sources",
        nargs="+",
        metavar="[NAME=]FILE.pt",
        help="a checkpoint, or several to merge; NAME= takes that adapter alone, or names the only one there is",
    )
    parser.add_argument("output", type=Path, metavar="DIRECTORY", help=f"directory to make, with {_MODEL}")
    parser.add_argument(
        "--rename",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="call an adapter of the published code otherwise; [TAG=LAW] is LAW without (default: none)",
    )
    parser.add_argument(
        "--outputs",
        type=Path,
        metavar="FILE.npz",
        help="what the original computed; refuse the import unless it computes the same to 1e-4 (default: none)",
    )
    return parser


def _source(text: str) -> tuple[str | None, Path]:
    name, equals, path = text.partition("=")
    if not equals or Path(text).exists():
        return None, Path(text)
    if not is_domain_name(name):
        raise InputError(f"{text}: {name!r} is no domain name; give NAME=FILE.pt, of letters, digits, '-' and '_'")
    return name, Path(path)


def _renamed(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not equals or not is_domain_name(new):
        raise InputError(f"--rename {text}: give OLD=NEW, of letters, digits, '-' and '_'")
    return old, new


def _what_next(output: Path) -> str:
    """How to go on, as one would type it."""
    domains = output / DOMAINS_FILE
    if domains.is_file():
        names = ", ".join(domains.read_text(encoding="utf-8").split())
        return f"translate with --path {output / _MODEL} and data whose {DOMAINS_FILE} lists {names}"
    options = output / "options.txt"
    told = " ".join(options.read_text(encoding="utf-8").split()) if options.is_file() else ""
    line = f"train on it with --arch transformer_gated_adapter --finetune-from-model {output / _MODEL} {told}"
    return line.rstrip()


if __name__ == "__main__":
    main(sys.argv[1:])
