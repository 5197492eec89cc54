"""Train a domain's adapter on corrections of its translations, and score it on held-out ones."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from fairseq_ext.adapters.new_text import TRAIN, VALID, Training
from fairseq_ext.adapters.system import System
from fairseq_ext.adapters.training import Bench, Scores, score
from fairseq_ext.base.errors import InputError
from fairseq_ext.serve.graphs import exported
from fairseq_ext.text.parallel_files import read_jsonl, read_tsv
from fairseq_ext.text.split import stable_hash
from fairseq_ext.text.text_files import Pair

_FEWEST = 10  # corrections of which some are held out


def update_domain(
    model: Path, name: str, corrections: Path, output: Path, training: Training, *, may_be_worse: bool = False
) -> Scores:
    """Write an exported system in which one domain's adapter has learned from corrections; all others stay identical.

    Args:
        model: exported system.
        name: the domain.
        corrections: file of corrections, or a folder of the server with ``DOMAIN.jsonl``.
        output: directory to write, which may be ``model``.
        training: settings; ``valid`` is the share of corrections to hold out, in percent.
        may_be_worse: whether to write a system that scores lower.

    Raises:
        InputError: if the system scores lower on held-out corrections, or has no such domain.
    """
    system = System.read(model)
    system.require_adapters()
    system.require_domain(name)
    if system.manifest is None:
        raise InputError(f"{model}: is no exported system; give one")
    pairs = read_corrections(corrections / f"{name}.jsonl" if corrections.is_dir() else corrections)
    held_out, rest = _divided(pairs, training)
    output = output.resolve()
    with TemporaryDirectory(prefix=f".{output.name}.", dir=output.parent) as folder:
        bench = Bench(Path(folder), name, training)
        bench.write_pairs(system, system, {name: {TRAIN: rest, VALID: held_out or rest}})
        bench.train_adapter(system).write(Path(folder) / "new")
        scored = held_out or rest
        before, after = (score(path, name, scored) for path in (model, Path(folder) / "new"))
        scores = Scores(before, after, len(scored), bool(held_out))
        if held_out and after < before and not may_be_worse:
            raise InputError(
                f"{name}: chrF would fall from {before:.1f} to {after:.1f} on {len(scored)} held-out corrections, so "
                f"{output} stays as it is; give more corrections, a smaller --max-update, or --even-if-worse"
            )
        with exported.writing(output) as new:
            shutil.copytree(Path(folder) / "new", new, dirs_exist_ok=True)
    return scores


def read_corrections(path: Path) -> list[Pair]:
    """Read corrections: lines of JSON objects with ``source`` and ``target``, or in .tsv files, of two columns.

    Of several corrections of a text, the last one counts.
    """
    read = read_tsv if path.suffix == ".tsv" else read_jsonl
    found: dict[str, str] = {}
    for number, (source, target) in enumerate(read(path, ("source", "target"), None, Counter()), start=1):
        if not source or not target:
            raise InputError(f"{path}, line {number}: is no correction; give a source and a target")
        found[source] = target
    if not found:
        raise InputError(f"{path}: has no corrections")
    return [Pair(*pair) for pair in found.items()]


def _divided(pairs: Sequence[Pair], training: Training) -> tuple[list[Pair], list[Pair]]:
    """Return the held-out corrections and the rest; of few corrections, none are held out."""
    pairs = [pair for pair in pairs if max(len(side.split()) for side in pair) <= training.max_words]
    if not pairs:
        raise InputError(f"no correction has at most {training.max_words} words; raise --max-words")
    pairs = sorted(pairs, key=lambda pair: stable_hash(training.seed, pair.source))
    assert training.valid is not None
    number = max(1, len(pairs) * training.valid // 100) if len(pairs) >= _FEWEST else 0
    print(f"{len(pairs) - number} corrections to train on, {number} held out", file=sys.stderr)
    return list(pairs[:number]), list(pairs[number:])
