"""Embedding tables of an exported model, and the choice of the next token among all tokens or a shortlist."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fairseq_ext.base.array_file import read_arrays
from fairseq_ext.base.errors import InputError
from fairseq_ext.serve.runtime.manifest import INT8
from fairseq_ext.serve.runtime.sessions import Session, as_constants
from fairseq_ext.serve.runtime.vocabulary import REMEDY

# The number of tokens that may be chosen is a multiple of this: the best are found by blocks.
BLOCK = 32
_NEVER = np.float32(-1e9)


class Tables:
    """The vectors of all tokens, equal ones once, in float32, or in int8 with one scale per row.

    Attributes:
        rows, scales: R×H and R; the first V rows are those of the output layer.
        bias: bias of the output layer, V.
        source, target: place in ``rows`` of each source or target token.
    """

    def __init__(self, path: Path, precision: str) -> None:
        names = ["rows", "bias", "source", "target", *(["scales"] if precision == INT8 else [])]
        arrays = read_arrays(path, names, REMEDY)
        self.rows, self.bias, self.scales = arrays["rows"], arrays["bias"], arrays.get("scales")
        self.source, self.target = arrays["source"], arrays["target"]
        self._path = path

    def check(self, sources: int, targets: int) -> None:
        """Check that the tables fit each other and dictionaries of these sizes."""
        size = len(self.rows) if self.rows.ndim else 0
        kind = np.float32 if self.scales is None else np.int8
        is_right = (
            (self.rows.ndim, self.rows.dtype, self.bias.shape, self.bias.dtype) == (2, kind, (targets,), np.float32)
            and targets <= size
            and (self.scales is None or (self.scales.shape, self.scales.dtype) == ((size,), np.float32))
            and _are_rows(self.source, sources, size)
            and _are_rows(self.target, targets, size)
        )
        if not is_right:
            raise InputError(f"{self._path}: does not fit the dictionaries; {REMEDY}")

    def vectors(self, places: np.ndarray) -> np.ndarray:
        """Return the vectors at these places in float32: …×H."""
        found: np.ndarray = self.rows[places]
        return found if self.scales is None else found * self.scales[places][..., None]


def _are_rows(places: np.ndarray, number: int, size: int) -> bool:
    is_right = places.shape == (number,) and places.dtype.kind in "iu"
    return is_right and int(places.min()) >= 0 and int(places.max()) < size


class Output:
    """The choice of the next token among C given tokens (default: all).

    Args:
        layer: file of the graph of the output layer.
        best: session of the graph that finds the best tokens.
        tables: tables of the model.
        pad: token that is never chosen. It fills the last block.
        tokens: the tokens that may be chosen, in ascending order; they include the end of a sentence.
    """

    def __init__(self, layer: Path, best: Any, tables: Tables, pad: int, tokens: np.ndarray | None = None) -> None:
        size = len(tables.bias)
        own = np.arange(size) if tokens is None else tokens
        self.tokens = np.concatenate([own, np.full(-len(own) % BLOCK, pad)])
        self._columns = np.zeros(size, np.int64)
        self._columns[own] = np.arange(len(own))
        bias = tables.bias[self.tokens]
        bias[len(own) :] = _NEVER
        arrays = {"weight": np.ascontiguousarray(tables.rows[self.tokens].T), "bias": bias}
        if tables.scales is not None:
            arrays["scales"] = tables.scales[self.tokens]
        self._constants = as_constants(arrays)
        self._layer, self._best = Session(layer, constants=self._constants), best

    def best(self, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the best token of each of N hypotheses, and its log probability."""
        logits = self._logits(states)
        best = logits.argmax(1)
        logits -= np.take_along_axis(logits, best[:, None], 1)
        return self.tokens[best], -np.log(np.exp(logits, out=logits).sum(1))

    def several(self, states: np.ndarray, asked: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the log probabilities of asked tokens, and the ``most`` best tokens with theirs.

        Shape:
            states: N×H; asked and the first result: N×E; the others: N×most
        """
        feed = {"logits": self._logits(states), "columns": self._columns[asked], "most": np.array([most])}
        of_asked, scores, best = self._best.run(feed)
        return of_asked, scores, self.tokens[best]

    def _logits(self, states: np.ndarray) -> np.ndarray:
        logits: np.ndarray = self._layer.run({"states": states})[0]
        return logits
