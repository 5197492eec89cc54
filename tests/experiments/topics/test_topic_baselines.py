"""LDA and NMF tell two kinds of documents apart, the same way every time."""

from __future__ import annotations

import random

import pytest

from fairseq_ext.experiments.topics.topic_baselines import learn_topics

WORDS = (["bank", "loan", "rate", "credit"], ["tree", "seed", "root", "leaf"])


@pytest.mark.parametrize("kind", ["lda", "nmf"])
def test_two_kinds_of_documents_are_two_topics(kind: str) -> None:
    rng = random.Random(3)
    documents = [rng.choices(WORDS[number % 2], k=6) for number in range(60)]
    topics = learn_topics(kind, [*documents, []], 2, 4, seed=7)
    assert sorted(map(sorted, topics)) == sorted(map(sorted, WORDS))
    assert topics == learn_topics(kind, [*documents, []], 2, 4, seed=7)
