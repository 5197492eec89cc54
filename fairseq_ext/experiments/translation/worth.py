"""What each adapter is worth to a sentence, as steps: losses of the true translations, and labels made of them.

Labels are softmax(−loss / T) over the adapters, in the form of the classifier's. Gates that learn them learn which
adapter translates best, which no classifier of domains can know. The adapters have been trained on the training text,
each on its own domain's, so that there they favour the true domain more than on text that they have not seen.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairseq_ext.data.teacher_labels import label_path, write_probs, write_teacher_record
from fairseq_ext.domains.names import DOMAINS_FILE, read_domain_names
from fairseq_ext.engine.fairseq_cli import option_of
from fairseq_ext.engine.progress import progress
from fairseq_ext.engine.steps import Step, add_step_options, atomic_write, run_steps
from fairseq_ext.experiments.translation.config import load_config
from fairseq_ext.experiments.translation.experiment import TranslationExperiment
from fairseq_ext.inputs.array_file import map_array
from fairseq_ext.inputs.errors import InputError, run_command
from fairseq_ext.recipes.config import Run
from fairseq_ext.recipes.train import best_checkpoint
from fairseq_ext.teacher.metrics import confusion_matrix, summarise
from fairseq_ext.text.split import SPLITS

if TYPE_CHECKING:
    from fairseq_ext.metrics.adapter_losses import AdapterScorer

BACKEND = "worth"
WORTH_FILE = "worth.json"
_SHARP = 0.01  # all weight for the lowest loss
_TEST = "test"
_REMEDY = "make it again"


def worth_dir(config: TranslationExperiment, run: Run) -> Path:
    """Where a run's losses and the labels made of them lie."""
    return config.work_dir / "worth" / run.name


def losses_step(config: TranslationExperiment, run: Run, split: str, folder: Path | None = None) -> Step:
    """The step that scores a set's true translations under every adapter of a run: ``DOMAIN.npy``, N×D, in nats.

    Args:
        config: the experiment.
        run: of a system with adapters, plain or gated; products are as precise as in its training on a CPU.
        split: ``train``, ``valid`` or ``test``.
        folder: of the run's losses and labels; by default below the experiment's own.
    """
    data, checkpoint = run.system.data or config.work_dir / "data-bin", best_checkpoint(config, run.name)
    precision = str(option_of(run.system.options, "cpu-precision") or "float32")
    return Step(
        (folder or worth_dir(config, run)) / split,
        inputs=[data, checkpoint],
        options={"version": 1, "split": split, "precision": precision},
        build=partial(_write_losses, checkpoint=checkpoint, data=data, split=split, precision=precision),
        resumable=True,
    )


def labels_step(losses: Mapping[str, Path], output: Path, temperature: float) -> Step:
    """The step that makes labels of losses, as a directory for ``--teacher-dir``.

    Args:
        losses: by split the folder of :func:`losses_step`.
        output: of the labels.
        temperature: T.
    """
    return Step(
        output,
        inputs=list(losses.values()),
        options={"version": 1, "splits": list(losses), "temperature": temperature},
        build=lambda folder: write_labels(folder, losses, temperature),
    )


def worth_steps(config: TranslationExperiment, run: Run, temperature: float, folder: Path | None = None) -> list[Step]:
    """The steps that end with labels of all sets; arguments as of :func:`losses_step` and :func:`labels_step`."""
    folder = folder or worth_dir(config, run)
    losses = {split: losses_step(config, run, split, folder) for split in SPLITS}
    paths = {split: step.output for split, step in losses.items()}
    labels = labels_step(paths, folder / f"labels-{temperature:g}", temperature)
    return [*losses.values(), labels]


def best_adapter_steps(config: TranslationExperiment, run: Run) -> list[Step]:
    """The steps that end with labels of the test sets by which the adapter of the lowest loss is chosen."""
    losses = losses_step(config, run, _TEST)
    return [losses, labels_step({_TEST: losses.output}, worth_dir(config, run) / "best", _SHARP)]


def read_losses(folder: Path, domains: Sequence[str]) -> dict[str, np.ndarray]:
    """The losses of a set by domain, each N×D.

    Raises:
        InputError: naming a file that is missing or no such array.
    """
    found = {name: map_array(folder / f"{name}.npy", _REMEDY) for name in domains}
    for name, losses in found.items():
        if losses.ndim != 2 or losses.shape[1] != len(domains) or losses.dtype != np.float32:
            raise InputError(f"{folder / name}.npy: holds no losses of {len(domains)} adapters; {_REMEDY}")
    return found


def as_probs(losses: np.ndarray, temperature: float) -> np.ndarray:
    """softmax(−loss / T) of every row.

    Shape:
        losses, result: N×D
    """
    scores = -losses.astype(np.float64) / temperature
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def write_worth(folder: Path, losses: Mapping[str, Path]) -> None:
    """Write ``worth.json``: by run the mean losses of the test sentences, and how often the true domain's is the least.

    Args:
        folder: where to write.
        losses: by run the folder of :func:`losses_step`.
    """
    record = {run: _summarise(path) for run, path in losses.items()}
    (folder / WORTH_FILE).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _summarise(folder: Path) -> dict[str, Any]:
    """``true``, ``best`` and ``best_single``, of one adapter for all, in nats a sentence; ``each``, by adapter."""
    domains = read_domain_names(folder / DOMAINS_FILE)
    by_domain = read_losses(folder, domains)
    losses = np.concatenate(list(by_domain.values())).astype(np.float64)
    labels = np.repeat(np.arange(len(domains)), [len(rows) for rows in by_domain.values()])
    each = losses.mean(0)
    return {
        "sentences": len(losses),
        "true": round(float(losses[np.arange(len(losses)), labels].mean()), 4),
        "best": round(float(losses.min(1).mean()), 4),
        "best_single": round(float(each.min()), 4),
        "each": {name: round(float(value), 4) for name, value in zip(domains, each, strict=True)},
        "true_is_best": round(float((losses.argmin(1) == labels).mean()), 4),
    }


def write_labels(folder: Path, losses: Mapping[str, Path], temperature: float) -> None:
    """Write a directory like the classifier's, whose ``metrics`` say how often the true domain's adapter is the best.

    Args:
        folder: where to write.
        losses: by split the folder of :func:`losses_step`.
        temperature: T.
    """
    domains = read_domain_names(next(iter(losses.values())) / DOMAINS_FILE)
    metrics = {}
    for split, path in losses.items():
        matrix = np.zeros((len(domains), len(domains)), dtype=np.int64)
        for row, (name, rows) in enumerate(read_losses(path, domains).items()):
            (folder / name).mkdir(exist_ok=True)
            write_probs(label_path(folder, name, split), as_probs(rows, temperature))
            matrix += confusion_matrix(np.full(len(rows), row), rows.argmin(1), len(domains))
        metrics[split] = summarise(matrix, domains)
    write_teacher_record(folder, domains, BACKEND, metrics, temperature=temperature)


def _write_losses(folder: Path, checkpoint: Path, data: Path, split: str, precision: str) -> None:
    """Those of a domain that an interrupted run finished are taken over."""
    domains = read_domain_names(data / DOMAINS_FILE)
    missing = [name for name in domains if not (folder / f"{name}.npy").is_file()]
    if missing:
        # Loads fairseq.
        from fairseq_ext.metrics.adapter_losses import AdapterScorer
        from fairseq_ext.teacher.devices import choose_precision

        scorer = AdapterScorer.load(checkpoint, data, precision=choose_precision(precision, "cpu"))
        _score(folder, scorer, missing, split)
    (folder / DOMAINS_FILE).write_text("".join(f"{name}\n" for name in domains), encoding="utf-8")


def _score(folder: Path, scorer: AdapterScorer, domains: Sequence[str], split: str) -> None:
    done = 0

    def how_far() -> tuple[float, str]:
        return done / len(domains), f"{done} of {len(domains)} domains"

    with progress(f"{folder.parent.name} scores {split}", how_far):
        for name in domains:
            losses = scorer.losses(name, split)
            with atomic_write(folder / f"{name}.npy") as temporary:
                np.save(temporary, losses, allow_pickle=False)
            done += 1


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``data-prep/label_worth.py``."""
    parser = argparse.ArgumentParser(
        description="Label an experiment's data by what each adapter of a trained system is worth to a sentence: "
        "softmax(-loss / T) of its true translation under every adapter. Finished steps are not run again.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("config", type=Path, help="experiment file (YAML), see configs/")
    parser.add_argument("run", help="system with adapters under train: systems, or one run of it, as ad@2")
    parser.add_argument("--temperature", type=float, default=1.0, metavar="T", help="larger makes labels more even")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where to write (default: below the experiment's)")
    add_step_options(parser)
    options = parser.parse_args(arguments)
    if not options.temperature > 0:
        parser.error(f"--temperature must be above 0, got {options.temperature}")
    config = load_config(options.config)
    runs = config.runs(options.run)
    if len(runs) > 1:
        raise InputError(f"{options.run} has several runs; give one of {', '.join(run.name for run in runs)}")
    steps = worth_steps(config, runs[0], options.temperature, folder=options.folder)
    run_steps(steps, dry_run=options.dry_run, verify=options.verify)
    if not options.dry_run:
        print(steps[-1].output)


if __name__ == "__main__":
    run_command(main)
