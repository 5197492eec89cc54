"""An experiment file for a folder of corpora: counted, of a fitting size, every key explained.

What it says of the time is 2,200 target subwords a second and process, with a quarter for all that is not training:
set by the quickstart on two cores of an AMD EPYC with bfloat16 units (16 minutes by this rule, 14 measured; with more
updates of adapters since, 15.5).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from fairseq_ext.corpora.text_files import stream_lines
from fairseq_ext.engine.steps import atomic_write
from fairseq_ext.inputs.errors import InputError, run_command

TEMPLATE = Path(__file__).with_name("small.yaml.jinja")
_BLOCK_BYTES = 1 << 20
_SAMPLE = 2000
_SUBWORDS_PER_WORD = 1.6
_SUBWORDS_A_SECOND = 2200
# Without training; of held-out sentences, steps and reports.
_MINUTES_BESIDES = 1
_LEAST_PAIRS = 100


@dataclass(frozen=True)
class Corpora:
    """What lies in a folder.

    Attributes:
        folder: of them.
        langs: source and target.
        pairs: how many, by domain.
        words: on the target side, of a mean pair.
    """

    folder: Path
    langs: tuple[str, str]
    pairs: Mapping[str, int]
    words: float

    @property
    def total(self) -> int:
        return sum(self.pairs.values())


@dataclass(frozen=True)
class Plan:
    """What depends on the size."""

    held_out: int
    vocab_size: int
    max_tokens: int
    processes: int
    epochs: int
    updates: int
    minutes: float


def find_corpora(folder: Path, source: str | None = None, target: str | None = None) -> Corpora:
    """Look for ``DOMAIN.LANG`` in two languages; without a word, from English where it is one of them.

    Raises:
        InputError: if there are not two, a side is missing, or the sides of a domain differ in length.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; put DOMAIN.en and DOMAIN.pl, or other languages, into it")
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and not path.name.startswith(".")]
    found = sorted({path.suffix[1:] for path in files if path.suffix})
    langs = sorted(found, key=lambda lang: (lang != source, lang == target, lang != "en"))
    if source in found and target in found:
        langs = [source, target]
    if len(langs) != 2 or {source, target} - {None, *langs}:
        raise InputError(
            f"{folder}: has files in {', '.join(found) or 'no language'}; choose two by --source and --target"
        )
    stems = [{path.stem for path in files if path.suffix == f".{lang}"} for lang in langs]
    for stem in sorted(stems[0] ^ stems[1]):
        lang = langs[stem in stems[0]]
        raise InputError(f"{folder / f'{stem}.{lang}'}: is missing beside the other language; add it or move that away")
    pairs = {stem: _count_pairs(folder, stem, langs) for stem in sorted(stems[0])}
    lines = [line for stem in pairs for line in islice(stream_lines(folder / f"{stem}.{langs[1]}"), _SAMPLE)]
    return Corpora(folder, (langs[0], langs[1]), pairs, sum(len(line.split()) for line in lines) / len(lines))


def plan_for(corpora: Corpora, cores: int) -> Plan:
    """Sizes between those of the quickstart (28,000 pairs) and of the small English–Polish experiment (118,000).

    Raises:
        InputError: naming a domain that is too small.
    """
    for domain, pairs in corpora.pairs.items():
        if pairs < _LEAST_PAIRS:
            raise InputError(f"{corpora.folder}: {domain} has {pairs} pairs; give each domain {_LEAST_PAIRS} at least")
    is_tiny = corpora.total < 50_000
    held_out = max(20, min(1000 if not is_tiny else 200, min(corpora.pairs.values()) // 20))
    train = corpora.total - 2 * held_out * len(corpora.pairs)
    subwords = train * corpora.words * _SUBWORDS_PER_WORD
    epochs = max(4, min(30, round(3e6 / subwords)))
    max_tokens, updates, processes = (1500, 320, min(2, cores)) if is_tiny else (3000, 500, min(2, cores))
    # Sentences of one length fill three quarters of a batch.
    trained = subwords * epochs + 2 * updates * 0.75 * max_tokens * processes
    minutes = trained / (_SUBWORDS_A_SECOND * processes) / 60 * 1.25 + _MINUTES_BESIDES
    return Plan(held_out, _vocabulary(corpora.total), max_tokens, processes, epochs, updates, minutes)


def write_experiment(corpora: Corpora, plan: Plan, path: Path, work_dir: str) -> None:
    """Write the file.

    Raises:
        InputError: if it is there already.
    """
    if path.exists():
        raise InputError(f"{path}: is there already; move it away, or name another file by --output")
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    environment.filters["pad"] = lambda value, width: f"{value:<{width - 1}} "
    values = {
        **vars(plan),
        "domains": list(corpora.pairs),
        "pairs": corpora.total,
        "source": corpora.langs[0],
        "target": corpora.langs[1],
        "folder": _quoted(corpora.folder),
        "work_dir": _quoted(work_dir),
        "estimate": _estimate(plan),
    }
    text = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(values)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/init.sh``."""
    parser = argparse.ArgumentParser(
        prog="scripts/init.sh",
        description="Look at a folder of corpora, such as DOMAIN.en and DOMAIN.pl, and write an experiment file of "
        "a fitting size, in which every key is explained.",
    )
    parser.add_argument("folder", type=Path, help="of the corpora, line by line translations of each other")
    parser.add_argument(
        "--source", metavar="LANG", help="language of the text to translate (default: en, if it is there)"
    )
    parser.add_argument("--target", metavar="LANG", help="language to translate into (default: the other one)")
    parser.add_argument("--output", type=Path, default=Path("my.yaml"), help="file to write (default: my.yaml)")
    options = parser.parse_args(arguments)
    corpora = find_corpora(options.folder, options.source, options.target)
    plan = plan_for(corpora, os.cpu_count() or 1)
    write_experiment(corpora, plan, options.output, f"runs/{options.output.stem}")
    for domain, pairs in corpora.pairs.items():
        print(f"{domain:<20}{pairs:>12,} pairs")
    print(f"{options.output}: {' to '.join(corpora.langs)}, {plan.epochs} epochs for mix. {_estimate(plan)}")
    if corpora.total > 1_000_000:
        print("So much text is worth a larger model, on GPUs: configs/template.yaml has the paper's size.")
    print(f"Next: scripts/run_experiment.sh {options.output}")


def _count_pairs(folder: Path, stem: str, langs: Sequence[str]) -> int:
    counts = [_count_lines(folder / f"{stem}.{lang}") for lang in langs]
    if counts[0] != counts[1]:
        given = " and ".join(f"{stem}.{lang} {count:,}" for lang, count in zip(langs, counts, strict=True))
        raise InputError(f"{folder}: {given} lines; they must be line by line translations of each other")
    return counts[0]


def _count_lines(path: Path) -> int:
    lines, last = 0, b"\n"
    for block in _blocks(path):
        lines, last = lines + block.count(b"\n"), block
    return lines + (not last.endswith(b"\n"))


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            yield block


def _vocabulary(pairs: int) -> int:
    return next((size for limit, size in ((10_000, 2000), (50_000, 4000), (300_000, 8000)) if pairs < limit), 16_000)


def _estimate(plan: Plan) -> str:
    time = f"{plan.minutes:.0f} minutes" if plan.minutes < 90 else f"{plan.minutes / 60:.1f} hours"
    cores = "one core" if plan.processes == 1 else f"{plan.processes} cores"
    return f"About {time} on {cores} with bfloat16 units, some times that on others; not measured on GPUs."


def _quoted(path: Path | str) -> str:
    """As a string of YAML."""
    import json

    return json.dumps(str(path), ensure_ascii=False)


if __name__ == "__main__":
    run_command(main)
