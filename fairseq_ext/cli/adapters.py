"""Verbs for adapter files, and for adding, removing and renaming domains."""

from __future__ import annotations

import json
import warnings
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_ext.base.errors import InputError
from fairseq_ext.cli.verbs import Verb, argument, number

if TYPE_CHECKING:
    from fairseq_ext.adapters.system import System

_MODEL = "checkpoint (.pt) or exported system (a directory)"
_UPDATES = "number of updates of the adapter (default: 6 passes over the text, from 20 to 320 updates)"
_RESULT = "new file, or new directory for an exported system; the input is not modified"
_FROM_MODEL = argument("model", type=Path, help=_MODEL)
_OUTPUT = argument("output", type=Path, help=_RESULT)


def _export_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("model", type=Path, help=_MODEL)
    add("domain", nargs="*", help="domains to export (default: all)")
    add("output", type=Path, help="FILE.safetensors for a single file, or a folder for one file per domain")
    add("--licence", help="licence text to record in the files (default: none)")


def _export(options: Namespace) -> None:
    _load_fairseq()
    from fairseq_ext.adapters.files import export_adapters

    for path in export_adapters(options.model, options.domain, options.output, options.licence):
        print(path)


def _attach(options: Namespace) -> None:
    _load_fairseq()
    from fairseq_ext.adapters.files import attach_adapters

    _print_domains(options.output, attach_adapters(options.model, options.file, options.output))


def _list(options: Namespace) -> None:
    _load_fairseq()
    from fairseq_ext.adapters.system import System

    system = System.read(options.model)
    system.require_adapters()
    print(f"{options.model}: {system.architecture}, {len(system.domains)} domains")
    for name in system.names:
        numbers = sum(row.numel() for row in system.rows(name).values())
        print(f"{name}: {numbers:,} parameters{', guarded' if name in system.guarded else ''}")
    if system.tree is not None:
        for name in system.domains:
            print(f"{name}: {' → '.join(system.tree.names[row] for row in system.tree.path(name))}")


def _inspect(options: Namespace) -> None:
    from fairseq_ext.adapters.adapter_file import read_adapters

    manifest = asdict(read_adapters(options.file).manifest)
    for key in ("base", "tensors"):
        manifest[key] = f"{len(manifest[key])} tensors"
    print(json.dumps(manifest, indent=1, ensure_ascii=False))


def _add_options(parser: ArgumentParser) -> None:
    parser.epilog = "With --text, further options are passed to fairseq-train, such as --lr 0.001 or --patience 5."
    add = parser.add_argument
    add("model", type=Path, help=_MODEL)
    add("name", help="name of the new domain")
    add("output", type=Path, help=_RESULT)
    add(
        "--from",
        dest="start",
        metavar="START",
        help="initial adapter: nothing, mean (of all adapters), nearest (the adapter with the lowest validation loss; "
        "needs --text), or a domain (default: nearest with --text, else nothing)",
    )
    add("--parent", help="for trees: parent node of the new leaf, or none for a separate root")
    text = parser.add_argument_group("training (for exported systems)")
    add = text.add_argument
    add("--text", type=Path, metavar="PREFIX", help="training text PREFIX.SRC and PREFIX.TGT (default: no training)")
    add("--valid", type=number(1), help="number of pairs held out for validation (default: a fifth, at most 200)")
    add("--max-words", type=number(1), default=80, help="maximum number of words per sentence; longer ones are dropped")
    add("--max-update", type=number(1), help=_UPDATES)
    add("--seed", type=int, default=1, help="random seed")
    gates = parser.add_argument_group("gates (for gated systems)")
    add = gates.add_argument
    add(
        "--gates",
        choices=["guarded", "refit"],
        default="guarded",
        help="guarded: keep the old gates, and use the new adapter only where its gate is the largest; refit: fit all "
        "gates again",
    )
    add(
        "--old-text",
        type=Path,
        metavar="DIR",
        help="text of the old domains, DOMAIN.LANG or DOMAIN/train.LANG, such as splits/ of an experiment",
    )
    add("--old-pairs", type=number(1), default=1000, help="number of pairs per old domain")
    add("--gate-updates", type=number(1), default=200, help="number of updates of the gates")


def _add(options: Namespace) -> None:
    start = options.start or ("nearest" if options.text else "nothing")
    if options.text is None:
        if options.extra:
            raise InputError(
                f"{' '.join(options.extra)}: is for fairseq-train, but nothing is trained without --text; "
                "remove it or give --text"
            )
        if start == "nearest":
            raise InputError("--from nearest: needs --text, on which the adapters are compared; give --text")
    _load_fairseq()
    grown = _train(options, start) if options.text else _add_untrained(options, start)
    _print_domains(options.output, grown)


def _add_untrained(options: Namespace, start: str) -> System:
    from fairseq_ext.adapters.domains import add_domain
    from fairseq_ext.adapters.system import System

    system = System.read(options.model)
    is_guarded = system.has_gates and options.gates == "guarded"
    grown = add_domain(system, options.name, start, parent=options.parent, guarded=is_guarded, seed=options.seed)
    grown.write(options.output)
    return grown


def _train(options: Namespace, start: str) -> System:
    from fairseq_ext.adapters.new_text import Training
    from fairseq_ext.adapters.training import train_domain

    training = Training(
        options.text,
        options.old_text,
        options.gates,
        options.max_update,
        options.gate_updates,
        options.valid,
        max(options.old_pairs, (options.valid or 0) + 1),
        options.max_words,
        options.seed,
        options.extra,
    )
    grown, scores = train_domain(options.model, options.name, start, options.output, training)
    told = f"chrF on {scores.number} held-out pairs: {scores.before:.1f} before, {scores.after:.1f} after"
    if scores.after <= scores.before:
        told += "; nothing was gained with so little text, so its adapter does nothing"
    print(f"{options.name}: {told}")
    return grown


def _update_options(parser: ArgumentParser) -> None:
    parser.epilog = "Further options are passed to fairseq-train, such as --lr 0.001."
    add = parser.add_argument
    add("model", type=Path, metavar="SYSTEM", help="exported system (a directory)")
    add("name", metavar="DOMAIN", help="name of the domain")
    add(
        "corrections",
        type=Path,
        metavar="CORRECTIONS",
        help="folder of fairseq-ext serve --corrections, or a file: .jsonl with source and target, or .tsv",
    )
    add("--output", type=Path, metavar="DIR", help="directory to write (default: SYSTEM, which is replaced)")
    add("--even-if-worse", action="store_true", help="write the system even if the score falls")
    add(
        "--valid",
        type=number(1, 50),
        default=10,
        metavar="PERCENT",
        help="share of corrections to hold out, in percent",
    )
    add("--max-words", type=number(1), default=80, help="maximum number of words per sentence; longer ones are dropped")
    add("--max-update", type=number(1), help=_UPDATES)
    add("--seed", type=int, default=1, help="random seed")


def _update(options: Namespace) -> None:
    """Train the adapter of a domain on corrections of its translations. Before and after, translations of held-out
    corrections are scored; of fewer than ten corrections, none are held out. Nothing else changes.
    """
    _load_fairseq()
    from fairseq_ext.adapters.corrections import update_domain
    from fairseq_ext.adapters.new_text import Training

    training = Training(
        max_update=options.max_update,
        valid=options.valid,
        max_words=options.max_words,
        seed=options.seed,
        extra=options.extra,
    )
    output = options.output or options.model
    worse = options.even_if_worse
    scores = update_domain(options.model, options.name, options.corrections, output, training, may_be_worse=worse)
    which = f"{scores.number} {'held-out' if scores.is_held_out else 'learned'} corrections"
    print(f"{output}: {options.name}: chrF {scores.before:.1f} before, {scores.after:.1f} after, on {which}")


def _remove(options: Namespace) -> None:
    _load_fairseq()
    from fairseq_ext.adapters.domains import remove_domain

    _print_domains(options.output, remove_domain(options.model, options.name, options.output))


def _rename(options: Namespace) -> None:
    _load_fairseq()
    from fairseq_ext.adapters.domains import rename_domain

    _print_domains(options.output, rename_domain(options.model, options.old, options.new, options.output))


def _print_domains(output: Path, system: System) -> None:
    print(f"{output}: {', '.join(system.domains)}")


def _load_fairseq() -> None:
    """Import fairseq, and silence its messages and warnings of libraries."""
    from fairseq_ext.base.fairseq_cli import quieten_fairseq

    quieten_fairseq()
    warnings.simplefilter("ignore")
    import fairseq  # noqa: F401

    quieten_fairseq()


ADAPTERS = {
    "export": Verb("write the adapters of domains to separate files", [_export_options], _export),
    "attach": Verb(
        "write a model with adapters from files",
        [
            argument("model", type=Path, help=f"{_MODEL}, with or without adapters"),
            argument("file", nargs="+", type=Path, help="adapter files"),
            _OUTPUT,
        ],
        _attach,
    ),
    "list": Verb("print the adapters of a model", [_FROM_MODEL], _list),
    "inspect": Verb(
        "verify all tensors of an adapter file and print its manifest",
        [argument("file", type=Path, help="adapter file")],
        _inspect,
    ),
    "add-domain": Verb(
        "write a model with a new domain, and train only that domain if text is given",
        [_add_options],
        _add,
        passes_on=True,
    ),
    "update": Verb("train the adapter of a domain on corrections", [_update_options], _update, passes_on=True),
    "remove-domain": Verb(
        "write a model without a domain", [_FROM_MODEL, argument("name", help="name of the domain"), _OUTPUT], _remove
    ),
    "rename-domain": Verb(
        "write a model with a renamed domain",
        [
            _FROM_MODEL,
            argument("old", help="name of the domain"),
            argument("new", help="new name of the domain"),
            _OUTPUT,
        ],
        _rename,
    ),
}
VERBS = {"adapters": Verb("move adapters between models; add, remove and rename domains", verbs=ADAPTERS)}
