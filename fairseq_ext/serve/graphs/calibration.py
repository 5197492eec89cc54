"""How large the inputs of matrix products become: a model translates, and its graphs output the maxima.

Rounding to int8 needs these numbers. They are measured once, on sentences of random symbols: measured for every batch,
they would cost a quarter of the time, and the translation of a sentence would depend on others in its batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from fairseq_ext.serve.graphs.graph import LARGEST
from fairseq_ext.serve.runtime.manifest import FLOAT32
from fairseq_ext.serve.runtime.model import Model, Route
from fairseq_ext.serve.runtime.next_tokens import Options
from fairseq_ext.serve.runtime.search import GreedySearch

_SENTENCES, _LENGTH, _BATCH = 64, 24, 32
_SMALLEST = 1e-6


@dataclass(frozen=True)
class Maxima:
    """The largest absolute inputs of matrix products, in the order of the products in a graph."""

    encoder: Sequence[float] = ()
    decoder: Sequence[float] = ()
    output: Sequence[float] = ()


class _WatchedModel(Model):
    """A model whose graphs are watched."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, FLOAT32)
        self.largest: dict[str, list[np.ndarray]] = {"encoder": [], "decoder": [], "output": []}

    def encode(self, tokens: np.ndarray, route: Route) -> dict[str, np.ndarray]:
        return self._note("encoder", super().encode(tokens, route))

    def step(self, tokens: np.ndarray, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        found = self._note("decoder", super().step(tokens, feed))
        self.largest["output"].append(np.abs(found["states"]).max(keepdims=True)[0])
        return found

    def _note(self, graph: str, found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        largest = [found.pop(name) for name in [*found] if name.startswith(LARGEST)]
        self.largest[graph].append(np.array(largest, np.float32))
        return found


def measure_maxima(folder: Path, model: Any) -> Maxima:
    """Translate with the watched graphs in a folder, and return the maxima."""
    watched = _WatchedModel(folder)
    sources = _random_sources(model, max(_SENTENCES, 2 * watched.num_adapters))
    dictionary = model.decoder.dictionary
    first, pad = dictionary.eos(), dictionary.pad()
    special: dict[str, int] = {"pad": pad, "unk": dictionary.unk(), "first": first, "last": first}
    vocabulary: Any = SimpleNamespace(**special, longest_target=2 * _LENGTH)
    output = watched.output(pad)
    for begin in range(0, len(sources), _BATCH):
        batch = sources[begin : begin + _BATCH]
        route = _route(watched, begin, len(batch))
        GreedySearch(watched, output, batch, route, Options(beam=1), vocabulary).run()
    found = {name: np.maximum(np.max(np.stack(rows), axis=0), _SMALLEST) for name, rows in watched.largest.items()}
    return Maxima(**{name: own.tolist() for name, own in found.items()})


def _random_sources(model: Any, count: int) -> list[np.ndarray]:
    """Return sentences of random symbols."""
    dictionary, generator = model.encoder.dictionary, np.random.default_rng(1)
    symbols = np.arange(dictionary.nspecial, len(dictionary))
    return [np.append(generator.choice(symbols, _LENGTH), dictionary.eos()) for _ in range(count)]


def _route(model: Model, begin: int, size: int) -> Route:
    """Return a route on which pairs of sentences use the domains in turn; of gates, the first is not forced."""
    route = {}
    if model.num_adapters:
        numbers = (begin + np.arange(size)) // 2 % model.num_adapters
        used = np.arange(model.num_adapters) if model.has_gates else np.unique(numbers)
        given = (numbers[:, None] == np.arange(model.num_adapters)).astype(np.float32)
        route = {"given": given, "used": used}
    if model.has_gates:
        route["is_forced"] = np.arange(size)[:, None].astype(np.float32) % 2
    return route
