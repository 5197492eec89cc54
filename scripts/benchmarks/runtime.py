"""How fast exported systems translate beside CTranslate2, the same sentences in turn, in one run.

CTranslate2 has no adapters: it translates with the plain base, exported as a system of its own. `pip install
ctranslate2` brings it.
"""

from __future__ import annotations

import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PRECISIONS = ("float32", "int8")
Translate = Callable[[Sequence[str]], list[str]]


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("text", type=Path, help="sentences, one a line")
    parser.add_argument("references", type=Path, help="their translations")
    parser.add_argument("systems", nargs="+", help="exported systems")
    parser.add_argument("--base", type=Path, help="exported system without adapters, for CTranslate2")
    parser.add_argument("--threads", type=int, default=1, help="that translate, of both")
    parser.add_argument("--rounds", type=int, default=3, help="of which the best counts")


def measure(options: Namespace) -> dict[str, Any]:
    import sacrebleu

    lines, references = (path.read_text(encoding="utf-8").splitlines() for path in (options.text, options.references))
    translators = {}
    for precision in PRECISIONS:
        for system in map(Path, options.systems):
            translators[f"{system.name} {precision}"] = _runtime(system, precision, options.threads)
        if options.base:
            translators[f"CTranslate2 {precision}"] = _ctranslate2(options.base, precision, options.threads)
    rates: dict[str, dict[str, float]] = {name: {} for name in translators}
    for _ in range(options.rounds):
        for name, translate in translators.items():
            cpu, wall = time.process_time(), time.perf_counter()
            found = translate(lines)
            seconds = {
                "sentences_per_cpu_second": time.process_time() - cpu,
                "sentences_per_second": time.perf_counter() - wall,
            }
            for unit, each in seconds.items():
                rates[name][unit] = max(rates[name].get(unit, 0), round(len(lines) / each, 1))
            rates[name]["chrf"] = round(sacrebleu.corpus_chrf(found, [references]).score, 2)
    return rates


def _runtime(system: Path, precision: str, threads: int) -> Translate:
    from fairseq_ext.runtime.requests import Request
    from fairseq_ext.runtime.translator import SystemTranslator

    translator = SystemTranslator.load(system, decoding_precision=precision, threads=threads)

    def translate(lines: Sequence[str]) -> list[str]:
        answers = translator.translate([Request(line) for line in lines], beam=4, with_gates=False)
        return [answer.candidates[0].text for answer in answers]

    return translate


def _ctranslate2(base: Path, precision: str, threads: int) -> Translate:
    import ctranslate2  # type: ignore[import-not-found]

    import fairseq_ext.hub  # noqa: F401  what the checkpoint names
    from fairseq_ext.runtime.translator import SystemTranslator

    system = SystemTranslator.load(base)
    source, target = system.languages
    folder = str(Path(tempfile.mkdtemp()) / "model")
    converter = ctranslate2.converters.FairseqConverter(
        str(base / "model.pt"), str(base), source_lang=source, target_lang=target
    )
    converter.convert(folder, quantization=None if precision == "float32" else precision)
    translator = ctranslate2.Translator(folder, inter_threads=threads, intra_threads=1, compute_type=precision)

    def translate(lines: Sequence[str]) -> list[str]:
        pieces = [system.text.pieces(line) for line in system.normalise(lines)]
        found = translator.translate_batch(
            pieces, beam_size=4, max_batch_size=1000, batch_type="tokens", max_decoding_length=200
        )
        return ["".join(each.hypotheses[0]).replace("\u2581", " ").strip() for each in found]

    return translate
