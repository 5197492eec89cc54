"""Which tokens may follow a hypothesis, and with which scores: each rule alone, on two hypotheses of one sentence."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fairseq_ext.serve.runtime.next_tokens import NO_PREFIX, NextTokens, Options, SearchStep

PAD, LAST, UNK = 0, 1, 2
VOCABULARY: Any = SimpleNamespace(pad=PAD, last=LAST, unk=UNK)
# Log probabilities of six tokens after either hypothesis; they differ by row.
LOGITS = np.log([[0.05, 0.2, 0.15, 0.3, 0.2, 0.1], [0.2, 0.1, 0.05, 0.25, 0.3, 0.1]]).astype(np.float32)
TOKENS = np.array([[[LAST, 3, 4, 3], [LAST, 5, 5, 4]]])  # after the decoder's first input


class Output:
    """An output layer that knows the scores."""

    def best(self, states: np.ndarray) -> tuple[np.ndarray, ...]:
        return states.argmax(1), states.max(1)

    def several(self, states: np.ndarray, asked: np.ndarray, most: int) -> tuple[np.ndarray, ...]:
        best = np.argsort(-states, axis=1)[:, :most]
        scores = [np.take_along_axis(states, tokens, 1) for tokens in (asked, best)]
        return scores[0].copy(), scores[1].copy(), best


def choice(*, is_last: bool = False, forced: int = NO_PREFIX, wanted: Any = None, **options: Any) -> Any:
    """The choice with these options, and the step."""
    output: Any = Output()
    step = SearchStep(TOKENS, np.array([is_last]), np.array([forced]), None if wanted is None else np.array([wanted]))
    return NextTokens(output, Options(**{"beam": 2, "min_len": 0, **options}), VOCABULARY), step


def allowed(**case: Any) -> list[dict[int, float]]:
    """Scores by token that remain for the two hypotheses."""
    next_tokens, step = choice(**case)
    found = zip(*(each[0].tolist() for each in next_tokens.scores(LOGITS, step)), strict=True)
    return [{token: score for score, token in zip(*each, strict=True) if score > -np.inf} for each in found]


def of(*tokens: int, row: int = 0) -> dict[int, float]:
    return {token: float(LOGITS[row, token]) for token in tokens}


EVERY = (LAST, UNK, 3, 4, 5)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ({}, [EVERY, EVERY]),
        ({"min_len": 3}, [EVERY, EVERY]),  # three tokens are there
        ({"min_len": 4}, [(UNK, 3, 4, 5)] * 2),
        ({"no_repeat_ngram_size": 2}, [(LAST, UNK, 3, 5), EVERY]),
        ({"no_repeat_ngram_size": 3}, [EVERY, EVERY]),
        ({"is_last": True}, [(LAST,)] * 2),
        ({"min_len": 4, "is_last": True, "forced": 5}, [(LAST,)] * 2),
        ({"forced": 5}, [(5,)] * 2),
        ({"min_len": 4, "forced": LAST}, [(LAST,)] * 2),
        ({"forced": UNK}, [(UNK,)] * 2),
        ({"forced": 3, "unkpen": 2.0, "wanted": [[4], [5]]}, [(3,)] * 2),
        # One more than the best seven, of which the output layer has six: each token once.
        ({"wanted": [[5, PAD], [UNK, 5]]}, [EVERY, EVERY]),
    ],
)
def test_what_is_forced_or_banned(case: dict[str, Any], expected: list[tuple[int, ...]]) -> None:
    assert allowed(**case) == [pytest.approx(of(*tokens, row=row)) for row, tokens in enumerate(expected)]


def test_the_first_n_gram_may_be_repeated_at_once() -> None:
    next_tokens, step = choice(no_repeat_ngram_size=2)
    scores, tokens = next_tokens.scores(LOGITS, replace(step, tokens=np.array([[[4, 4], [4, 5]]])))
    assert [set(own[score == -np.inf]) for own, score in zip(tokens[0], scores[0], strict=True)] == [{PAD, 4}, {PAD}]


@pytest.mark.parametrize("penalty", [1.5, -2.0])
def test_unknown_words_are_penalised(penalty: float) -> None:
    for row, found in enumerate(allowed(unkpen=penalty)):
        assert found == pytest.approx({**of(*EVERY, row=row), UNK: float(LOGITS[row, UNK]) - penalty})


def test_wanted_tokens_are_considered_whatever_their_score(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairseq_ext.serve.runtime.next_tokens._SPECIAL", 0)
    assert [set(each) for each in allowed(beam=1)] == [{LAST, 3}, {4, 3}]
    assert [set(each) for each in allowed(beam=1, wanted=[[5], [UNK]])] == [{LAST, 3, 5}, {4, 3, UNK}]


@pytest.mark.parametrize(
    ("case", "likely", "expected"),
    [
        ({}, (3, 5), 3),
        ({}, (PAD, 5), 5),
        ({"min_len": 4}, (LAST, 5), 5),
        ({"forced": 4}, (3, 5), 4),
        ({"is_last": True}, (3, 5), LAST),
        ({"unkpen": 9.0}, (UNK, 5), 5),
        ({"unkpen": 9.0}, (3, 5), 3),
        ({"unkpen": -9.0}, (3, UNK), UNK),
        ({"no_repeat_ngram_size": 2}, (4, 5), 5),
    ],
)
def test_the_best_token_is_the_best_of_those_that_may_follow(
    case: dict[str, Any], likely: tuple[int, int], expected: int
) -> None:
    logits = np.log([[0.1, 0.04, 0.03, 0.02, 0.01, 0.05]]).astype(np.float32)
    logits[0, list(likely)] = np.log([0.5, 0.3])
    next_tokens, step = choice(beam=1, **case)
    tokens, scores = next_tokens.best(logits, replace(step, tokens=TOKENS[:, :1]))
    assert tokens.tolist() == [expected]
    penalty = case.get("unkpen", 0) * (expected == UNK)
    assert scores == pytest.approx(logits[0, [expected]] - penalty)
