"""The encoder and decoder graphs of an exported model, and the decoding state."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fairseq_ext.serve.runtime.manifest import graph_files
from fairseq_ext.serve.runtime.sessions import Session
from fairseq_ext.serve.runtime.tables import Output, Tables

_NEVER = np.float32(-1e9)  # same value as in the graphs' masks
_STEPS = 4  # initial capacity of the caches in steps, and the minimum by which they grow


# Graph inputs that weight the adapters of B sentences. Models with adapters have ``used``, the A adapters that are
# computed, and ``given`` (B×D). Models with gates also have ``is_forced`` (B×1), 1 where ``given`` replaces the weights
# of the gates.
Route = dict[str, np.ndarray]


class Model:
    """Encoder, decoder and tables, loaded from files. Several threads may share one instance."""

    def __init__(self, folder: Path, precision: str, device: str = "cpu") -> None:
        encoder, decoder, self._output_layer, best, tables = (folder / name for name in graph_files(precision))
        self._encoder, self._decoder, self._best = (Session(path, device) for path in (encoder, decoder, best))
        self.tables = Tables(tables, precision)
        inputs = self._decoder.inputs
        self.caches = [inputs[name] for name in inputs if name.startswith("key_")]  # B×h×d×P
        self.cells = {name: inputs[name][2] for name in inputs if name.startswith("cell_")}  # H
        self.totals = inputs.get("totals")  # B×W×L×D
        self.has_gates = "is_forced" in inputs
        self.num_adapters = inputs["given"][1] if "given" in inputs else 0

    def output(self, pad: int, tokens: np.ndarray | None = None) -> Output:
        """Return the choice of the next token, among all tokens or the given ones."""
        return Output(self._output_layer, self._best, self.tables, pad, tokens)

    def encode(self, tokens: np.ndarray, route: Route) -> dict[str, np.ndarray]:
        """Run the encoder on B×S tokens, and return its outputs by name."""
        feed = {"tokens": tokens, "embedded": self.tables.vectors(self.tables.source[tokens]), **route}
        return dict(zip(self._encoder.outputs, self._encoder.run(feed), strict=True))

    def step(self, tokens: np.ndarray, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Run the decoder on B×W tokens, and return its outputs by name."""
        feed = {**feed, "embedded": self.tables.vectors(self.tables.target[tokens])}
        return dict(zip(self._decoder.outputs, self._decoder.run(feed), strict=True))


class State:
    """Decoding state of B sentences with up to W hypotheses each.

    Cached keys and values are never moved. The mask of a hypothesis selects its own. Cells of an SSRU are reordered.
    """

    def __init__(self, model: Model, tokens: np.ndarray, route: Route, beam: int) -> None:
        self.model, self.beam, self.steps = model, beam, 0
        encoded = model.encode(tokens, route)
        self.gates = encoded.pop("gates", None)  # weights of the encoder's gates, B×L×D
        self.used = {name: route[name] for name in ("used",) if name in route}
        self.fixed = {**encoded, **{name: value for name, value in route.items() if name != "used"}}
        size = len(tokens)
        self.mask = np.full((size, 1, 1, _STEPS * beam), _NEVER, np.float32)
        self.keys = [np.zeros((size, h, d, _STEPS * beam), np.float32) for _, h, d, _ in model.caches]
        self.values = [np.zeros((size, h, _STEPS * beam, d), np.float32) for _, h, d, _ in model.caches]
        # Sums of gate scores and cells of SSRUs, B×W×….
        self.moved = {name: np.zeros((size, 1, width), np.float32) for name, width in model.cells.items()}
        if model.totals is not None:
            self.moved["totals"] = np.zeros((size, 1, *model.totals[2:]), np.float32)

    def advance(self, tokens: np.ndarray) -> dict[str, np.ndarray]:
        """Run one decoder step, and return its outputs.

        Args:
            tokens: last token of each hypothesis, B×W; at the first step B×1.
        """
        if self.keys and self.steps * self.beam + self.beam > self.mask.shape[3]:
            self._grow()
        feed = {**self.fixed, **self.used, **self.moved, "step": np.array([self.steps])}
        if self.keys:
            feed["past_mask"] = self.mask
        for number, (key, value) in enumerate(zip(self.keys, self.values, strict=True)):
            feed |= {f"key_{number}": key, f"value_{number}": value}
        found = self.model.step(tokens, feed)
        first = self.steps * self.beam
        places = slice(first, first + tokens.shape[1])
        for number, (key, value) in enumerate(zip(self.keys, self.values, strict=True)):
            key[..., places] = found[f"new_key_{number}"].swapaxes(2, 3)
            value[:, :, places] = found[f"new_value_{number}"]
        self.moved = {name: found[f"new_{name}"] for name in self.moved}
        return found

    def follow(self, parents: np.ndarray | None = None) -> None:
        """Continue hypothesis w of sentence b from hypothesis ``parents[b, w]``; None: from itself."""
        if parents is not None:
            rows = np.arange(len(parents))[:, None]
            self.mask = self.mask[rows, 0, parents][:, None]
            self.moved = {name: value[rows, parents] for name, value in self.moved.items()}
        own = np.arange(self.beam)
        places = self.steps * self.beam + (own if parents is None else parents)
        if self.keys:
            self.mask[np.arange(len(self.mask))[:, None], 0, own, places] = 0
        self.steps += 1

    def keep(self, rows: np.ndarray) -> None:
        """Keep only the given sentences."""
        self.fixed = {name: value[rows] for name, value in self.fixed.items()}
        self.keys = [each[rows] for each in self.keys]
        self.values = [each[rows] for each in self.values]
        self.mask = self.mask[rows]
        self.moved = {name: value[rows] for name, value in self.moved.items()}

    def _grow(self) -> None:
        more = max(_STEPS, self.steps // 4) * self.beam
        self.mask = np.pad(self.mask, [(0, 0)] * 3 + [(0, more)], constant_values=_NEVER)
        self.keys = [np.pad(each, [(0, 0)] * 3 + [(0, more)]) for each in self.keys]
        self.values = [np.pad(each, [(0, 0), (0, 0), (0, more), (0, 0)]) for each in self.values]


def padded(rows: Sequence[np.ndarray], pad: int) -> np.ndarray:
    """Pad rows of tokens to one array, B×T."""
    found = np.full((len(rows), max(map(len, rows))), pad, np.int64)
    for own, row in zip(found, rows, strict=True):
        own[: len(row)] = row
    return found
