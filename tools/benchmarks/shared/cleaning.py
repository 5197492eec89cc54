"""Clean one benchmark corpus with this project's pipeline and with OpusFilter, as similarly as possible."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.shared.cases import Figures, Ready
from benchmarks.shared.worker import cpu_seconds
from fairseq_ext.corpora.text_files import Pair, read_parallel, write_parallel
from fairseq_ext.inputs.errors import InputError

_DOMAIN = "BENCH"
_SAMPLE_SECONDS = 0.2
_MAX_JOINED = 200
_KEEP_EVERY = 100
# Otherwise, every process of OpusFilter starts one BLAS thread per core for the tiny products of language
# identification. On busy cores they wait for each other, which took up to 50 times as long.
_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

# Kinds of noise: the share of pairs, and a function of a pair and some earlier pair.
NOISE: Mapping[str, tuple[float, Callable[[Pair, Pair], Pair]]] = {
    "sides swapped": (0.02, lambda pair, other: Pair(pair.target, pair.source)),
    "target in the source language": (0.03, lambda pair, other: Pair(pair.source, other.source)),
    "target of another pair": (0.02, lambda pair, other: Pair(pair.source, other.target)),
    "target empty": (0.02, lambda pair, other: Pair(pair.source, "")),
    "target cut to a quarter": (0.03, lambda pair, other: Pair(pair.source, pair.target[: len(pair.target) // 4])),
    "target copied from source": (0.01, lambda pair, other: Pair(pair.source, pair.source)),
    "markup on one side": (0.01, lambda pair, other: Pair(f'<p class="a">{pair.source}</p>', pair.target)),
    "spaces lost": (0.01, lambda pair, other: Pair(pair.source, pair.target.replace(" ", ""))),
    "repeated": (0.05, lambda pair, other: other),
}


@dataclass(frozen=True)
class Task:
    """Work for both tools.

    Attributes:
        folder: folder of the benchmark corpus.
        langs: source and target language.
        without: names in :func:`equivalents`, and "normalise", to leave out.
        workers: number of processes.
    """

    folder: Path
    langs: tuple[str, str]
    without: Sequence[str]
    workers: int


# Maps the task and an empty folder to a command and the two files that it will write there.
MakeCommand = Callable[[Task, Path], tuple[list[str], list[Path]]]


def equivalents(langs: tuple[str, str]) -> dict[str, tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Return our options and the equivalent filters of OpusFilter, by filter.

    Options are chosen so that decisions are as similar as possible (OpusFilter's limits are often exclusive; both
    language models are langid's). Remaining differences: we let long addresses pass, ignore digits and punctuation in
    ``identical``, and in ``agreement`` OpusFilter compares the sequence of non-zero digits and drops any tag.
    """
    from fairseq_ext.cleaning.characters import scripts_of
    from fairseq_ext.cleaning.language_id import DISTRACTORS

    scripts = [scripts_of(lang, "")[0] for lang in langs]
    candidates = sorted({*langs, *DISTRACTORS})
    return {
        "length": (
            {"min_words": 1, "max_words": 100, "max_characters": 1000},
            [
                {"LengthFilter": {"min_length": 1, "max_length": 100, "unit": "word"}},
                {"LengthFilter": {"min_length": 1, "max_length": 1000, "unit": "char"}},
            ],
        ),
        "length_ratio": (
            {"max_ratio": 3.0, "unit": "words", "exempt": 0},
            [{"LengthRatioFilter": {"threshold": 3.001, "unit": "word"}}],
        ),
        "long_words": ({"max_characters": 40}, [{"LongWordFilter": {"threshold": 41}}]),
        "characters": (
            {"min_share": 0.6, "min_letters": 0.3},
            [
                {"CharacterScoreFilter": {"scripts": scripts, "thresholds": [0.6, 0.6]}},
                {"AlphabetRatioFilter": {"threshold": 0.3, "exclude_whitespace": True}},
            ],
        ),
        "identical": ({"exempt_words": 0}, [{"SimilarityFilter": {"threshold": 1.0, "lowercase": True}}]),
        "agreement": ({"min_share": 0.5}, [{"NonZeroNumeralsFilter": {"threshold": 0.5}}, {"HtmlTagFilter": {}}]),
        "language": (
            {"backend": "langid", "distractors": candidates, "min_probability": 1.0, "min_characters": 1},
            [{"LangidFilter": {"languages": list(langs), "langid_languages": candidates}}],
        ),
    }


def our_command(task: Task, work_dir: Path) -> tuple[list[str], list[Path]]:
    """Return the command that cleans with this repository, and the files that it writes."""
    import yaml

    filters = {name: ours for name, (ours, _) in equivalents(task.langs).items() if name not in task.without}
    clean: dict[str, Any] = {"filters": filters, "deduplicate": "pair"}
    if "normalise" not in task.without:
        clean["normalise"] = {"unicode": "NFC", "punctuation": "moses"}
    experiment = {
        "work_dir": str(work_dir / "run"),
        "source_lang": task.langs[0],
        "target_lang": task.langs[1],
        "corpora": {"folder": str(task.folder)},
        "clean": clean,
    }
    config = work_dir / "experiment.yaml"
    config.write_text(yaml.safe_dump(experiment, sort_keys=False), encoding="utf-8")
    command = [sys.executable, "-m", "fairseq_ext.cli", "prepare", str(config), "--to", "clean"]
    command += ["--workers", str(task.workers)]
    return command, [work_dir / "run" / "clean" / f"{_DOMAIN}.{lang}" for lang in task.langs]


def opusfilter_command(executable: Path, task: Task, work_dir: Path) -> tuple[list[str], list[Path]]:
    """Return the corresponding command of OpusFilter, and the files that it writes."""
    import yaml
    from sacremoses import MosesPunctNormalizer

    rules = [
        [
            [pattern.pattern if isinstance(pattern, re.Pattern) else pattern, new, 0, []]
            for pattern, new in substitutions
        ]
        for substitutions in (MosesPunctNormalizer(lang).substitutions for lang in task.langs)
    ]
    normalise: list[dict[str, Any]] = [{"WhitespaceNormalizer": {}}]
    if "normalise" not in task.without:
        normalise += [{"RegExpSub": {"lang_patterns": rules}}, {"WhitespaceNormalizer": {}}]
    filters = [
        entry for name, (_, theirs) in equivalents(task.langs).items() if name not in task.without for entry in theirs
    ]
    names = {step: [f"{step}.{lang}" for lang in task.langs] for step in ("normalised", "filtered", "clean")}
    raw = [str((task.folder / f"{_DOMAIN}.{lang}").resolve()) for lang in task.langs]
    steps: list[tuple[str, list[str], str, dict[str, Any]]] = [
        ("preprocess", raw, "normalised", {"preprocessors": normalise}),
        ("filter", names["normalised"], "filtered", {"filters": filters}),
        ("remove_duplicates", names["filtered"], "clean", {"lowercase": True}),
    ]
    config = work_dir / "opusfilter.yaml"
    document = {
        "common": {"output_directory": str(work_dir), "default_n_jobs": task.workers},
        "steps": [
            {"type": kind, "parameters": {"inputs": inputs, "outputs": names[output], **parameters}}
            for kind, inputs, output, parameters in steps
        ],
    }
    config.write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return [str(executable), str(config)], [work_dir / name for name in names["clean"]]


def make_pairs(base: Sequence[Pair], count: int, seed: int) -> Iterator[Pair]:
    """Yield the benchmark corpus.

    Turn 0 of a pair is the pair itself; every further turn is another variant. Turns are mixed from the start, so any
    part of the corpus resembles the whole.

    Args:
        base: pairs to build the corpus from.
        count: number of pairs to make.
        seed: random seed.
    """
    generator = random.Random(seed)
    order = list(base)
    generator.shuffle(order)
    turns = -(-count // len(order))
    earlier = order[:1]
    for number in range(count):
        index = number % len(order)
        turn = (number // len(order) + index) % turns
        pair = _vary(order[index], order[(index + turn) % len(order)], turn)
        if number % _KEEP_EVERY == 0:
            earlier.append(pair)
        yield _spoil(pair, earlier[int(generator.random() * len(earlier))], generator.random())


def _vary(pair: Pair, other: Pair, turn: int) -> Pair:
    if turn == 0:
        return pair
    if turn % 2 and sum(map(len, (*pair, *other))) <= _MAX_JOINED:
        return Pair(f"{pair.source} {other.source}", f"{pair.target} {other.target}")
    source, target = (re.sub("[0-9]", lambda digit: str((int(digit[0]) + turn) % 10), side) for side in pair)
    return Pair(f"{turn}. {source}", f"{turn}. {target}")


def _spoil(pair: Pair, other: Pair, chance: float) -> Pair:
    for share, change in NOISE.values():
        if chance < share:
            return change(pair, other)
        chance -= share
    return pair


def run_measured(command: Sequence[str], outputs: Sequence[Path], work_dir: Path) -> dict[str, float]:
    """Run a command, and return seconds, CPU seconds, peak memory of its processes, and pairs kept.

    Raises:
        InputError: if it fails or writes sides of different lengths.
    """
    log = work_dir / "log.txt"
    start, cpu_start, peak = time.perf_counter(), cpu_seconds(), 0
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, env=os.environ | _ENVIRONMENT, start_new_session=True
        )
        try:
            while process.poll() is None:
                peak = max(peak, _session_bytes(process.pid))
                try:
                    process.wait(_SAMPLE_SECONDS)
                except subprocess.TimeoutExpired:
                    continue
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    wall, cpu = time.perf_counter() - start, cpu_seconds() - cpu_start
    if process.returncode:
        tail = "".join(log.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)[-20:])
        raise InputError(f"{tail}\n{' '.join(command)}: ended with {process.returncode}")
    kept = [_count_lines(path) for path in outputs]
    if len(set(kept)) > 1:
        raise InputError(f"{work_dir}: the written sides have {kept[0]} and {kept[1]} lines, which must be equal")
    return {"wall": wall, "cpu": cpu, "peak": peak / 2**20, "kept": kept[0]}


def _session_bytes(session: int) -> int:
    """Return the sum of the PSS of a session's processes, which counts shared pages once."""
    total = 0
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # After the name, which is in brackets and may contain spaces: state, parent, group, session.
            if int((entry / "stat").read_text().rpartition(")")[2].split()[3]) != session:
                continue
            found = re.search(r"^Pss:\s+(\d+) kB", (entry / "smaps_rollup").read_text(), re.MULTILINE)
        except (OSError, IndexError):  # the process has ended
            continue
        total += 1024 * int(found[1]) if found else 0
    return total


def _read_base(folder: Path, langs: tuple[str, str]) -> list[Pair]:
    source, target = langs
    names = sorted(path.name.removesuffix(f".{source}") for path in folder.glob(f"*.{source}"))
    if not names:
        raise InputError(
            f"{folder}: has no files DOMAIN.{source}; give a folder with DOMAIN.{source} and DOMAIN.{target}"
        )
    return [pair for name in names for pair in read_parallel(folder / f"{name}.{source}", folder / f"{name}.{target}")]


def _count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def prepare(options: Namespace, count: int, make_command: MakeCommand, folder: Path) -> Ready:
    langs: tuple[str, str] = tuple(options.langs)
    files = [folder / f"{_DOMAIN}.{lang}" for lang in langs]
    write_parallel(files[0], files[1], make_pairs(_read_base(options.corpora, langs), count, options.seed))
    task = Task(folder, langs, options.without, options.workers)

    def run() -> Figures:
        # Remove results of earlier runs, because both tools skip finished steps.
        with tempfile.TemporaryDirectory(dir=folder) as name:
            command, outputs = make_command(task, Path(name))
            figures = run_measured(command, outputs, Path(name))
        return figures | {"rate": count / figures["wall"]}

    return Ready(run)
