"""Gate weights by layer and domain, and their agreement with the classifier and the true domain."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.corpora.text_files import stream_lines
from fairseq_ext.data.gate_names import SIDES, SOURCE, STATES
from fairseq_ext.data.teacher_labels import label_path, load_probs
from fairseq_ext.inputs.domain_names import DOMAINS_FILE, read_domain_names
from fairseq_ext.inputs.errors import InputError


@dataclass(frozen=True)
class GateWeights:
    """The gates of all test sentences, in the order of the test sets.

    Attributes:
        layers: L names, ``encoder 1`` first.
        weights: N×L×D, the decoder's averaged over the target positions.
        states: the weights from a layer's states only; None unless gates have several inputs with states.
        source: the weights from the source words only, N×1×D; None if they are no input.
    """

    layers: list[str]
    weights: np.ndarray
    states: np.ndarray | None = None
    source: np.ndarray | None = None


@dataclass(frozen=True)
class ClassifiedSentences:
    """True and predicted domains of all test sentences, in the order of the test sets.

    Attributes:
        domains: D names.
        labels: the true domain's number, N.
        probs: the classifier's probabilities, N×D.
    """

    domains: list[str]
    labels: np.ndarray
    probs: np.ndarray

    @property
    def teacher(self) -> np.ndarray:
        """The classifier's first choice, N."""
        return self.probs.argmax(-1)

    @classmethod
    def read(cls, domains_dir: Path, teacher: Path) -> ClassifiedSentences:
        """Read ``domains.txt`` of one folder and ``DOMAIN/test.npy`` of the other."""
        domains = read_domain_names(domains_dir / DOMAINS_FILE)
        probs = [load_probs(label_path(teacher, name, "test"), len(domains)) for name in domains]
        return cls(domains, np.repeat(np.arange(len(domains)), [len(rows) for rows in probs]), np.concatenate(probs))


def read_gates(path: Path, num_sentences: int, num_domains: int) -> GateWeights:
    """Read the gates that :class:`~fairseq_ext.tasks.gate_report.GateReport` wrote."""
    rows: dict[int, dict[str, np.ndarray]] = {}
    sizes: list[int] = []
    for number, line in enumerate(stream_lines(path), start=1):
        try:
            entry = json.loads(line)
            sizes = [len(entry[side]) for side in SIDES]
            rows[int(entry["id"])] = _weights_of(entry, sum(sizes), num_domains)
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
            raise InputError(f"{path}, line {number}: holds no gates of {num_domains} domains ({error})") from None
    if rows.keys() != set(range(num_sentences)):
        missing = next((index for index in range(num_sentences) if index not in rows), num_sentences)
        raise InputError(
            f"{path}: has gates of {len(rows)} sentences, the test sets have {num_sentences}; they differ from "
            f"sentence {missing + 1} on; translate them again"
        )
    layers = [f"{side} {layer + 1}" for side, size in zip(SIDES, sizes, strict=True) for layer in range(size)]
    names = [name for name in rows[0] if all(name in found for found in rows.values())]
    return GateWeights(layers, **{name: np.stack([rows[i][name] for i in range(num_sentences)]) for name in names})


def _weights_of(entry: dict[str, Any], num_layers: int, num_domains: int) -> dict[str, np.ndarray]:
    """The weights of a sentence, and those of each input alone if gates have several: L×D each."""
    parts = {"weights": SIDES, "states": STATES, "source": (SOURCE,)}
    found = {}
    for name, sides in parts.items():
        if name == "weights" or sides[0] in entry:
            found[name] = np.array([layer for side in sides for layer in entry[side]], dtype=np.float32)
            if found[name].shape != (1 if name == "source" else num_layers, num_domains):
                raise ValueError(f"not {num_domains} weights a layer")
    return found


def summarise_gates(gates: GateWeights, sentences: ClassifiedSentences) -> dict[str, Any]:
    """Mean weights by domain, and agreement of each layer's largest gate.

    Returns:
        ``domains`` (D), ``layers`` (L), ``weights`` (by domain L×D), ``agreement`` (L shares of sentences whose
        largest gate is the classifier's first choice), ``correct`` (L shares where it is the true domain) and
        ``teacher_correct`` (the classifier's own share); of gates that see several inputs, ``states`` and ``source``
        with the two shares if these alone decided.
    """
    alone = {"states": gates.states, "source": gates.source}
    means = {
        name: gates.weights[sentences.labels == number].mean(0).round(5).astype(float)
        for number, name in enumerate(sentences.domains)
    }
    return {
        "domains": sentences.domains,
        "layers": gates.layers,
        "weights": {
            name: [[round(value, 5) for value in row] for row in rows.tolist()] for name, rows in means.items()
        },
        **_choices(gates.weights, sentences),
        "teacher_correct": round(float((sentences.teacher == sentences.labels).mean()), 4),
        **{name: _choices(weights, sentences) for name, weights in alone.items() if weights is not None},
    }


def _choices(weights: np.ndarray, sentences: ClassifiedSentences) -> dict[str, list[float]]:
    """The shares of sentences whose largest weight is the classifier's first choice, and the true domain."""
    choices = weights.argmax(-1)  # N×L
    hits = {"agreement": choices == sentences.teacher[:, None], "correct": choices == sentences.labels[:, None]}
    return {name: [round(float(share), 4) for share in own.mean(0)] for name, own in hits.items()}
