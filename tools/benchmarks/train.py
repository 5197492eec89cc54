"""Train with fairseq's trainer on a generated data directory, and measure words per second between updates.

fairseq-train runs as for a user, from command line to log; its processes pause between rounds. One process with all
threads is compared with one process per thread, each with separate batches. Sizes: small (3+2 layers of 192, 4,000
symbols, 3,000 tokens per batch), wide (4+2 of 320, 8,000, 6,000), paper (6+6 of 512, 32,000, 3,000), student (6+2 of
256 with SSRU decoder and separate tables, 32,000 symbols, of which the text has 12,000, 1,500; adapters of 64).
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path

from benchmarks.shared.cases import Case, Figures, MissingError, Ready
from benchmarks.shared.models import ARCHS, domain_names, make_dictionary

UNIT = "words/s"
ENVIRONMENT = {
    # As in training runs that a pipeline starts.
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    # Otherwise, checking for a GPU would prevent forks of this process from using it.
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
}
_LENGTH = (4, 24)  # of sentences, in tokens


@dataclass(frozen=True)
class Size:
    """A model and its batches.

    Attributes:
        preset: suffix of the names of fairseq's architectures.
        options: additional options of the model.
        vocabulary: vocabulary size.
        max_tokens: tokens per batch of one process.
        updates: updates per round.
        in_text: number of symbols in the text; 0 for all.
        adapters: additional options of models with adapters.
    """

    preset: str
    options: str
    vocabulary: int
    max_tokens: int
    updates: int
    in_text: int = 0
    adapters: str = ""


_WIDE = (
    "--encoder-layers 4 --encoder-embed-dim 320 --encoder-ffn-embed-dim 1280 --encoder-attention-heads 4 "
    "--decoder-layers 2 --decoder-embed-dim 320 --decoder-ffn-embed-dim 1280 --decoder-attention-heads 4"
)
_STUDENT = (
    "--encoder-layers 6 --encoder-embed-dim 256 --encoder-ffn-embed-dim 1536 --encoder-attention-heads 8 "
    "--decoder-layers 2 --decoder-embed-dim 256 --decoder-ffn-embed-dim 1536 --decoder-attention-heads 8 "
    "--autoregressive-layer ssru"
)
SIZES = {
    "small": Size("_small", "", 4000, 3000, 10),
    "wide": Size("", _WIDE, 8000, 6000, 3),
    "paper": Size("", "", 32000, 3000, 2),
    "student": Size("", _STUDENT, 32000, 1500, 4, in_text=12000, adapters="--bottleneck-dim 64"),
    "tiny": Size("_tiny", "", 1000, 500, 5),
}


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=["small", "wide", "paper"], help="models")
    parser.add_argument("--systems", nargs="+", choices=list(ARCHS), default=["MIX"], help="systems to train")
    parser.add_argument(
        "--precisions", nargs="+", default=["float32", "bfloat16"], help="precisions; float16 only with --device cuda"
    )
    parser.add_argument(
        "--processes", type=int, nargs="+", default=[1, 2], help="numbers of processes, which share the threads or GPUs"
    )
    parser.add_argument(
        "--outputs", nargs="+", default=["all"], help="symbols of the loss: all, text; text is without label smoothing"
    )
    parser.add_argument("--top", type=int, nargs="+", default=[0], help="adapters that a gate selects; 0: all")
    parser.add_argument("--domains", type=int, default=6, help="number of domains")
    parser.add_argument("--max-tokens", type=int, help="tokens per batch (default: the size's)")
    parser.add_argument("--sentences", type=int, default=20000, help="sentences in the data directory")
    parser.add_argument("--updates", type=int, help="updates per round (default: the size's)")
    parser.add_argument("--num-workers", type=int, default=0, help="processes that prepare batches")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.set_defaults(threads=2, rounds=2)


def cases(options: Namespace) -> list[Case]:
    found = []
    for size in options.sizes:
        for system in options.systems:
            for top in options.top if system == "GAD" else [0]:
                full = f"{system} top {top}" if top else system
                names = {
                    (
                        count,
                        precision,
                        output,
                    ): f"{full}, {size}, {_processes(count, options)}, {precision}{_of(output)}"
                    for count in options.processes
                    for precision in options.precisions
                    for output in options.outputs
                }
                first = next(iter(names.values()))
                for (count, precision, output), name in names.items():
                    prepare = partial(_prepare, system, size, count, precision, output, top, options)
                    found.append(Case(name, prepare, None, () if name == first else (first,), f"{full}, {size}"))
    return found


def _processes(count: int, options: Namespace) -> str:
    return f"{count} × {max(1, options.threads // count)} threads" if options.device == "cpu" else f"{count} GPU(s)"


def _of(output: str) -> str:
    return "" if output == "all" else f", {output}"


def _prepare(
    system: str, size: str, count: int, precision: str, output: str, top: int, options: Namespace, folder: Path
) -> Ready:
    from benchmarks.shared.training import Training

    chosen = SIZES[size]
    data = _make_data(folder, chosen, options)
    arguments = [str(data), *_arguments(system, chosen, top, options), "--save-dir", str(folder / "saved")]
    arguments += ["--output-symbols", output, "--label-smoothing", "0"] if output != "all" else []
    tokens = options.max_tokens or chosen.max_tokens
    arguments += ["--max-tokens", str(tokens), "--num-workers", str(options.num_workers)]
    if options.device == "cpu":
        arguments += ["--cpu", *_cpu_precision(precision)]
        training = Training(arguments, folder, processes=count, threads=max(1, options.threads // count))
    else:
        arguments += ["--distributed-world-size", str(count)]
        arguments += {"float32": [], "bfloat16": ["--bf16"], "float16": ["--fp16"]}[precision]
        training = Training(arguments, folder, processes=1, threads=options.threads)
    updates = options.updates or chosen.updates

    def run() -> Figures:
        return training.go_on(updates)

    return Ready(run, close=training.close)


def _arguments(system: str, size: Size, top: int, options: Namespace) -> list[str]:
    """Return arguments of fairseq-train, without data, device and batch."""
    import fairseq_ext
    from fairseq_ext.base.fairseq_cli import USER_DIR
    from fairseq_ext.models.transformer_gated_adapter import GatedAdapterConfig

    fairseq_ext.install()
    if top and "gate_top_k" not in {item.name for item in fields(GatedAdapterConfig)}:
        raise MissingError("no option --gate-top-k")
    words = f"--user-dir {USER_DIR} --task multi_domain_translation --arch {ARCHS[system]}{size.preset} {size.options} "
    words += "" if size.in_text else "--share-all-embeddings "
    words += "" if system == "MIX" else f"--random-base {size.adapters} "
    words += "--optimizer adam --lr 1e-4 --clip-norm 1 --dropout 0.1 --seed 1 "
    words += "--criterion label_smoothed_cross_entropy --label-smoothing 0.1 --max-update 1000000 "
    words += "--disable-validation --no-save --log-format json --log-interval 1 --source-lang en --target-lang pl"
    return [*words.split(), *(["--gate-top-k", str(top)] if top else [])]


def _cpu_precision(precision: str) -> list[str]:
    """Return the option of the tasks for the precision on a CPU; code without it computes in float32."""
    from fairseq_ext.tasks.translation_options import MultiDomainTranslationConfig

    if "cpu_precision" in {item.name for item in fields(MultiDomainTranslationConfig)}:
        return ["--cpu-precision", precision]
    if precision != "float32":
        raise MissingError("no option --cpu-precision")
    return []


def _make_data(folder: Path, size: Size, options: Namespace) -> Path:
    """Write a reproducible data directory of random sentences, and return its path."""
    import numpy as np
    import torch
    from fairseq.data import indexed_dataset

    data = folder / "data-bin"
    dictionary = make_dictionary(size.vocabulary)
    generator = np.random.default_rng(1)
    names = domain_names(options.domains)
    for name in names:
        (data / name).mkdir(parents=True)
        lengths = generator.integers(*_LENGTH, size=options.sentences // options.domains)
        for split, chosen in (("train", lengths), ("valid", lengths[:10])):
            for language in ("en", "pl"):
                prefix = str(data / name / f"{split}.en-pl.{language}")
                builder = indexed_dataset.make_builder(f"{prefix}.bin", "mmap", vocab_size=size.vocabulary)
                for length in chosen:
                    tokens = generator.integers(4, size.in_text or size.vocabulary, size=length)
                    tokens[-1] = dictionary.eos()
                    builder.add_item(torch.from_numpy(tokens))
                builder.finalize(f"{prefix}.idx")
    for language in ("en", "pl"):
        dictionary.save(str(data / f"dict.{language}.txt"))
    (data / "domains.txt").write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    return data
