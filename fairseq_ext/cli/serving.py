"""Verbs for trained systems: translate, export, serve."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace, _ArgumentGroup
from dataclasses import fields
from pathlib import Path

from fairseq_ext.base.errors import InputError
from fairseq_ext.cli.verbs import CONFIG, Verb, number

_STREAM = "-"
_TERMS = "terms with required translations: per line, a source and one or more targets, separated by tabs"


def _translate_options(parser: ArgumentParser) -> None:
    from fairseq_ext.serve.documents.formats import FORMATS as DOCUMENTS
    from fairseq_ext.serve.documents.lines import FORMATS
    from fairseq_ext.serve.runtime.requests import DETAILS, WEIGHTS
    from fairseq_ext.text.placeholders import ANY, DIALECTS

    add = parser.add_argument
    add("source", type=Path, metavar="EXPORTED|CONFIG", help="exported system, or experiment file")
    add("--input", metavar="FILE", help="text, one sentence per line; - for standard input (default: -)")
    add("--input-format", choices=DOCUMENTS, help="input format (default: by file name, else text)")
    add("--all", action="store_true", help="translate whole documents (default: segments without a translation)")
    add("--output", metavar="FILE", help="translation to write; - for standard output (default: -)")
    add("--system", metavar="NAME", help="system of the experiment, or one of its runs (default: the last trained one)")
    add(
        "--route",
        help="gates, classifier, base (no adapters), oracle (with --domains) or a domain (default: gates if the system "
        "has them, else classifier)",
    )
    add("--domains", type=Path, metavar="FILE", help="domains of the lines, one per line; for --route oracle")
    add("--terms", type=Path, metavar="FILE", help=_TERMS)
    add(
        "--placeholders",
        choices=DIALECTS,
        default=ANY,
        help="dialect of placeholders such as %%s, all of which the translation keeps; none: translate them and tags "
        "as words (default: any)",
    )
    add("--format", choices=FORMATS, default="text", help="output format; jsonl adds scores, routes and weights")
    add("--candidates", type=number(1), default=1, metavar="N", help="number of translations per line, in jsonl")
    add("--beam", type=number(1), metavar="N", help="beam size (default: that of the system)")
    add(
        "--gates",
        choices=DETAILS,
        default=WEIGHTS,
        help="in jsonl, weights of gates: their mean, also by layer, or also for each subword (default: weights)",
    )
    add("--processes", type=number(0), default=0, metavar="N", help="number of processes for a file; 0: one per core")
    add("--block-lines", type=number(1), default=500, metavar="N", help="lines per block")
    add("--device", default="cpu", metavar="NAME", help="device: cpu, or cuda with --processes 1")
    _add_speed(parser)


def _translate(options: Namespace) -> None:
    """Translate text with an exported system or a system of an experiment, line by line. Files are translated in
    blocks: after an interruption, the same command continues. See docs/using.md. For the test sets of an experiment,
    use decode.
    """
    from fairseq_ext.serve.documents.lines import Wanted
    from fairseq_ext.serve.documents.translate import Job, translate
    from fairseq_ext.serve.runtime.manifest import ORACLE
    from fairseq_ext.serve.runtime.requests import WEIGHTS

    if options.format == "text" and (options.candidates > 1 or options.gates != WEIGHTS):
        raise InputError("--candidates and --gates: need --format jsonl; add it")
    if options.route not in (None, ORACLE) and options.domains is not None:
        raise InputError(f"--route {options.route}: --domains already gives a route for each line; remove one of them")
    if options.route == ORACLE and options.domains is None:
        raise InputError(f"--route {ORACLE}: needs --domains FILE, with a domain for each line")
    job = Job(
        system=_exported(options.source, options.system),
        source=_file(options.input),
        output=_file(options.output),
        route=None if options.route == ORACLE else options.route,
        domains=options.domains,
        terms=options.terms,
        wanted=Wanted(options.format, options.candidates, options.beam, options.gates, options.placeholders),
        processes=options.processes,
        block_lines=options.block_lines,
        device=options.device,
        decoding_precision=options.decoding_precision,
        shortlist=options.shortlist,
        format=options.input_format,
        every=options.all,
    )
    translate(job)


def _file(name: str | None) -> Path | None:
    return None if name in (None, _STREAM) else Path(str(name))


def _exported(source: Path, system: str | None) -> Path:
    """Return an exported system. A system of an experiment is exported below the experiment's folder first."""
    if source.is_dir():
        if system is not None:
            raise InputError(f"--system {system}: {source} contains only one system; remove the option")
        return source
    from fairseq_ext.base.steps import run_steps
    from fairseq_ext.experiments.translation.config import load_config
    from fairseq_ext.experiments.translation.export import export_step, trained_run

    config = load_config(source)
    step = export_step(config, trained_run(config, system))
    run_steps([step])
    return step.output


def _export_options(parser: ArgumentParser) -> None:
    parser.usage = "%(prog)s CONFIG SYSTEM DIRECTORY, or %(prog)s --verify DIRECTORY"
    add = parser.add_argument
    add("config", type=Path, nargs="?", metavar="CONFIG", help=CONFIG)
    add("system", nargs="?", metavar="SYSTEM", help="name under train: systems, or one of its runs, such as gad@2")
    add("directory", type=Path, nargs="?", metavar="DIRECTORY", help="directory to write; replaces an exported system")
    add("--verify", type=Path, metavar="DIRECTORY", help="verify the checksums of an exported system")


def _export(options: Namespace) -> None:
    """Export a trained system as a directory with all files needed for translation: model, dictionaries, subwords,
    domains, classifier, options and checksums. See docs/using.md.
    """
    from fairseq_ext.base.fairseq_cli import quieten_fairseq
    from fairseq_ext.serve.runtime.manifest import verify

    quieten_fairseq()
    if options.verify is not None:
        if options.config is not None:
            raise InputError("--verify: only a directory can be given; remove the other arguments")
    elif options.directory is None:
        raise InputError("CONFIG, SYSTEM and DIRECTORY: give all three, or --verify DIRECTORY")
    else:
        from fairseq_ext.experiments.translation.config import load_config
        from fairseq_ext.experiments.translation.export import export_run, trained_run

        config = load_config(options.config)
        export_run(config, trained_run(config, options.system), options.directory)
    directory = options.verify or options.directory
    manifest = verify(directory)
    size = sum(record.bytes for record in manifest.files.values())
    print(
        f"{directory}: {manifest.name}, {'-'.join(manifest.languages)}, {len(manifest.domains)} domains, "
        f"{len(manifest.files)} files of {size / 1e6:.1f} MB, all unchanged"
    )


def _serve_options(parser: ArgumentParser) -> None:
    from fairseq_ext.serve.server.limits import Limits

    add = parser.add_argument
    add("exported", type=Path, metavar="EXPORTED", help="exported system (a directory)")
    add("--host", default="127.0.0.1", help="address to listen on; all but loopback addresses need --token-file")
    add("--port", type=number(0, 65_535), default=8000, help="port; 0: any free port")
    add("--token-file", type=Path, metavar="FILE", help="file with the token that clients must send")
    add("--terms", type=Path, metavar="FILE", help=_TERMS)
    add("--corrections", type=Path, metavar="FOLDER", help="keep corrections of translations in it, by domain")
    add("--device", default="cpu", help="device of the model, e.g. cuda")
    _add_speed(parser)
    add("--threads", type=number(1), default=1, help="number of CPU threads of the model")
    for limit in fields(Limits):
        option = f"--{limit.name.replace('_', '-')}"
        add(option, type=number(limit.metadata["least"]), default=limit.default, help=limit.metadata["help"])


def _serve(options: Namespace) -> None:
    """Serve an exported system over HTTP: a page at /, JSON at /translate. See docs/using.md."""
    try:
        from fairseq_ext.serve.server.limits import Limits
        from fairseq_ext.serve.server.server import serve
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("fairseq_ext"):
            raise
        raise InputError(f'the package {error.name} is not installed; run pip install "fairseq-ext[serve]"') from None

    serve(
        options.exported,
        Limits(**{limit.name: getattr(options, limit.name) for limit in fields(Limits)}),
        host=options.host,
        port=options.port,
        token_file=options.token_file,
        corrections=options.corrections,
        terms=options.terms,
        device=options.device,
        decoding_precision=options.decoding_precision,
        shortlist=options.shortlist,
        threads=options.threads,
    )


def _add_speed(parser: ArgumentParser | _ArgumentGroup) -> None:
    from fairseq_ext.serve.runtime.manifest import FLOAT32, PRECISIONS
    from fairseq_ext.serve.runtime.shortlist import NONE, SYSTEM

    parser.add_argument(
        "--decoding-precision",
        choices=PRECISIONS,
        default=FLOAT32,
        help="precision of weights and matrix products (default: float32)",
    )
    parser.add_argument(
        "--shortlist",
        choices=(SYSTEM, NONE),
        default=SYSTEM,
        help="choose words among those that the system's lexicons have for the text, which is faster, or among all, as "
        "fairseq does (none) (default: system)",
    )


VERBS = {
    "translate": Verb("translate text", [_translate_options], _translate),
    "export": Verb("export a trained system as a directory", [_export_options], _export),
    "serve": Verb("serve an exported system over HTTP", [_serve_options], _serve),
}
