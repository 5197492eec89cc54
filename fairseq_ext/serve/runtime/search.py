"""Beam and greedy search equivalent to fairseq's: same hypotheses, scores and stopping, whatever the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fairseq_ext.serve.runtime.model import Model, Route, State, padded
from fairseq_ext.serve.runtime.next_tokens import NO_PREFIX, NextTokens, Options, SearchStep
from fairseq_ext.serve.runtime.tables import Output
from fairseq_ext.serve.runtime.vocabulary import Vocabulary

_WORTH = 0.85  # finished sentences are dropped when the share of unfinished ones falls below this


@dataclass(frozen=True)
class Hypothesis:
    """A translation."""

    tokens: np.ndarray  # including the end of the sentence
    score: float  # mean log probability per token, with the length penalty
    # Weights of the decoder's gates, T×L×D, and attention to the padded source, T×S; None if not requested.
    gates: np.ndarray | None = None
    attention: np.ndarray | None = None


@dataclass
class Found:
    """Hypotheses of a sentence, best first, and the weights of the encoder's gates, L×D."""

    hypotheses: list[Hypothesis] = field(default_factory=list)
    gates: np.ndarray | None = None


class Search:
    """Beam search for one batch. Arrays have one row per active sentence: R×W, R×W×T.

    Args:
        output: the choice of the next token.
        prefixes: tokens with which the translation of each sentence begins.
        with_gates: whether to return the weights of gates.
        with_attention: whether to return the attention to the source.
    """

    def __init__(
        self,
        model: Model,
        output: Output,
        sources: Sequence[np.ndarray],
        route: Route,
        options: Options,
        vocabulary: Vocabulary,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        with_gates: bool = False,
        with_attention: bool = False,
    ) -> None:
        self.options, self.vocabulary, self.output = options, vocabulary, output
        self.next_tokens = NextTokens(output, options, vocabulary)
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
        names = {"gates": with_gates and model.has_gates, "attention": with_attention}
        # Outputs of the decoder at each step, R×W×… or R×1×…, and which hypothesis each one continued since, R×W.
        self.traces: dict[str, list[np.ndarray]] = {name: [] for name, is_wanted in names.items() if is_wanted}
        self.parents: list[np.ndarray] = []
        self.prefixes = padded([np.array(prefix) for prefix in prefixes or [[]] * len(sources)], NO_PREFIX)

    def run(self) -> list[Found]:
        """Search, and return the hypotheses of each sentence."""
        while not self.is_done.all():
            if self.is_done.mean() > 1 - _WORTH:
                self._drop_done()
            self._go_on(self._advance())
        for found in self.found:
            found.hypotheses.sort(key=lambda each: -each.score)
        return self.found

    @property
    def step(self) -> int:
        return self.state.steps

    def _advance(self) -> np.ndarray:
        """Run the decoder, and return its hidden states: R·W×H."""
        found = self.state.advance(self.tokens[:, :, -1])
        for name, steps in self.traces.items():
            steps.append(found[name])
        return found["states"]

    def _go_on(self, states: np.ndarray) -> None:
        """Continue every hypothesis by one token."""
        scores, tokens = self.next_tokens.scores(states, self._now())
        totals = self.scores[:, :, None] + scores
        order = self._order(totals, tokens)
        self._choose(
            np.take_along_axis(totals.reshape(len(order), -1), order, 1),
            order // scores.shape[2],
            np.take_along_axis(tokens.reshape(len(order), -1), order, 1),
        )

    def _now(self) -> SearchStep:
        has_prefix = self.step < self.prefixes.shape[1]
        forced = self.prefixes[:, self.step] if has_prefix else np.full(len(self.tokens), NO_PREFIX)
        return SearchStep(self.tokens, self.step >= self.limits, forced, self._wanted())

    def _wanted(self) -> np.ndarray | None:
        """Return tokens to consider regardless of their probability, padded: R×W×X; None for none."""
        return None

    def _order(self, totals: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Return the indices of the 2·W best continuations among W·K, best first."""
        return np.argsort(-totals.reshape(len(totals), -1), axis=1, kind="stable")[:, : 2 * self.options.beam]

    def _choose(self, scores: np.ndarray, parents: np.ndarray, tokens: np.ndarray) -> None:
        """Continue with the W best of 2·W continuations that do not end, and finish those that do: R×2·W each."""
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
        self._remember(parents)
        self.state.follow(parents)

    def _remember(self, parents: np.ndarray) -> None:
        """Remember which hypotheses go on, for what is traced."""
        if self.traces:
            self.parents.append(parents)

    def _end(self, row: int, parent: int, score: float) -> None:
        """Finish a hypothesis. The sentence is done when it has W of them."""
        found = self.found[self.sentences[row]].hypotheses
        if len(found) == self.options.beam:
            return
        tokens = np.append(self.tokens[row, parent, 1:], self.vocabulary.last)
        score = float(score / np.float32(len(tokens) ** self.options.lenpen))
        found.append(Hypothesis(tokens, score, **self._traces_of(row, parent)))
        self.is_done[row] = len(found) == self.options.beam

    def _traces_of(self, row: int, parent: int) -> dict[str, np.ndarray]:
        """Return what was traced of the current hypotheses' ``parent`` at each of its tokens, by name: T×…"""
        if not self.traces:
            return {}
        places = [parent]
        for parents in reversed(self.parents):
            places.insert(0, parents[row, places[0]])
        # If all hypotheses of a sentence share a value, it has one place.
        return {
            name: np.stack(
                [each[row, min(place, each.shape[1] - 1)] for each, place in zip(steps, places, strict=True)]
            )
            for name, steps in self.traces.items()
        }

    def _drop_done(self) -> None:
        kept = np.flatnonzero(~self.is_done)
        self.state.keep(kept)
        self.sentences, self.limits, self.prefixes = self.sentences[kept], self.limits[kept], self.prefixes[kept]
        self.is_done, self.scores, self.tokens = self.is_done[kept], self.scores[kept], self.tokens[kept]
        self.traces = {name: [each[kept] for each in steps] for name, steps in self.traces.items()}
        self.parents = [each[kept] for each in self.parents]


class GreedySearch(Search):
    """Search with one hypothesis per sentence: no beam to keep in order, and no candidates where nothing is forced."""

    def _go_on(self, states: np.ndarray) -> None:
        tokens, scores = self.next_tokens.best(states, self._now())
        self.scores[:, 0] += scores
        is_end = tokens == self.vocabulary.last
        for row in np.flatnonzero(is_end & ~self.is_done).tolist():
            self._end(row, 0, self.scores[row, 0])
        self.tokens = np.concatenate([self.tokens, tokens[:, None, None]], axis=2)
        self._remember(np.zeros((len(tokens), 1), np.int64))
        self.state.follow()
