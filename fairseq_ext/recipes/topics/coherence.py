"""Coherence of topics (u_mass), and baseline topic models: LDA (gensim) and NMF (scikit-learn)."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from gensim.corpora import Dictionary
from gensim.matutils import corpus2csc
from gensim.models import CoherenceModel, LdaModel
from sklearn.decomposition import NMF
from sklearn.feature_extraction.text import TfidfTransformer

_PASSES = 20
_ITERATIONS = 400


def u_mass(
    topics: Sequence[Sequence[str]], documents: Sequence[Sequence[str]], tops: Sequence[int]
) -> dict[int, float]:
    """Mean coherence of topics by their first words (Mimno et al., 2010): at most 0, and higher is better.

    gensim's own form, as in the paper on the topic aware transformer: the mean over pairs of
    ``log(D(w_i, w_j)/D + 1e-12) − log(D(w_j)/D)``, w_j before w_i, with D documents of which D(·) hold the words. A
    pair that never shares a document thus counts −20 or so, and short documents make many of them.

    Returns:
        The coherence by the number of words.
    """
    dictionary = Dictionary(documents)
    corpus = [dictionary.doc2bow(document) for document in documents]
    found = {}
    for top in tops:
        model = CoherenceModel(
            topics=[list(words) for words in topics],
            corpus=corpus,
            dictionary=dictionary,
            coherence="u_mass",
            topn=top,
            processes=1,
        )
        found[top] = float(statistics.fmean(model.get_coherence_per_topic()))
    return found


def learn_topics(
    method: str, documents: Sequence[Sequence[str]], num_topics: int, num_words: int, seed: int
) -> list[list[str]]:
    """The first words of each topic that ``lda`` or ``nmf`` finds."""
    learn = {"lda": _lda, "nmf": _nmf}[method]
    return learn(documents, num_topics, num_words, seed % 2**32)  # numpy's range of seeds


def _lda(documents: Sequence[Sequence[str]], num_topics: int, num_words: int, seed: int) -> list[list[str]]:
    dictionary = Dictionary(documents)
    corpus = [dictionary.doc2bow(document) for document in documents]
    model = LdaModel(corpus, id2word=dictionary, num_topics=num_topics, passes=_PASSES, random_state=seed)
    return [[word for word, _ in model.show_topic(topic, num_words)] for topic in range(num_topics)]


def _nmf(documents: Sequence[Sequence[str]], num_topics: int, num_words: int, seed: int) -> list[list[str]]:
    """NMF of tf-idf weights, as is usual: with counts, frequent words would fill every topic."""
    dictionary = Dictionary(documents)
    counts = corpus2csc([dictionary.doc2bow(document) for document in documents], num_terms=len(dictionary)).T
    weights = TfidfTransformer().fit_transform(counts.tocsr())
    model = NMF(num_topics, init="nndsvda", random_state=seed, max_iter=_ITERATIONS)
    model.fit(weights)
    order = (-model.components_).argsort(axis=1, kind="stable")[:, :num_words]
    return [[dictionary[int(word)] for word in row] for row in order]
