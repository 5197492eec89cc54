"""Weights of a domain are tuned on its validation list and choose from its test list; each row has its own features."""

from __future__ import annotations

import numpy as np

from fairseq_ext.experiments.reranking.rerank import DomainList, rerank_domain
from tests.reranking.made_up import make_list


def domain_list(seed: int) -> DomainList:
    """A made-up list; ``knowing`` has the number of the reference's words that a hypothesis has, ``chance`` none."""
    nbest, references, _ = make_list(seed, sentences=30)
    generator = np.random.default_rng(seed)
    known = [
        float(len(set(text.split()) & set(reference.split())))
        for own, reference in zip(nbest.texts, references, strict=True)
        for text in own
    ]
    columns = {"knowing": np.array(known), "chance": generator.normal(size=len(known))}
    return DomainList(nbest.with_features(columns), references)


def test_a_model_that_knows_helps_and_rows_have_their_own_weights() -> None:
    valid, test = domain_list(1), domain_list(2)
    found = rerank_domain(valid, test, ["knowing", "chance"], restarts=3, seed=1)
    assert list(found.choices) == ["first-best", "list", "knowing", "chance", "oracle"]
    assert found.tuned["knowing"] > found.tuned["list"] + 1
    assert found.weights["knowing"]["knowing"] > 0
    assert {row: set(own) - {"model", "f1", "f2"} for row, own in found.weights.items()} == {
        "list": set(), "knowing": {"knowing"}, "chance": {"chance"},
    }  # fmt: skip
    own = np.array([found.weights["knowing"].get(name, 0.0) for name in test.nbest.names])
    assert np.array_equal(found.choices["knowing"], test.nbest.best(own))


def test_a_list_without_a_feature_is_that_list() -> None:
    given, _, _ = make_list(1, sentences=30)
    found = domain_list(1).without({"knowing", "chance"})
    assert found.names == given.names
    assert np.array_equal(found.features, given.features)
