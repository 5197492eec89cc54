"""Gate weights by layer and domain, and their agreement with the classifier and with the true domain."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fairseq_ext.base.domain_names import DOMAINS_FILE, read_domain_names, with_base
from fairseq_ext.base.steps import Step
from fairseq_ext.data.gate_names import SIDES, SOURCE, STATES
from fairseq_ext.data.teacher_labels import classes_of, label_path, open_labels, read_teacher_record
from fairseq_ext.experiments.metrics.records import Record
from fairseq_ext.experiments.report import measure_step
from fairseq_ext.experiments.translation.config import Translation
from fairseq_ext.experiments.translation.decoding import GATES_FILE, translation_dir
from fairseq_ext.text.text_files import stream_lines

# Metrics.
AGREES, CORRECT = "largest gate is the classifier's choice", "largest gate is the true domain"
CLASSIFIER_CORRECT = "the classifier's choice is the true domain"
WEIGHT = "gate weight"  # mean over layers
ALONE = ("states", "source")  # inputs, for gates with several
OVER_LAYERS = "mean"  # name of the mean over layers
_VERSION = 3


class Labels(NamedTuple):
    """True and predicted domains of all test sentences, in the order of the test sets."""

    domains: list[str]  # D names
    true: np.ndarray  # index of the true domain: N
    guessed: np.ndarray  # index of the domain that the classifier predicts: N


def read_labels(splits: Path, teacher: Path) -> Labels:
    """Read ``domains.txt`` from ``splits`` and ``DOMAIN/test.npy`` from ``teacher``."""
    domains = read_domain_names(splits / DOMAINS_FILE)
    num_classes = len(classes_of(read_teacher_record(teacher)))
    files = [open_labels(label_path(teacher, name, "test"), num_classes) for name in domains]
    probs = [labels[:][:, : len(domains)] for labels in files]
    true = np.repeat(np.arange(len(domains)), [len(rows) for rows in probs])
    return Labels(domains, true, np.concatenate(probs).argmax(-1))


def gates_step(config: Translation) -> Step:
    """Return the step that analyses the gates of all decoding runs with ``gates: true``."""
    runs = {name: translation_dir(config, name) / GATES_FILE for name in config.gated_runs}
    splits, teacher = config.work_dir / "splits", config.work_dir / "teacher"

    def measure() -> Iterator[Record]:
        labels = read_labels(splits, teacher)
        for run, path in runs.items():
            yield from gate_records(run, path, labels)

    inputs, options = [splits / DOMAINS_FILE, teacher, *runs.values()], {"version": _VERSION, "runs": list(runs)}
    return measure_step(config.work_dir / "analysis/gates", inputs, options, measure)


def read_gates(path: Path) -> tuple[list[str], dict[str, np.ndarray]]:
    """Read the gates written by :class:`~fairseq_ext.tasks.gate_report.GateReport`, in the order of the N sentences.

    Returns:
        names of the L layers, ``encoder 1`` first, and weights by name. ``""`` has the weights of the gates, N×L×D,
        with decoder layers averaged over target positions. If gates have several inputs, ``"states"`` has the weights
        from the layer's states only, N×L×D, and ``"source"`` those from the source words only, N×1×D.
    """
    entries = sorted(map(json.loads, stream_lines(path)), key=itemgetter("id"))
    weights = {
        name: np.array([[layer for side in sides for layer in entry[side]] for entry in entries], dtype=np.float32)
        for name, sides in {"": SIDES, "states": STATES, "source": (SOURCE,)}.items()
        if sides[0] in entries[0]
    }
    return [f"{side} {layer + 1}" for side in SIDES for layer in range(len(entries[0][side]))], weights


def gate_records(run: str, path: Path, labels: Labels) -> Iterator[Record]:
    """Yield how often a run's largest gate is the classifier's choice or the true domain, and mean weights by domain.

    Shares are given by layer and averaged over layers. If gates have several inputs, shares of each input alone follow.
    """
    layers, weights = read_gates(path)
    of = partial(Record, system=run.split("@")[0], run=run)
    for name, by_layer in weights.items():
        choices, alone = by_layer.argmax(-1), {"alone": name} if name else {}  # N×L
        for metric, right in ((AGREES, labels.guessed), (CORRECT, labels.true)):
            shares = [round(float(share), 4) for share in (choices == right[:, None]).mean(0)]
            named = {} if name == "source" else dict(zip(layers, shares, strict=True))
            for layer, share in {**named, OVER_LAYERS: statistics.fmean(shares)}.items():
                yield of(metric=metric, value=100 * share, dims={"layer": layer, **alone})
    yield of(metric=CLASSIFIER_CORRECT, value=100 * round(float((labels.guessed == labels.true).mean()), 4))
    for number, domain in enumerate(labels.domains):
        means = weights[""][labels.true == number].mean(0).round(5).astype(float)  # L×D
        columns = [statistics.fmean(round(share, 5) for share in column) for column in means.T.tolist()]
        for gate, share in with_base(dict(zip(labels.domains, columns, strict=True))).items():
            yield of(domain=domain, metric=WEIGHT, value=share, dims={"gate": gate})
