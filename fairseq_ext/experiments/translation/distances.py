"""Proxy A-distance between domains.

Ben-David et al. (2007) §4, Klimaszewski et al. (2023) Figure 3: a linear classifier separates the sentences of two
domains. If its error on held-out sentences is ε, the distance is 2·(1−2ε): 2 without errors, 0 for random guesses.
Sentences are embedded with TF-IDF; the paper uses BERT.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from fairseq_ext.base.domain_names import DOMAINS_FILE, read_domain_names
from fairseq_ext.text.split import stable_hash
from fairseq_ext.text.text_files import stream_lines

_DIMENSIONS = 100
_LONGEST_NGRAM = 5
# SVM regularisation on standardised features. Between 0.003 and 0.1, distances change by a few hundredths.
_SVM_C = 0.01


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
    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(1, _LONGEST_NGRAM), min_df=2, sublinear_tf=True)
    features = vectorizer.fit_transform(texts)
    dimensions = min(_DIMENSIONS, *features.shape)
    vectors: np.ndarray = TruncatedSVD(dimensions, random_state=0).fit_transform(features)
    return vectors


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
    features = np.vstack([first, second])  # 2n×H
    labels = np.repeat([0, 1], len(first))
    halves = np.tile(np.arange(len(first)) % 2, 2)
    mistakes = 0
    for half in (0, 1):
        # The primal solver is deterministic.
        classifier = make_pipeline(StandardScaler(), LinearSVC(C=_SVM_C, dual=False))
        classifier.fit(features[halves != half], labels[halves != half])
        mistakes += int((classifier.predict(features[halves == half]) != labels[halves == half]).sum())
    return mistakes / len(labels)
