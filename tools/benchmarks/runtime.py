"""Compare the translation speed of exported systems with CTranslate2 and Firefox's engine, in turn on the same text.

CTranslate2 does not support adapters: it translates with the plain base, exported as a separate system. Install it with
`pip install ctranslate2`. Firefox's engine translates with the Marian model from which a base was imported. It needs a
Python 3.10 with `pip install --no-deps bergamot`. With `--shape`, the systems' models are replaced with random models
of that size, and all translations have the same length. `--networks` also measures classifiers that could select the
domain before translation: encoders with random weights on the same sentences.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

PRECISIONS = ("float32", "int8")
_SIX_LAYERS_OF_512: dict[str, Any] = {
    f"{side}_{name}": value
    for side in ("encoder", "decoder")
    for name, value in {"embed_dim": 512, "ffn_embed_dim": 2048, "layers": 6, "attention_heads": 8}.items()
} | {"decoder_input_dim": 512, "decoder_output_dim": 512}
_POST_NORM = {"encoder_normalize_before": False, "decoder_normalize_before": False}
# Vocabulary size, and options of the model.
SHAPES: dict[str, tuple[int, dict[str, Any]]] = {
    "paper": (32000, _SIX_LAYERS_OF_512),
    "opus-mt": (58101, {**_SIX_LAYERS_OF_512, **_POST_NORM, "activation_fn": "swish"}),
}
RANDOM_LENGTH = 30
# Encoders that classify: layers, width, heads, vocabulary size.
NETWORKS = {
    "MiniLM": (6, 384, 12, 30522),
    "RoBERTa base": (12, 768, 12, 50265),
    "RoBERTa large": (24, 1024, 16, 50265),
}


@dataclass(frozen=True)
class Timed:
    """Translations of another process, and its seconds."""

    texts: list[str]
    cpu: float
    wall: float


Translate = Callable[[Sequence[str]], list[str] | Timed]


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("text", type=Path, help="file of sentences, one per line")
    parser.add_argument("references", type=Path, help="file of reference translations")
    parser.add_argument("systems", nargs="+", metavar="SYSTEM[:ROUTE]", help="exported systems, and their routes")
    parser.add_argument("--beams", type=int, nargs="+", default=[4], help="beam sizes")
    parser.add_argument("--precisions", choices=PRECISIONS, nargs="+", default=PRECISIONS, help="precisions")
    parser.add_argument("--shortlist", choices=("system", "none"), default="system", help="shortlist of the systems")
    parser.add_argument(
        "--firefox", nargs=2, metavar=("PYTHON", "FOLDER"), help="Python with Firefox's engine, and the model's folder"
    )
    parser.add_argument("--base", type=Path, help="exported system without adapters, for CTranslate2")
    parser.add_argument("--shape", choices=sorted(SHAPES), help="size of random models to measure")
    parser.add_argument("--networks", action="store_true", help="also measure classifiers")
    parser.add_argument("--threads", type=int, default=1, help="threads of both translators")
    parser.add_argument("--rounds", type=int, default=3, help="rounds; the best is reported")


def measure(options: Namespace) -> dict[str, Any]:
    import sacrebleu

    lines, references = (path.read_text(encoding="utf-8").splitlines() for path in (options.text, options.references))
    named = [name.partition(":")[::2] for name in options.systems]
    systems, routes, base, longest = [Path(name) for name, _ in named], [route for _, route in named], options.base, 200
    if options.shape:
        folder = Path(tempfile.mkdtemp())
        systems = [_random(system, options.shape, folder / system.name) for system in systems]
        base = base and _random(base, options.shape, folder / "base" / base.name)
        longest = RANDOM_LENGTH
        _search_once()
    translators: dict[str, Translate] = {} if options.firefox is None else {"Firefox": _firefox(options)}
    for precision in options.precisions:
        for system, route in zip(systems, routes, strict=True):
            own = _runtime(system, route, precision, options.threads, options.shortlist)
            translators |= {f"{system.name} {precision} beam {beam}": partial(own, beam) for beam in options.beams}
        if base:
            other = _ctranslate2(base, precision, options.threads, longest)
            translators |= {f"CTranslate2 {precision} beam {beam}": partial(other, beam) for beam in options.beams}
    classifiers = _networks(systems[0], lines, options.threads) if options.networks else {}
    rates: dict[str, dict[str, float]] = {name: {} for name in (*translators, *classifiers)}
    for _ in range(options.rounds):
        for name, answer in (translators | classifiers).items():
            found, cpu, wall = _timed(answer, lines)
            seconds = {"sentences_per_cpu_second": cpu, "sentences_per_second": wall}
            for unit, each in seconds.items():
                rates[name][unit] = max(rates[name].get(unit, 0), round(len(lines) / each, 1))
            if name in translators:
                rates[name]["chrf"] = round(sacrebleu.corpus_chrf(found, [references]).score, 2)
    return rates


def _search_once() -> None:
    """Keep translations that repeat themselves, as those of random models do; otherwise they are searched again."""
    from fairseq_ext.serve.runtime.searches import Sentence

    setattr(Sentence, "fault_of", lambda *_: None)  # noqa: B010


def _timed(translate: Translate, lines: Sequence[str]) -> tuple[list[str], float, float]:
    """Return the translations, and the seconds that they took: of the processor and in all."""
    cpu, wall = time.process_time(), time.perf_counter()
    found = translate(lines)
    if isinstance(found, Timed):
        return found.texts, found.cpu, found.wall
    return found, time.process_time() - cpu, time.perf_counter() - wall


def _random(system: Path, shape: str, out: Path) -> Path:
    """Export a system again with a random model of another size; its text processing and domains are kept."""
    import torch
    from fairseq.models import ARCH_MODEL_REGISTRY

    import fairseq_ext
    from fairseq_ext.patches.checkpoints import check_checkpoint, save_checkpoint
    from fairseq_ext.serve.graphs.exported import Parts, writing
    from fairseq_ext.serve.runtime.manifest import read_manifest

    fairseq_ext.install()
    symbols, shape_options = SHAPES[shape]
    manifest = read_manifest(system)
    data = Path(tempfile.mkdtemp()) / "data"
    shutil.copytree(system, data)
    dictionary = _enlarge_dictionaries(data, manifest.languages, symbols)
    checkpoint = data / "model.pt"
    check_checkpoint(checkpoint)
    state = torch.load(checkpoint, map_location="cpu", weights_only=True)
    options = state["cfg"]["model"]
    vars(options).update(shape_options)
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary, domains=list(manifest.domains))
    torch.manual_seed(1)
    state["model"] = ARCH_MODEL_REGISTRY[options.arch].build_model(options, task).state_dict()
    state["task_state"].pop("vocabulary")
    save_checkpoint(state, checkpoint)
    generation = {**manifest.generation, "max_len_b": RANDOM_LENGTH}
    with writing(out) as folder:
        Parts(checkpoint, data).write(folder, dataclasses.replace(manifest, generation=generation, classifier=None))
    return out


def _enlarge_dictionaries(data: Path, languages: Sequence[str], symbols: int) -> Any:
    """Extend the two identical dictionaries of a folder with unused symbols, and return one."""
    from fairseq.data import Dictionary

    dictionary = Dictionary.load(str(data / f"dict.{languages[0]}.txt"))
    for number in range(symbols - len(dictionary)):
        dictionary.add_symbol(f"unused{number}")
    for language in languages:
        dictionary.save(str(data / f"dict.{language}.txt"))
    return dictionary


def _runtime(
    system: Path, route: str, precision: str, threads: int, shortlist: str
) -> Callable[[int, Sequence[str]], list[str]]:
    from fairseq_ext.serve.runtime.requests import Request
    from fairseq_ext.serve.runtime.translator import SystemTranslator

    translator = SystemTranslator.load(system, decoding_precision=precision, threads=threads, shortlist=shortlist)

    def translate(beam: int, lines: Sequence[str]) -> list[str]:
        requests = [Request(line, route or None) for line in lines]
        return [answer.candidates[0].text for answer in translator.translate(requests, beam=beam, with_gates=False)]

    return translate


def _firefox(options: Namespace) -> Translate:
    """Return Firefox's engine, in a process of its own. It translates greedily, as Firefox does."""
    python, folder = options.firefox
    command = [python, str(Path(__file__).with_name("shared") / "firefox_engine.py"), folder, str(options.threads)]

    def translate(lines: Sequence[str]) -> Timed:
        text = "".join(f"{line}\n" for line in lines)
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        return Timed(**json.loads(done.stdout))

    return translate


def _networks(system: Path, lines: Sequence[str], threads: int) -> dict[str, Translate]:
    """Return encoders that classify the lines, segmented as in the system."""
    from fairseq_ext.serve.runtime.translator import SystemTranslator

    text = SystemTranslator.load(system).text
    lengths = sorted(min(len(text.pieces(line)), 500) for line in lines)
    return {name: _network(name, lengths, threads) for name in NETWORKS}


def _network(name: str, lengths: Sequence[int], threads: int) -> Translate:
    """Return an encoder that classifies sentences of the given lengths, in batches of similar length."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.set_num_threads(threads)
    layers, width, heads, symbols = NETWORKS[name]
    config = BertConfig(
        vocab_size=symbols,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
    )
    model = BertForSequenceClassification(config).eval()

    def classify(_: Sequence[str]) -> list[str]:
        found = []
        with torch.inference_mode():
            for start in range(0, len(lengths), 32):
                batch = lengths[start : start + 32]
                tokens = torch.ones(len(batch), batch[-1] + 2, dtype=torch.long)
                mask = torch.arange(batch[-1] + 2) < torch.tensor(batch)[:, None] + 2
                logits = model(input_ids=tokens, attention_mask=mask.long()).logits
                found += [str(number) for number in logits.argmax(-1).tolist()]
        return found

    return classify


def _ctranslate2(base: Path, precision: str, threads: int, longest: int) -> Callable[[int, Sequence[str]], list[str]]:
    import ctranslate2  # type: ignore[import-not-found]

    import fairseq_ext
    from fairseq_ext.serve.runtime.translator import SystemTranslator

    fairseq_ext.install()
    system = SystemTranslator.load(base)
    source, target = system.languages
    folder = str(Path(tempfile.mkdtemp()) / "model")
    converter = ctranslate2.converters.FairseqConverter(
        str(base / "model.pt"), str(base), source_lang=source, target_lang=target
    )
    converter.convert(folder, quantization=None if precision == "float32" else precision)
    translator = ctranslate2.Translator(folder, inter_threads=threads, intra_threads=1, compute_type=precision)

    def translate(beam: int, lines: Sequence[str]) -> list[str]:
        pieces = [system.text.pieces(line) for line in system.reader.normalise(lines)]
        found = translator.translate_batch(
            pieces, beam_size=beam, max_batch_size=1000, batch_type="tokens", max_decoding_length=longest
        )
        return ["".join(each.hypotheses[0]).replace("\u2581", " ").strip() for each in found]

    return translate
