"""Topic models without a language model, to compare with: LDA (gensim) and NMF (scikit-learn)."""

from __future__ import annotations

from collections.abc import Sequence

from gensim.corpora import Dictionary
from gensim.matutils import corpus2csc
from gensim.models import LdaModel
from sklearn.decomposition import NMF
from sklearn.feature_extraction.text import TfidfTransformer

Documents = Sequence[Sequence[str]]
_PASSES = 20
_ITERATIONS = 400


def learn_topics(kind: str, documents: Documents, num_topics: int, num_words: int, seed: int) -> list[list[str]]:
    """The first words of each topic that ``lda`` or ``nmf`` finds."""
    return {"lda": _lda, "nmf": _nmf}[kind](documents, num_topics, num_words, seed)


def _lda(documents: Documents, num_topics: int, num_words: int, seed: int) -> list[list[str]]:
    dictionary = Dictionary(documents)
    corpus = [dictionary.doc2bow(document) for document in documents]
    model = LdaModel(corpus, id2word=dictionary, num_topics=num_topics, passes=_PASSES, random_state=_seed(seed))
    return [[word for word, _ in model.show_topic(topic, num_words)] for topic in range(num_topics)]


def _nmf(documents: Documents, num_topics: int, num_words: int, seed: int) -> list[list[str]]:
    """Of tf-idf weights, as is usual with NMF: of counts, frequent words would fill every topic."""
    dictionary = Dictionary(documents)
    counts = corpus2csc([dictionary.doc2bow(document) for document in documents], num_terms=len(dictionary)).T
    weights = TfidfTransformer().fit_transform(counts.tocsr())
    model = NMF(num_topics, init="nndsvda", random_state=_seed(seed), max_iter=_ITERATIONS)
    model.fit(weights)
    order = (-model.components_).argsort(axis=1, kind="stable")[:, :num_words]
    return [[dictionary[int(word)] for word in row] for row in order]


def _seed(seed: int) -> int:
    return seed % 2**32  # numpy's range
