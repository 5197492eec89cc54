from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from fairseq_ext.reranking.oracle import best_sentences, oracle_choice
from fairseq_ext.reranking.tuning import bleu_of_choice
from tests.reranking.made_up import make_list


@pytest.mark.parametrize("seed", range(6))
def test_oracle_is_not_below_any_choice_it_was_given(seed: int) -> None:
    nbest, _, counts = make_list(seed)
    generator = np.random.default_rng(seed)
    others = [nbest.best(generator.normal(size=3)) for _ in range(5)]
    choice = oracle_choice(counts, nbest.is_hypothesis, others)
    score = bleu_of_choice(counts, choice)
    assert score >= max(bleu_of_choice(counts, other) for other in others)
    assert nbest.is_hypothesis[np.arange(len(choice)), choice].all()
    for sentence, own in enumerate(nbest.texts):
        for number in range(len(own)):
            changed = np.where(np.arange(len(choice)) == sentence, number, choice)
            assert bleu_of_choice(counts, changed) <= score + 1e-9


def test_oracle_is_near_the_best_of_all_choices() -> None:
    nbest, _, counts = make_list(seed=2, sentences=5, most=4)
    every = product(*(range(len(own)) for own in nbest.texts))
    highest = max(bleu_of_choice(counts, np.array(choice)) for choice in every)
    found = bleu_of_choice(counts, oracle_choice(counts, nbest.is_hypothesis, []))
    assert highest - 2 <= found <= highest


def test_best_sentences_are_sacrebleus() -> None:
    nbest, references, counts = make_list(seed=7)
    metric = BLEU(effective_order=True)
    choice = best_sentences(counts, nbest.is_hypothesis)
    for own, reference, number in zip(nbest.texts, references, choice, strict=True):
        scores = [metric.sentence_score(text, [reference]).score for text in own]
        assert scores[number] == max(scores)
