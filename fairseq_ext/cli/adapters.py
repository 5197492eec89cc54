"""Verbs of adapters as files, and of domains that come and go."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_ext.cli.verbs import Verb, number
from fairseq_ext.inputs.errors import InputError

if TYPE_CHECKING:
    from fairseq_ext.adapters.system import System

_MODEL = "checkpoint (.pt) or exported system (a directory)"
_RESULT = "new file, or for an exported system a new directory; nothing is written in place"


def _export_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("model", type=Path, help=_MODEL)
    add("domain", nargs="*", help="domains whose adapters are written (default: all)")
    add("output", type=Path, help="FILE.safetensors for one file, or a folder for one a domain")
    add("--licence", help="noted in the files, as you word it (default: none)")


def _export(options: Namespace) -> None:
    _load_fairseq()
    from fairseq_ext.adapters.files import export_adapters

    for path in export_adapters(options.model, options.domain, options.output, options.licence):
        print(path)


def _attach_options(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("model", type=Path, help=f"{_MODEL}, with or without adapters")
    add("file", nargs="+", type=Path, help="adapter files")
    add("output", type=Path, help=_RESULT)


def _attach(options: Namespace) -> None:
    _load_fairseq()
    from fairseq_ext.adapters.files import attach_adapters

    _print_domains(options.output, attach_adapters(options.model, options.file, options.output))


def _model_option(parser: ArgumentParser) -> None:
    parser.add_argument("model", type=Path, help=_MODEL)


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


def _file_option(parser: ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="adapter file")


def _inspect(options: Namespace) -> None:
    from dataclasses import asdict

    from fairseq_ext.adapters.adapter_file import read_adapters

    manifest = asdict(read_adapters(options.file).manifest)
    for key in ("base", "tensors"):
        manifest[key] = f"{len(manifest[key])} tensors"
    print(json.dumps(manifest, indent=1, ensure_ascii=False))


def _add_options(parser: ArgumentParser) -> None:
    parser.epilog = "With --text, further options go to fairseq-train, such as --lr 0.001 or --patience 5."
    add = parser.add_argument
    add("model", type=Path, help=_MODEL)
    add("name", help="of the new domain")
    add("output", type=Path, help=_RESULT)
    add(
        "--from",
        dest="start",
        metavar="START",
        help="where its adapter starts: nothing, mean (of all), nearest (by the validation loss of each adapter; needs "
        "--text), or a domain (default: nearest with --text, else nothing)",
    )
    add("--parent", help="of a tree: the node that gets the new leaf, or none for a root of its own")
    text = parser.add_argument_group("training it (of an exported system)")
    add = text.add_argument
    add("--text", type=Path, metavar="PREFIX", help="its text, PREFIX.SRC and PREFIX.TGT (default: it is not trained)")
    add("--valid", type=number(1), default=200, help="pairs held out for validation")
    add("--max-words", type=number(1), default=80, help="longest sentence that is kept")
    add("--max-update", type=number(1), default=320, help="updates of the adapter")
    add("--seed", type=int, default=1, help="of all that is drawn")
    gates = parser.add_argument_group("gates (of a gated system)")
    add = gates.add_argument
    add(
        "--gates",
        choices=["guarded", "refit"],
        default="guarded",
        help="guarded: the old gates stay as they are, and the new adapter takes part only where its gate is above all "
        "others; refit: all gates are fitted anew",
    )
    add(
        "--old-text",
        type=Path,
        metavar="DIR",
        help="text of the old domains, DOMAIN.LANG or DOMAIN/train.LANG, as an experiment's splits/ has it",
    )
    add("--old-pairs", type=number(1), default=1000, help="pairs taken of each old domain")
    add("--gate-updates", type=number(1), default=200, help="updates of the gates")


def _add(options: Namespace) -> None:
    start = options.start or ("nearest" if options.text else "nothing")
    if options.text is None:
        if options.extra:
            raise InputError(f"{' '.join(options.extra)}: goes to fairseq-train, and without --text nothing is trained")
        if start == "nearest":
            raise InputError("--from nearest: needs --text, by which what is near is measured")
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
        max(options.old_pairs, options.valid + 1),
        options.max_words,
        options.seed,
        options.extra,
    )
    return train_domain(options.model, options.name, start, options.output, training)


def _remove_options(parser: ArgumentParser) -> None:
    parser.add_argument("model", type=Path, help=_MODEL)
    parser.add_argument("name", help="of the domain")
    parser.add_argument("output", type=Path, help=_RESULT)


def _remove(options: Namespace) -> None:
    _load_fairseq()
    from fairseq_ext.adapters.domains import remove_domain

    _print_domains(options.output, remove_domain(options.model, options.name, options.output))


def _rename_options(parser: ArgumentParser) -> None:
    parser.add_argument("model", type=Path, help=_MODEL)
    parser.add_argument("old", help="name of the domain")
    parser.add_argument("new", help="its new name")
    parser.add_argument("output", type=Path, help=_RESULT)


def _rename(options: Namespace) -> None:
    _load_fairseq()
    from fairseq_ext.adapters.domains import rename_domain

    _print_domains(options.output, rename_domain(options.model, options.old, options.new, options.output))


def _print_domains(output: Path, system: System) -> None:
    print(f"{output}: {', '.join(system.domains)}")


def _load_fairseq() -> None:
    """fairseq first, so that this package registers what it adds to it; without what others say of each other."""
    import warnings

    from fairseq_ext.engine.fairseq_cli import quieten_fairseq

    quieten_fairseq()
    warnings.simplefilter("ignore")
    import fairseq  # noqa: F401

    quieten_fairseq()


ADAPTERS = {
    "export": Verb("write adapters of domains to files of their own", _export_options, _export),
    "attach": Verb("write a model with the adapters of files", _attach_options, _attach),
    "list": Verb("print the adapters of a model", _model_option, _list),
    "inspect": Verb("check every tensor of an adapter file, and print what it says of itself", _file_option, _inspect),
    "add-domain": Verb(
        "write a model with a domain more, and train that alone if there is text", _add_options, _add, passes_on=True
    ),
    "remove-domain": Verb("write a model without a domain", _remove_options, _remove),
    "rename-domain": Verb("write a model in which a domain has another name", _rename_options, _rename),
}
VERBS = {"adapters": Verb("move adapters between models; add, remove and rename domains", verbs=ADAPTERS)}
