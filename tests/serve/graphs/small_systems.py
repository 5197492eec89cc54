"""MIX, TAG, AD and GAD of the toy data, exported."""

import shutil
from pathlib import Path

import numpy as np

from fairseq_ext.classifiers.classifier import TfidfTeacher, train_classifier
from fairseq_ext.serve.graphs.exported import Parts, writing
from fairseq_ext.serve.runtime.manifest import Manifest
from fairseq_ext.text.normalise import Normalise
from tests import toy, toy_systems

# Words by which the toy classifier knows a domain.
KNOWN_BY = {"law": "w1", "med": "w2", "sub": "w3"}


def write_classifier(folder: Path) -> Path:
    texts = [f"{word} {word}" for word in KNOWN_BY.values() for _ in range(4)]
    labels = np.repeat(np.arange(len(KNOWN_BY)), 4)
    train_classifier(folder, TfidfTeacher(char_ngrams=2), texts, labels, seed=1)
    return folder


def manifest(name: str, **given: object) -> Manifest:
    generation = {"beam": 3, "max_len_b": 6, "max_len_a": 0.0}
    options = {"text": Normalise(), "generation": generation, "architecture": toy_systems.ARCHITECTURES[name][0]}
    return Manifest(name=name, languages=("en", "pl"), domains=tuple(toy.DOMAINS), **{**options, **given})  # type: ignore[arg-type]


def export_all(systems: Path, data: Path, root: Path) -> Path:
    """Export each as ``NAME``; all but MIX have a classifier. Returns the directory."""
    classifier = write_classifier(root / "trained-classifier")
    for name in toy_systems.ARCHITECTURES:
        has_classifier = name != "mix"
        parts = Parts(systems / name / "model.pt", data, classifier if has_classifier else None)
        with writing(root / name) as folder:
            parts.write(folder, manifest(name, classifier="tfidf" if has_classifier else None))
    shutil.rmtree(classifier)
    return root
