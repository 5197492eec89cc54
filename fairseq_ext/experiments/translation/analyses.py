"""Analyses of an experiment: distances between domains, gates, and numbers of parameters. Shares are in percent.

Distances are proxy A-distances, Ben-David et al. (2007) §4, Klimaszewski et al. (2023) Figure 3: a linear classifier
separates the sentences of two domains. If its error on held-out sentences is ε, the distance is 2·(1−2ε): 2 without
errors, 0 for random guesses. Sentences are embedded with TF-IDF; the paper uses BERT.
"""

from __future__ import annotations

import heapq
import json
import statistics
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import combinations
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fairseq_ext import install
from fairseq_ext.base.domain_names import DOMAINS_FILE, read_domain_names, with_base
from fairseq_ext.base.steps import Step
from fairseq_ext.data.gate_names import SIDES, SOURCE, STATES
from fairseq_ext.data.teacher_labels import classes_of, label_path, open_labels, read_teacher_record
from fairseq_ext.experiments.metrics.records import Record
from fairseq_ext.experiments.report import measure_step
from fairseq_ext.experiments.train import best_checkpoint
from fairseq_ext.experiments.translation.config import Translation
from fairseq_ext.experiments.translation.decoding import GATES_FILE, translation_dir
from fairseq_ext.experiments.translation.speed import speed_step
from fairseq_ext.text.split import stable_hash
from fairseq_ext.text.text_files import stream_lines

DISTANCE, PARAMETERS, TRAINED = "distance", "parameters", "trained parameters"  # metrics
ANALYSES = ("distances", "gates", "parameters", "speed")
_DISTANCES_VERSION, _GATES_VERSION, _PARAMETERS_VERSION = 3, 3, 2
# Metrics of gates.
AGREES, CORRECT = "largest gate is the classifier's choice", "largest gate is the true domain"
CLASSIFIER_CORRECT = "the classifier's choice is the true domain"
WEIGHT = "gate weight"  # mean over layers
ALONE = ("states", "source")  # inputs, for gates with several
OVER_LAYERS = "mean"  # name of the mean over layers
_DIMENSIONS = 100
_LONGEST_NGRAM = 5
# SVM regularisation on standardised features. Between 0.003 and 0.1, distances change by a few hundredths.
_SVM_C = 0.01


def analysis_steps(config: Translation) -> list[Step]:
    """Return the steps of the analyses in :data:`ANALYSES` that apply to the experiment."""
    return [
        *([distances_step(config)] if len(config.domains) > 1 else []),
        *([gates_step(config)] if config.gated_runs else []),
        *([parameters_step(config)] if config.systems else []),
        *([speed_step(config)] if config.evaluate.speed else []),
    ]


# Distances between domains


def distances_step(config: Translation) -> Step:
    """Return the step that measures distances between domains: D×D."""
    splits, sentences = config.work_dir / "splits", config.evaluate.distance_sentences
    options: dict[str, Any] = {"lang": config.source_lang, "seed": config.seed, "sentences": sentences}

    def measure() -> Iterator[Record]:
        domains, size, matrix = measure_distances(splits, **options)
        for domain, row in zip(domains, matrix.tolist(), strict=True):
            for other, value in zip(domains, row, strict=True):
                yield Record(domain=domain, metric=DISTANCE, value=value, n=size, dims={"to": other})

    recorded = {"version": _DISTANCES_VERSION, **options}
    return measure_step(config.work_dir / "analysis/distances", [splits], recorded, measure)


def measure_distances(splits: Path, lang: str, *, sentences: int, seed: int) -> tuple[list[str], int, np.ndarray]:
    """Measure distances on the source side of the training text.

    All domains contribute the same number of distinct sentences, because larger samples have smaller errors.

    Returns:
        names of the D domains, the number of sentences per domain, and distances: D×D.
    """
    domains = read_domain_names(splits / DOMAINS_FILE)
    samples = [draw_sample(stream_lines(splits / name / f"train.{lang}"), sentences, seed) for name in domains]
    size = min(map(len, samples))
    texts = [text for sample in samples for text in sample[:size]]
    return domains, size, pairwise_distances(embed_with_tfidf(texts).reshape(len(domains), size, -1))


def draw_sample(lines: Iterable[str], size: int, seed: int) -> list[str]:
    """Sample distinct lines in random order, independently of the order of the file.

    Lines are distinct so that no sentence is in both halves.
    """
    return heapq.nsmallest(size, set(lines), key=lambda line: (stable_hash(seed, "distances", line), line))


def embed_with_tfidf(texts: Sequence[str]) -> np.ndarray:
    """Embed N texts by latent semantic analysis, a truncated SVD of the TF-IDF of character n-grams within words: N×H.

    Character n-grams suit inflected languages and languages without spaces.
    """
    # Takes a second to import.
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(1, _LONGEST_NGRAM), min_df=2, sublinear_tf=True)
    features = vectorizer.fit_transform(texts)
    dimensions = min(_DIMENSIONS, *features.shape)
    return TruncatedSVD(dimensions, random_state=0).fit_transform(features)


def pairwise_distances(vectors: np.ndarray) -> np.ndarray:
    """Compute the distances between all pairs of domains, at least 0.

    Shape:
        vectors: D×n×H, n embeddings of each domain in random order; result: D×D, symmetric, with zeros on the diagonal
    """
    distances = np.zeros((len(vectors), len(vectors)))
    for first, second in combinations(range(len(vectors)), 2):
        error = held_out_error(vectors[first], vectors[second])
        distances[first, second] = distances[second, first] = max(2 * (1 - 2 * error), 0)
    return distances.round(4)


def held_out_error(first: np.ndarray, second: np.ndarray) -> float:
    """Compute the two-fold cross-validation error of a linear SVM that separates two domains, n×H each."""
    from sklearn.model_selection import PredefinedSplit, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    features = np.vstack([first, second])  # 2n×H
    labels = np.repeat([0, 1], len(first))
    halves = PredefinedSplit(np.tile(np.arange(len(first)) % 2, 2))
    # The primal solver is deterministic.
    classifier = make_pipeline(StandardScaler(), LinearSVC(C=_SVM_C, dual=False))
    return float((cross_val_predict(classifier, features, labels, cv=halves) != labels).mean())


# Gates: agreement with the classifier and with the true domain, and weights


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

    inputs, options = [splits / DOMAINS_FILE, teacher, *runs.values()], {"version": _GATES_VERSION, "runs": list(runs)}
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


# Parameters


def parameters_step(config: Translation) -> Step:
    """Return the step that counts the parameters of all runs."""
    runs = config.all_runs
    checkpoints = {run.name: best_checkpoint(config, run.name) for run in runs}

    def measure() -> Iterator[Record]:
        for run in runs:
            total, trained = count_parameters(checkpoints[run.name], run.system.data or config.work_dir / "data-bin")
            of = partial(Record, system=run.system.name, run=run.name, seed=run.seed)
            yield of(metric=PARAMETERS, value=total)
            yield of(metric=TRAINED, value=trained)

    # The data are not an input: only their dictionaries are used, and loading fails if they are incompatible.
    options = {"version": _PARAMETERS_VERSION, "runs": list(checkpoints)}
    return measure_step(config.work_dir / "analysis/parameters", list(checkpoints.values()), options, measure)


def count_parameters(checkpoint: Path, data: Path) -> tuple[int, int]:
    """Count the total and trained parameters of a model. Shared parameters are counted once.

    The model is built from the checkpoint, because the file does not say which entries are shared, frozen or not
    parameters.
    """
    from fairseq import checkpoint_utils

    install()
    models, _, _ = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], {"data": str(data)})
    sizes = {parameter: parameter.numel() for parameter in models[0].parameters()}
    return sum(sizes.values()), sum(size for parameter, size in sizes.items() if parameter.requires_grad)
