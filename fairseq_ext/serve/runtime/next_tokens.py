"""The next tokens that a search may choose: forced, banned and penalised ones as in fairseq."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairseq_ext.serve.runtime.tables import Output
from fairseq_ext.serve.runtime.vocabulary import Vocabulary

NO_PREFIX = -1
_SPECIAL = 3  # symbols that may be excluded from the best tokens
_LAST, _UNK, _FORCED = range(3)  # columns of the tokens whose scores are always requested; wanted ones follow


@dataclass(frozen=True)
class Options:
    """Options of the search, as in ``fairseq-generate``.

    A translation has at most ``max_len_a · source length + max_len_b`` tokens, excluding the end of the sentence.
    """

    beam: int = 5
    lenpen: float = 1.0
    unkpen: float = 0.0
    max_len_a: float = 0.0
    max_len_b: int = 200
    min_len: int = 1
    no_repeat_ngram_size: int = 0


@dataclass(frozen=True)
class SearchStep:
    """What decides which tokens may follow the W hypotheses of R sentences.

    Shape:
        tokens: R×W×T; is_last, forced: R; wanted: R×W×X
    """

    tokens: np.ndarray  # so far, with the first input of the decoder
    is_last: np.ndarray  # whether the sentence has to end
    forced: np.ndarray  # the token of the prefix, or NO_PREFIX
    wanted: np.ndarray | None = None  # tokens to consider whatever their probability, padded

    @property
    def number(self) -> int:
        """Number of tokens so far."""
        return int(self.tokens.shape[2]) - 1

    @property
    def is_free(self) -> np.ndarray:
        """Whether a sentence may continue with any token."""
        return ~(self.is_last | self.is_forced)

    @property
    def is_forced(self) -> np.ndarray:
        """Whether the prefix of a sentence decides."""
        return (self.forced != NO_PREFIX) & ~self.is_last


class NextTokens:
    """Scores the tokens that may follow hypotheses."""

    def __init__(self, output: Output, options: Options, vocabulary: Vocabulary) -> None:
        self._output, self._options, self._vocabulary = output, options, vocabulary
        self._rare = [vocabulary.pad, *([vocabulary.unk] if options.unkpen else [])]

    def best(self, states: np.ndarray, step: SearchStep) -> tuple[np.ndarray, np.ndarray]:
        """Return the best next token of each of R sentences with one hypothesis, and its log probability."""
        if self._is_plain(step):
            tokens, scores = self._output.best(states)
            if not np.isin(tokens, self._rare).any():
                return tokens, scores
        scores, tokens = (each[:, 0] for each in self.scores(states, step))
        best = scores.argmax(1)[:, None]
        return np.take_along_axis(tokens, best, 1)[:, 0], np.take_along_axis(scores, best, 1)[:, 0]

    def _is_plain(self, step: SearchStep) -> bool:
        """Return whether the best token may follow if it is neither padding nor unknown."""
        options = self._options
        is_free = step.number >= options.min_len and step.wanted is None and bool(step.is_free.all())
        return is_free and options.unkpen >= 0 and not options.no_repeat_ngram_size

    def scores(self, states: np.ndarray, step: SearchStep) -> tuple[np.ndarray, np.ndarray]:
        """Return the log probabilities of K candidate next tokens, and these tokens: R×W×K each.

        The best ones are among them. Tokens that are not allowed have minus infinity.
        """
        shape = step.tokens.shape[:2]
        asked = self._asked(step)
        size, hypotheses = self._options.no_repeat_ngram_size, step.tokens.reshape(-1, step.tokens.shape[2])
        banned = [_completions(tokens.tolist(), size) for tokens in hypotheses] if size else []
        most = 2 * self._options.beam + _SPECIAL + max(map(len, banned), default=0)
        found = self._output.several(states, asked.reshape(len(states), -1), most)
        of_asked, scores, tokens = (each.reshape(*shape, -1) for each in found)
        self._ban(scores, tokens, step, banned)
        if self._options.unkpen or not step.is_free.all() or step.wanted is not None:
            self._leave_asked(scores, tokens, step)
            self._ban_asked(of_asked, asked, step)
            scores, tokens = np.concatenate([scores, of_asked], axis=2), np.concatenate([tokens, asked], axis=2)
        return scores, tokens

    def _asked(self, step: SearchStep) -> np.ndarray:
        """Return the tokens whose scores are requested: R×W×(3+X)."""
        rows, width, _ = step.tokens.shape
        asked = np.empty((rows, width, 3), np.int64)
        asked[..., _LAST], asked[..., _UNK] = self._vocabulary.last, self._vocabulary.unk
        asked[..., _FORCED] = np.where(step.is_forced, step.forced, self._vocabulary.pad)[:, None]
        return asked if step.wanted is None else np.concatenate([asked, step.wanted], axis=2)

    def _ban(self, scores: np.ndarray, tokens: np.ndarray, step: SearchStep, banned: list[set[int]]) -> None:
        """Exclude padding, an end that comes too early, and repetitions."""
        scores[tokens == self._vocabulary.pad] = -np.inf
        if step.number < self._options.min_len:
            scores[(tokens == self._vocabulary.last) & step.is_free[:, None, None]] = -np.inf
        for row, names in enumerate(banned):
            place = divmod(row, scores.shape[1])
            scores[place][np.isin(tokens[place], list(names))] = -np.inf

    def _leave_asked(self, scores: np.ndarray, tokens: np.ndarray, step: SearchStep) -> None:
        """Exclude the tokens of which the requested scores are used instead."""
        if self._options.unkpen:
            scores[tokens == self._vocabulary.unk] = -np.inf
        if step.wanted is not None:
            scores[(tokens[..., None] == step.wanted[:, :, None]).any(3)] = -np.inf
        scores[~step.is_free] = -np.inf

    def _ban_asked(self, scores: np.ndarray, asked: np.ndarray, step: SearchStep) -> None:
        """Penalise unknown words, and exclude requested tokens from sentences in which they do not matter."""
        scores[..., _LAST][~step.is_last] = -np.inf
        scores[..., _UNK] -= self._options.unkpen
        scores[..., _UNK][~step.is_free | (not self._options.unkpen)] = -np.inf
        scores[..., _FORCED][~step.is_forced] = -np.inf
        wanted = scores[..., _FORCED + 1 :]
        wanted[~step.is_free] = -np.inf
        wanted[asked[..., _FORCED + 1 :] == self._vocabulary.pad] = -np.inf


def _completions(tokens: list[int], size: int) -> set[int]:
    """Return the tokens that would repeat an n-gram: those that followed earlier occurrences of the last tokens."""
    if len(tokens) < size:
        return set()
    last = tokens[len(tokens) - size + 1 :]
    starts = range(len(tokens) - size + 1)
    return {tokens[start + size - 1] for start in starts if tokens[start : start + size - 1] == last}
