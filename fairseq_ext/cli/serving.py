"""Verbs of trained systems: translating with them, exporting and serving them."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace, _ArgumentGroup
from dataclasses import fields
from pathlib import Path

from fairseq_ext.cli.verbs import CONFIG, Verb, add_dry_run, number
from fairseq_ext.inputs.errors import InputError

_STREAM = "-"
_TERMS = "words whose translation is given: a line each, source and one or more targets with tabs between"


def _translate_options(parser: ArgumentParser) -> None:
    from fairseq_ext.translators.formats import FORMATS as DOCUMENTS
    from fairseq_ext.translators.formats import TEXT
    from fairseq_ext.translators.lines import FORMATS

    parser.description = (
        "Translate a text of yours, with an exported system or one of an experiment: give --input, --output or an "
        "exported system. Else translate the test sets of an experiment; finished translations are not made again, and "
        "further options go to fairseq-generate, such as --fp16; they count for this run only."
    )
    parser.add_argument("source", type=Path, metavar="EXPORTED|CONFIG", help="exported system, or experiment file")
    sets = parser.add_argument_group("test sets")
    sets.add_argument(
        "outputs",
        nargs="?",
        metavar="OUTPUT",
        help="name under translate: outputs, or one run of it, as gad@2 or ft@LAW (default: all that are trained)",
    )
    add_dry_run(sets)
    text = parser.add_argument_group(
        "a text of yours",
        "It is translated line for line, a file in blocks: the same command goes on where it was stopped. See "
        "docs/using.md.",
    )
    add = text.add_argument
    add("--input", metavar="FILE", help="text, one sentence a line; - for standard input (default: -)")
    add("--input-format", choices=(TEXT, *DOCUMENTS), help="of the input (default: what its name says, else text)")
    add("--all", action="store_true", help="of a document, translate again what has a translation (default: the rest)")
    add("--output", metavar="FILE", help="translation to write; - for standard output (default: -)")
    add("--system", metavar="NAME", help="system of the experiment, or run of one (default: the last that is trained)")
    add(
        "--route",
        help="gates, classifier, base (no adapters), oracle (with --domains) or a domain (default: gates where there "
        "are some, else classifier)",
    )
    add("--domains", type=Path, metavar="FILE", help="a domain for each line of the text; for --route oracle")
    add("--terms", type=Path, metavar="FILE", help=_TERMS)
    add("--format", choices=FORMATS, default="text", help="jsonl adds scores, routes, weights")
    add("--candidates", type=number(1), default=1, metavar="N", help="translations of each line, in jsonl")
    add("--beam", type=number(1), metavar="N", help="width of the search (default: that of the system)")
    add("--gates", action="store_true", help="the weights of every layer, too, in jsonl (default: their mean)")
    add("--gates-by-token", action="store_true", help="the decoder's weights at every piece, too, in jsonl")
    add("--processes", type=number(0), default=0, metavar="N", help="that translate a file; 0 for one a core")
    add("--block-lines", type=number(1), default=500, metavar="N", help="lines of a block")
    add("--device", default="cpu", metavar="NAME", help="cpu, or cuda with --processes 1")
    _add_precision(text)


def _translate(options: Namespace) -> None:
    if options.input or options.output or options.source.is_dir():
        _translate_text(options)
    else:
        _translate_test_sets(options)


def _translate_test_sets(options: Namespace) -> None:
    from fairseq_ext.engine.steps import run_steps
    from fairseq_ext.recipes.translation.config import load_config
    from fairseq_ext.recipes.translation.decoding import translation_step
    from fairseq_ext.recipes.translation.export import trained_outputs

    config = load_config(options.source)
    runs = config.output_runs(options.outputs) if options.outputs else config.all_output_runs()
    extra = [*options.extra, *(["--beam", str(options.beam)] if options.beam else [])]
    steps = [translation_step(config, run, extra) for run in trained_outputs(config, runs)]
    run_steps(steps, dry_run=options.dry_run)


def _translate_text(options: Namespace) -> None:
    from fairseq_ext.runtime.manifest import ORACLE
    from fairseq_ext.translators.lines import Wanted
    from fairseq_ext.translators.translate import Job, translate

    if options.outputs or options.extra:
        raise InputError(f"{' '.join([*filter(None, [options.outputs]), *options.extra])}: is for test sets alone")
    if options.format == "text" and (options.candidates > 1 or options.gates or options.gates_by_token):
        raise InputError("--candidates, --gates and --gates-by-token: more than a line holds; give --format jsonl")
    if options.route not in (None, ORACLE) and options.domains is not None:
        raise InputError(f"--route {options.route}: --domains says it for each line; leave one of them out")
    if options.route == ORACLE and options.domains is None:
        raise InputError(f"--route {ORACLE}: needs --domains FILE, with a domain for each line")
    job = Job(
        system=_exported(options.source, options.system),
        source=_file(options.input),
        output=_file(options.output),
        route=None if options.route == ORACLE else options.route,
        domains=options.domains,
        terms=options.terms,
        wanted=Wanted(options.format, options.candidates, options.beam, options.gates, options.gates_by_token),
        processes=options.processes,
        block_lines=options.block_lines,
        device=options.device,
        decoding_precision=options.decoding_precision,
        format=options.input_format,
        every=options.all,
    )
    translate(job)


def _file(name: str | None) -> Path | None:
    return None if name in (None, _STREAM) else Path(str(name))


def _exported(source: Path, system: str | None) -> Path:
    """The exported system, or one of an experiment, exported below the experiment's own folder."""
    if source.is_dir():
        if system is not None:
            raise InputError(f"--system {system}: {source} is one system; leave the option out")
        return source
    from fairseq_ext.engine.steps import run_steps
    from fairseq_ext.recipes.translation.config import load_config
    from fairseq_ext.recipes.translation.export import export_step, trained_run

    config = load_config(source)
    step = export_step(config, trained_run(config, system))
    run_steps([step])
    return step.output


def _export_options(parser: ArgumentParser) -> None:
    parser.usage = "%(prog)s CONFIG SYSTEM DIRECTORY, or %(prog)s --verify DIRECTORY"
    parser.description = (
        "Export a trained system as a directory that holds all it needs to translate: model, dictionaries, subwords, "
        "domains, classifier, options, checksums. See docs/using.md."
    )
    add = parser.add_argument
    add("config", type=Path, nargs="?", metavar="CONFIG", help=CONFIG)
    add("system", nargs="?", metavar="SYSTEM", help="name under train: systems, or one run of it, as gad@2")
    add("directory", type=Path, nargs="?", metavar="DIRECTORY", help="where to write; made anew")
    add("--verify", type=Path, metavar="DIRECTORY", help="read all files of an exported system again")


def _export(options: Namespace) -> None:
    from fairseq_ext.engine.fairseq_cli import quieten_fairseq
    from fairseq_ext.runtime.manifest import verify

    quieten_fairseq()
    if options.verify is not None:
        if options.config is not None:
            raise InputError("--verify: takes a directory alone")
    elif options.directory is None:
        raise InputError("give CONFIG, SYSTEM and DIRECTORY")
    else:
        from fairseq_ext.recipes.translation.config import load_config
        from fairseq_ext.recipes.translation.export import export_run, trained_run

        config = load_config(options.config)
        export_run(config, trained_run(config, options.system), options.directory)
    directory = options.verify or options.directory
    manifest = verify(directory)
    size = sum(record.bytes for record in manifest.files.values())
    print(
        f"{directory}: {manifest.name}, {'-'.join(manifest.languages)}, {len(manifest.domains)} domains, "
        f"{len(manifest.files)} files of {size / 1e6:.1f} MB, all as exported"
    )


def _serve_options(parser: ArgumentParser) -> None:
    from fairseq_ext.serving.limits import Limits

    parser.description = "Serve an exported system: a page at /, JSON at /translate (docs/using.md)."
    add = parser.add_argument
    add("exported", type=Path, metavar="EXPORTED", help="directory that fairseq-ext export made")
    add("--host", default="127.0.0.1", help="address to listen on; any but this machine's own needs --token-file")
    add("--port", type=number(0, 65_535), default=8000, help="port; 0: any that is free")
    add("--token-file", type=Path, metavar="FILE", help="file with the token that clients must send")
    add("--terms", type=Path, metavar="FILE", help=_TERMS)
    add("--device", default="cpu", help="where the model runs, e.g. cuda")
    _add_precision(parser)
    add("--threads", type=number(1), default=1, help="cores that the model uses")
    for limit in fields(Limits):
        option = f"--{limit.name.replace('_', '-')}"
        add(option, type=number(limit.metadata["least"]), default=limit.default, help=limit.metadata["help"])


def _serve(options: Namespace) -> None:
    try:
        from fairseq_ext.serving.limits import Limits
        from fairseq_ext.serving.server import serve
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("fairseq_ext"):
            raise
        raise InputError(f'the package {error.name} is missing: pip install "fairseq-ext[serve]"') from None

    serve(
        options.exported,
        Limits(**{limit.name: getattr(options, limit.name) for limit in fields(Limits)}),
        host=options.host,
        port=options.port,
        token_file=options.token_file,
        terms=options.terms,
        device=options.device,
        decoding_precision=options.decoding_precision,
        threads=options.threads,
    )


def _add_precision(parser: ArgumentParser | _ArgumentGroup) -> None:
    from fairseq_ext.runtime.manifest import FLOAT32, GRAPH_FILES

    parser.add_argument(
        "--decoding-precision",
        choices=list(GRAPH_FILES),
        default=FLOAT32,
        help="of weights and products (default: float32)",
    )


VERBS = {
    "translate": Verb("translate a text, or an experiment's test sets", _translate_options, _translate, passes_on=True),
    "export": Verb("export a trained system as one directory", _export_options, _export),
    "serve": Verb("serve an exported system over HTTP", _serve_options, _serve),
}
