"""How well the words of topics go together: u_mass, by gensim."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from gensim.corpora import Dictionary
from gensim.models import CoherenceModel


def u_mass(
    topics: Sequence[Sequence[str]], documents: Sequence[Sequence[str]], tops: Sequence[int]
) -> dict[str, float]:
    """Mean coherence of topics by their first words (Mimno et al., 2010): at most 0, and higher is better.

    gensim's own form, as in the paper on the topic aware transformer: the mean over pairs of
    ``log(D(w_i, w_j)/D + 1e-12) − log(D(w_j)/D)``, w_j before w_i, with D documents of which D(·) hold the words. A
    pair that never shares a document thus counts −20 or so, and short documents make many of them.

    Args:
        topics: words of each, the first ones first; each word must be in some document.
        documents: words of each.
        tops: of how many words; each is a key of the result.
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
        found[str(top)] = float(statistics.fmean(model.get_coherence_per_topic()))
    return found
