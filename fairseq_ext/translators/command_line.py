"""The command line that translates a user's own text."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from tqdm import tqdm

from fairseq_ext.corpora.compressed import check_file
from fairseq_ext.corpora.normal_forms import normal_form
from fairseq_ext.engine.steps import atomic_write
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.translators.answers import FORMATS, PRECISIONS, Wanted, load_quietly
from fairseq_ext.translators.exported import BASE, CLASSIFIER, GATES, ORACLE, Manifest, read_manifest
from fairseq_ext.translators.files import FileJob, translate_file
from fairseq_ext.translators.lines import RoutedLine, blocks, file_lines, routed_by_file, stream_lines
from fairseq_ext.translators.requests import Request

_STREAM = "-"
# Only of longer lines it is asked, before any is translated, whether the model takes them.
_LONG_LINE = 1000


def text_parser(prog: str) -> argparse.ArgumentParser:
    """The options of translating a text."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Translate a text, line for line. A file is translated in blocks: what was stopped goes on where "
        "it was, by the same command. See docs/using.md.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "system_or_config", type=Path, metavar="EXPORTED|CONFIG", help="directory of scripts/export.sh, or experiment"
    )
    add = parser.add_argument
    add("--input", default=_STREAM, metavar="FILE", help="text, one sentence a line; - for standard input (default)")
    add("--output", default=_STREAM, metavar="FILE", help="translation to write; - for standard output (default)")
    add("--system", metavar="NAME", help="system of the experiment, or run of one (default: the last that is trained)")
    add(
        "--route",
        metavar="ROUTE",
        help=f"{GATES}, {CLASSIFIER}, {BASE} (no adapters), {ORACLE} (with --domains) or a domain (default: {GATES} "
        f"where there are some, else {CLASSIFIER})",
    )
    add("--domains", type=Path, metavar="FILE", help=f"a domain for each line of the text; for --route {ORACLE}")
    add("--format", choices=FORMATS, default="text", help="jsonl adds scores, routes, weights (default: text)")
    add("--candidates", type=int, default=1, metavar="N", help="translations of each line, in jsonl (default: 1)")
    add("--beam", type=int, metavar="N", help="width of the search (default: that of the system)")
    add("--gates", action="store_true", help="the weights of every layer, too, in jsonl (default: their mean)")
    add(
        "--gates-by-token",
        action="store_true",
        help="the decoder's weights at every piece, too, in jsonl (default: no)",
    )
    add("--processes", type=int, default=0, metavar="N", help="that translate a file; 0 for one a core (default)")
    add("--block-lines", type=int, default=500, metavar="N", help="lines of a block (default: 500)")
    add("--device", default="cpu", metavar="NAME", help="cpu, or cuda with --processes 1 (default: cpu)")
    add(
        "--decoding-precision",
        choices=PRECISIONS,
        default=PRECISIONS[0],
        help="of weights and products: bfloat16 pays for large models, int8 is for a CPU (default: float32)",
    )
    return parser


def translate_text(options: argparse.Namespace, export: Callable[[Path, str | None], Path]) -> None:
    """Do what a command line asks for.

    Args:
        options: what :func:`text_parser` read.
        export: makes an exported system of an experiment file and a system's name.

    Raises:
        InputError: naming the option, file or line that cannot be used.
    """
    _check(options)
    system = options.system_or_config
    if not system.is_dir():
        system = export(system, options.system)
    elif options.system is not None:
        raise InputError(f"--system {options.system}: {system} is one system; leave the option out")
    manifest = read_manifest(system)
    wanted = Wanted(options.format, options.candidates, options.beam, options.gates, options.gates_by_token)
    if _STREAM in (options.input, options.output):
        _translate_stream(options, system, manifest, wanted)
        return
    output, source = Path(options.output).absolute(), Path(options.input).absolute()
    if output == source:
        raise InputError(f"--output {options.output}: is the input; choose another name")
    job = FileJob(
        system=system.absolute(),
        source=source,
        domains=options.domains and options.domains.absolute(),
        route=None if options.route == ORACLE else options.route,
        wanted=wanted,
        output=output,
        block_lines=options.block_lines,
        device=options.device,
        decoding_precision=options.decoding_precision,
    )
    translate_file(job, lambda: _checked(_lines(options, manifest), job), options.processes)


def _translate_stream(options: argparse.Namespace, system: Path, manifest: Manifest, wanted: Wanted) -> None:
    """Translate block by block as text comes, and leave nothing on the disk but the output."""
    name = "standard input" if options.input == _STREAM else options.input
    translator = load_quietly(system, options.device, options.decoding_precision)
    first = 1
    with ExitStack() as stack:
        if options.output == _STREAM:
            out: IO[str] = stack.enter_context(_utf8(sys.stdout))
        else:
            _refuse_file(Path(options.output))
            temporary = stack.enter_context(atomic_write(Path(options.output).absolute()))
            out = stack.enter_context(temporary.open("w", encoding="utf-8", newline="\n"))
        progress = stack.enter_context(tqdm(unit=" lines", disable=None if not sys.stdout.isatty() else True))
        for block in blocks(_lines(options, manifest), options.block_lines):
            for line in wanted.lines_of(translator, block, first, name):
                print(line, file=out)
            out.flush()
            first += len(block)
            progress.update(len(block))


def _lines(options: argparse.Namespace, manifest: Manifest) -> Iterator[RoutedLine]:
    if options.input == _STREAM:
        lines, name = stream_lines(sys.stdin.buffer, "standard input"), "standard input"
    else:
        lines, name = file_lines(Path(options.input)), options.input
    if options.domains is not None:
        return routed_by_file(lines, name, options.domains, manifest.domains)
    return ((line, options.route) for line in lines)


def _checked(lines: Iterable[RoutedLine], job: FileJob) -> Iterator[RoutedLine]:
    """Pass lines on, but refuse those that could not be translated, before hours of work on the others."""
    translator = None
    for number, (line, route) in enumerate(lines, start=1):
        if len(line) > _LONG_LINE or ("domain" in (text := normal_form("NFKC", line)) and ":" in text):
            translator = translator or load_quietly(job.system, job.device, job.decoding_precision)
            translator.check(Request(line, route), f"{job.source}, line {number}")
        yield line, route


def _check(options: argparse.Namespace) -> None:
    """Check the numbers, what goes together, and that there are files to read."""
    for name, least in (("candidates", 1), ("block_lines", 1), ("processes", 0), ("beam", 1)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise InputError(f"--{name.replace('_', '-')} {value}: give {least} or more")
    if options.format == "text" and (options.candidates > 1 or options.gates or options.gates_by_token):
        raise InputError("--candidates, --gates and --gates-by-token: more than a line holds; give --format jsonl")
    if options.route not in (None, ORACLE) and options.domains is not None:
        raise InputError(f"--route {options.route}: --domains says it for each line; leave one of them out")
    if options.route == ORACLE and options.domains is None:
        raise InputError(f"--route {ORACLE}: needs --domains FILE, with a domain for each line")
    for path in (None if options.input == _STREAM else Path(options.input), options.domains):
        if path is not None:
            check_file(path)


def _refuse_file(output: Path) -> None:
    if output.is_file() and output.stat().st_size:
        raise InputError(f"{output}: exists; move it away or choose another name")


@contextmanager
def _utf8(stream: IO[str]) -> Iterator[IO[str]]:
    """A standard stream that writes UTF-8 and line feeds, whatever the locale says."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding="utf-8", newline="\n")
    yield stream
