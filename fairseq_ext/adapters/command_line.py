"""Command line of ``fairseq-ext adapters``: a verb, a model, and a new name for the result."""

from __future__ import annotations

import argparse
import json
import warnings
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

from fairseq_ext.inputs.errors import InputError

_MODEL = "checkpoint (.pt) or exported system (a directory)"
_RESULT = "new file, or for an exported system a new directory; nothing is written in place"


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(
        prog="fairseq-ext adapters",
        description="Adapters as files, and domains of a model that come and go. A result never replaces anything.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name, words, add_options in _VERBS:
        verb = verbs.add_parser(name, help=words, description=f"{words[0].upper()}{words[1:]}.")
        add_options(verb)
    options, extra = parser.parse_known_args(arguments)
    if extra and getattr(options, "text", None) is None:
        parser.error(f"unrecognized arguments: {' '.join(extra)}")
    options.extra = extra
    _ACTIONS[options.verb](options)


def _export_options(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("model", type=Path, help=_MODEL)
    verb.add_argument("domain", nargs="*", help="domains whose adapters are written (default: all)")
    verb.add_argument("output", type=Path, help="FILE.safetensors for one file, or a folder for one a domain")
    verb.add_argument("--licence", help="noted in the files, as you word it (default: none)")


def _attach_options(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("model", type=Path, help=f"{_MODEL}, with or without adapters")
    verb.add_argument("file", nargs="+", type=Path, help="adapter files")
    verb.add_argument("output", type=Path, help=_RESULT)


def _list_options(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("model", type=Path, help=_MODEL)


def _file_options(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("file", type=Path, help="adapter file")


def _add_options(verb: argparse.ArgumentParser) -> None:
    verb.epilog = "With --text, further options go to fairseq-train, such as --lr 0.001 or --patience 5."
    verb.add_argument("model", type=Path, help=_MODEL)
    verb.add_argument("name", help="of the new domain")
    verb.add_argument("output", type=Path, help=_RESULT)
    verb.add_argument(
        "--from",
        dest="start",
        default=None,
        metavar="START",
        help="where its adapter starts: nothing, mean (of all), nearest (by the validation loss of each adapter; needs "
        "--text), or a domain (default: nearest with --text, else nothing)",
    )
    verb.add_argument("--parent", help="of a tree: the node that gets the new leaf, or none for a root of its own")
    text = verb.add_argument_group("training it (of an exported system)")
    text.add_argument(
        "--text", type=Path, metavar="PREFIX", help="its text, PREFIX.SRC and PREFIX.TGT (default: it is not trained)"
    )
    text.add_argument("--valid", type=int, default=200, help="pairs held out for validation (default: 200)")
    text.add_argument("--max-words", type=int, default=80, help="longest sentence that is kept (default: 80)")
    text.add_argument("--max-update", type=int, default=320, help="updates of the adapter (default: 320)")
    text.add_argument("--seed", type=int, default=1, help="of all that is drawn (default: 1)")
    gates = verb.add_argument_group("gates (of a gated system)")
    gates.add_argument(
        "--gates",
        choices=["guarded", "refit"],
        default="guarded",
        help="guarded: the old gates stay as they are, and the new adapter takes part only where its gate is above all "
        "others; refit: all gates are fitted anew (default: guarded)",
    )
    gates.add_argument(
        "--old-text",
        type=Path,
        metavar="DIR",
        help="text of the old domains, DOMAIN.LANG or DOMAIN/train.LANG, as an experiment's splits/ has it",
    )
    gates.add_argument("--old-pairs", type=int, default=1000, help="pairs taken of each old domain (default: 1000)")
    gates.add_argument("--gate-updates", type=int, default=200, help="updates of the gates (default: 200)")


def _remove_options(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("model", type=Path, help=_MODEL)
    verb.add_argument("name", help="of the domain")
    verb.add_argument("output", type=Path, help=_RESULT)


def _rename_options(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("model", type=Path, help=_MODEL)
    verb.add_argument("old", help="name of the domain")
    verb.add_argument("new", help="its new name")
    verb.add_argument("output", type=Path, help=_RESULT)


def _export(options: Namespace) -> None:
    _load_fairseq()
    from fairseq_ext.adapters.files import export_adapters

    for path in export_adapters(options.model, options.domain, options.output, options.licence):
        print(path)


def _attach(options: Namespace) -> None:
    _load_fairseq()
    from fairseq_ext.adapters.files import attach_adapters

    system = attach_adapters(options.model, options.file, options.output)
    print(f"{options.output}: {', '.join(system.domains)}")


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
    from dataclasses import asdict

    from fairseq_ext.adapters.adapter_file import read_manifest

    manifest = asdict(read_manifest(options.file))
    for key in ("base", "tensors"):
        manifest[key] = f"{len(manifest[key])} tensors"
    print(json.dumps(manifest, indent=1, ensure_ascii=False))


def _verify(options: Namespace) -> None:
    from fairseq_ext.adapters.adapter_file import read_adapters

    manifest = read_adapters(options.file).manifest
    print(f"{options.file}: whole; {len(manifest.tensors)} tensors of {', '.join(manifest.domains)}")


def _add(options: Namespace) -> None:
    start = options.start or ("nearest" if options.text else "nothing")
    if options.text is None and start == "nearest":
        raise InputError("--from nearest: needs --text, by which what is near is measured")
    for name, least in (("valid", 1), ("max_words", 1), ("max_update", 1), ("gate_updates", 1), ("old_pairs", 1)):
        if getattr(options, name) < least:
            raise InputError(f"--{name.replace('_', '-')}: {getattr(options, name)} is too few; give {least} or more")
    _load_fairseq()
    if options.text is None:
        from fairseq_ext.adapters.domains import add_domain
        from fairseq_ext.adapters.system import System, refuse_existing

        refuse_existing(options.output)
        system = System.read(options.model)
        is_guarded = system.has_gates and options.gates == "guarded"
        grown = add_domain(system, options.name, start, parent=options.parent, guarded=is_guarded, seed=options.seed)
        grown.write(options.output)
    else:
        from fairseq_ext.adapters.new_text import Sizes
        from fairseq_ext.adapters.training import Training, train_domain

        sizes = Sizes(options.valid, max(options.old_pairs, options.valid + 1), options.max_words, options.seed)
        training = Training(
            options.text, options.old_text, options.gates, options.max_update, options.gate_updates, sizes,
            options.extra,
        )  # fmt: skip
        grown = train_domain(options.model, options.name, start, options.output, training)
    print(f"{options.output}: {', '.join(grown.domains)}")


def _remove(options: Namespace) -> None:
    _load_fairseq()
    from fairseq_ext.adapters.domains import remove_domain

    print(f"{options.output}: {', '.join(remove_domain(options.model, options.name, options.output).domains)}")


def _rename(options: Namespace) -> None:
    _load_fairseq()
    from fairseq_ext.adapters.domains import rename_domain

    system = rename_domain(options.model, options.old, options.new, options.output)
    print(f"{options.output}: {', '.join(system.domains)}")


def _load_fairseq() -> None:
    """fairseq first, so that this package registers what it adds to it; without what others say of each other."""
    from fairseq_ext.engine.quiet import quieten_fairseq

    quieten_fairseq()
    warnings.simplefilter("ignore")
    import fairseq  # noqa: F401

    quieten_fairseq()


_VERBS: list[tuple[str, str, Callable[[argparse.ArgumentParser], None]]] = [
    ("export", "write adapters of domains to files of their own", _export_options),
    ("attach", "write a model with the adapters of files", _attach_options),
    ("list", "print the adapters of a model", _list_options),
    ("inspect", "print what an adapter file says of itself", _file_options),
    ("verify", "check every tensor of an adapter file against its manifest", _file_options),
    ("add-domain", "write a model with a domain more, and train that alone if there is text", _add_options),
    ("remove-domain", "write a model without a domain", _remove_options),
    ("rename-domain", "write a model in which a domain has another name", _rename_options),
]
_ACTIONS: dict[str, Callable[[Namespace], None]] = {
    "export": _export,
    "attach": _attach,
    "list": _list,
    "inspect": _inspect,
    "verify": _verify,
    "add-domain": _add,
    "remove-domain": _remove,
    "rename-domain": _rename,
}
