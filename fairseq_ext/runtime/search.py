"""Beam search equivalent to fairseq's: same hypotheses, scores and stopping. Results do not depend on the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fairseq_ext.runtime.model import Model, Route, State, padded
from fairseq_ext.runtime.vocabulary import Vocabulary

_SPECIAL = 3  # symbols that may be excluded from the best tokens
_WORTH = 0.85  # finished sentences are dropped when the share of unfinished ones falls below this


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
class Hypothesis:
    """A translation."""

    tokens: np.ndarray  # including the end of the sentence
    score: float  # mean log probability per token, with the length penalty
    gates: np.ndarray | None = None  # weights of the decoder's gates, T×L×D; None if not requested


@dataclass
class Found:
    """Hypotheses of a sentence, best first, and the weights of the encoder's gates, L×D."""

    hypotheses: list[Hypothesis] = field(default_factory=list)
    gates: np.ndarray | None = None


class Search:
    """Beam search for one batch. Arrays have one row per active sentence: R×W, R×W×T.

    Args:
        prefixes: tokens with which the translation of each sentence begins.
        with_gates: whether to return the weights of gates.
    """

    def __init__(
        self,
        model: Model,
        sources: Sequence[np.ndarray],
        route: Route,
        options: Options,
        vocabulary: Vocabulary,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        with_gates: bool = False,
    ) -> None:
        self.options, self.vocabulary = options, vocabulary
        self.found = [Found() for _ in sources]
        lengths = np.array([len(source) for source in sources])
        most = (options.max_len_a * lengths + options.max_len_b).astype(np.int64)
        self.limits = np.minimum(most, vocabulary.longest_target - 1)
        self.state = State(model, padded(sources, vocabulary.pad), route, options.beam)
        if with_gates and self.state.gates is not None:
            for found, gates in zip(self.found, self.state.gates, strict=True):
                found.gates = gates
        self.sentences = np.arange(len(sources))
        self.is_done = np.zeros(len(sources), bool)
        self.scores = np.zeros((len(sources), 1), np.float32)
        self.tokens = np.full((len(sources), 1, 1), vocabulary.first, np.int64)
        self.gates: list[np.ndarray] | None = [] if with_gates and model.has_gates else None
        self.prefixes = padded([np.array(prefix) for prefix in prefixes or [[]] * len(sources)], vocabulary.pad)

    def run(self) -> list[Found]:
        """Search, and return the hypotheses of each sentence."""
        while not self.is_done.all():
            if self.is_done.mean() > 1 - _WORTH:
                self._drop_done()
            self._go_on(*self._candidates())
        for found in self.found:
            found.hypotheses.sort(key=lambda each: -each.score)
        return self.found

    @property
    def step(self) -> int:
        return self.state.steps

    def _candidates(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the 2·W best continuations of each sentence: scores, parent hypotheses and tokens, R×2·W each."""
        scores, tokens = self._ways_on()
        totals = self.scores[:, :, None] + scores
        order = self._order(totals, tokens)
        return (
            np.take_along_axis(totals.reshape(len(order), -1), order, 1),
            order // scores.shape[2],
            np.take_along_axis(tokens.reshape(len(order), -1), order, 1),
        )

    def _ways_on(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the log probabilities of K candidate next tokens, and these tokens: R×W×K each."""
        rows, width = self.scores.shape
        is_last = self.step >= self.limits
        forced = (
            self.prefixes[:, self.step] if self.step < self.prefixes.shape[1] else np.full(rows, self.vocabulary.pad)
        )
        is_forced = (forced != self.vocabulary.pad) & ~is_last
        asked = np.stack([np.full(rows, self.vocabulary.last), np.full(rows, self.vocabulary.unk), forced], axis=1)
        asked = np.repeat(asked[:, None], width, axis=1)
        wanted = self._wanted()
        asked = asked if wanted is None else np.concatenate([asked, wanted], axis=2)
        banned = self._repetitions() if self.options.no_repeat_ngram_size else []
        most = 2 * self.options.beam + _SPECIAL + max(map(len, banned), default=0)
        found = self.state.advance(self.tokens[:, :, -1], asked.reshape(rows * width, -1), most)
        if self.gates is not None:
            self.gates.append(found["gates"])
        scores, tokens = (found[name].reshape(rows, width, -1) for name in ("best", "best_tokens"))
        is_free = ~(is_last | is_forced)
        scores[tokens == self.vocabulary.pad] = -np.inf
        if self.step < self.options.min_len:
            scores[(tokens == self.vocabulary.last) & is_free[:, None, None]] = -np.inf
        for row, names in enumerate(banned):
            place = divmod(row, width)
            scores[place][np.isin(tokens[place], list(names))] = -np.inf
        if self.options.unkpen or not is_free.all() or wanted is not None:
            others = found["asked"].reshape(asked.shape)
            if self.options.unkpen:
                scores[tokens == self.vocabulary.unk] = -np.inf
            if wanted is not None:
                scores[(tokens[..., None] == wanted[:, :, None]).any(3)] = -np.inf
            scores[~is_free] = -np.inf
            others[..., 0][~is_last] = -np.inf
            others[..., 1] -= self.options.unkpen
            others[..., 1][~is_free | (not self.options.unkpen)] = -np.inf
            others[..., 2][~is_forced] = -np.inf
            others[..., 3:][~is_free] = -np.inf
            others[..., 3:][asked[..., 3:] == self.vocabulary.pad] = -np.inf
            scores = np.concatenate([scores, others], axis=2)
            tokens = np.concatenate([tokens, asked], axis=2)
        return scores, tokens

    def _wanted(self) -> np.ndarray | None:
        """Return tokens to consider regardless of their probability, padded: R×W×X; None for none."""
        return None

    def _order(self, totals: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Return the indices of the 2·W best continuations among W·K, best first."""
        return np.argsort(-totals.reshape(len(totals), -1), axis=1, kind="stable")[:, : 2 * self.options.beam]

    def _go_on(self, scores: np.ndarray, parents: np.ndarray, tokens: np.ndarray) -> None:
        beam = self.options.beam
        is_end = (tokens == self.vocabulary.last) & np.isfinite(scores)
        for row, place in zip(*np.nonzero(is_end[:, :beam] & ~self.is_done[:, None]), strict=True):
            self._end(row, parents[row, place], scores[row, place])
        self.is_done |= self.step >= self.limits
        # There are W continuations without an end: each hypothesis has at most one that ends.
        order = np.argsort(is_end, axis=1, kind="stable")[:, :beam]
        scores, parents, tokens = (np.take_along_axis(each, order, 1) for each in (scores, parents, tokens))
        rows = np.arange(len(parents))[:, None]
        self.scores = scores
        self.tokens = np.concatenate([self.tokens[rows, parents], tokens[:, :, None]], axis=2)
        if self.gates is not None:
            self.gates = [self._of(gates, rows, parents) for gates in self.gates]
        self.state.follow(parents)

    def _end(self, row: int, parent: int, score: float) -> None:
        """Finish a hypothesis. The sentence is done when it has W of them."""
        found = self.found[self.sentences[row]].hypotheses
        if len(found) == self.options.beam:
            return
        tokens = np.append(self.tokens[row, parent, 1:], self.vocabulary.last)
        gates = None
        if self.gates is not None:
            gates = np.stack([self._of(each, row, parent) for each in self.gates])
        found.append(Hypothesis(tokens, float(score / np.float32(len(tokens) ** self.options.lenpen)), gates))
        self.is_done[row] = len(found) == self.options.beam

    def _of(self, gates: np.ndarray, rows: np.ndarray | int, parents: np.ndarray | int) -> np.ndarray:
        """Select gate weights of hypotheses at one step. If only the source decides, all hypotheses share them."""
        return gates[rows, parents if gates.shape[1] > 1 else 0 * parents]

    def _drop_done(self) -> None:
        kept = np.flatnonzero(~self.is_done)
        self.state.keep(kept)
        self.sentences, self.limits, self.prefixes = self.sentences[kept], self.limits[kept], self.prefixes[kept]
        self.is_done, self.scores, self.tokens = self.is_done[kept], self.scores[kept], self.tokens[kept]
        self.gates = None if self.gates is None else [each[kept] for each in self.gates]

    def _repetitions(self) -> list[set[int]]:
        """Return, for each hypothesis, the tokens that would repeat one of its n-grams."""
        size = self.options.no_repeat_ngram_size
        return [_completions(row.tolist(), size) for row in self.tokens.reshape(-1, self.tokens.shape[2])]


def _completions(tokens: list[int], size: int) -> set[int]:
    """Return the tokens that followed earlier occurrences of the last ``size - 1`` tokens."""
    if len(tokens) < size:
        return set()
    last = tokens[len(tokens) - size + 1 :]
    starts = range(len(tokens) - size + 1)
    return {tokens[start + size - 1] for start in starts if tokens[start : start + size - 1] == last}
