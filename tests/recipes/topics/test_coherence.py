"""u_mass by hand; and topic models without a language model find the same topics every time."""

from __future__ import annotations

import math
import random

import pytest

from fairseq_ext.recipes.topics.coherence import learn_topics, u_mass

DOCUMENTS = [["a", "b"], ["a", "b", "a"], ["a"], ["c"], []]


def test_u_mass_is_the_mean_over_pairs_of_the_first_words_and_over_topics() -> None:
    # b after a: they share two documents, a is in three.
    one, other = math.log(2 / 3), math.log(2 / 2)
    found = u_mass([["a", "b", "c"], ["b", "a", "c"]], DOCUMENTS, [2, 3])
    assert found[2] == pytest.approx((one + other) / 2, abs=1e-9)
    assert found[3] < -10  # words that share no document


@pytest.mark.parametrize("method", ["lda", "nmf"])
def test_documents_on_two_subjects_have_two_topics(method: str) -> None:
    rng, subjects = random.Random(3), (["bank", "loan", "rate", "credit"], ["tree", "seed", "root", "leaf"])
    documents = [rng.choices(subjects[number % 2], k=6) for number in range(60)]
    topics = learn_topics(method, [*documents, []], 2, 4, seed=7)
    assert sorted(map(sorted, topics)) == sorted(map(sorted, subjects))
    assert topics == learn_topics(method, [*documents, []], 2, 4, seed=7)
