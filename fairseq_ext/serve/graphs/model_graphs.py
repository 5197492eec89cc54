"""Export of a Transformer, with or without adapters, to ONNX graphs: the encoder, and one step of the decoder.

Embedding and output tables are outside of these graphs, see :mod:`fairseq_ext.serve.graphs.output_graphs`.

Rounding to int8 needs to know how large the inputs of matrix products become. They are measured once: the model
translates sentences of random symbols, and its graphs output the maxima. Measured for every batch, they would cost a
quarter of the time, and the translation of a sentence would depend on others in its batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from fairseq_ext.base.errors import InputError
from fairseq_ext.serve.graphs.decoder_graph import DecoderGraph
from fairseq_ext.serve.graphs.encoder_graph import EncoderGraph
from fairseq_ext.serve.graphs.graph import LARGEST, Graph
from fairseq_ext.serve.graphs.output_graphs import write_output
from fairseq_ext.serve.runtime.manifest import FLOAT32, INT8, graph_files
from fairseq_ext.serve.runtime.model import Model, Route
from fairseq_ext.serve.runtime.next_tokens import Options
from fairseq_ext.serve.runtime.search import GreedySearch

# Parts of fairseq's Transformer that are not supported.
_OTHER_PARTS = (
    *("attn_ln", "ffn_layernorm", "w_resid", "c_attn"),
    *("project_in_dim", "project_out_dim", "adaptive_softmax"),
)
# The graphs, and their largest absolute inputs of matrix products, in the order of the products.
_ENCODER, _DECODER, _OUTPUT = _GRAPHS = ("encoder", "decoder", "output")
Maxima = Mapping[str, Sequence[float]]
_SENTENCES, _LENGTH, _BATCH = 64, 24, 32
_SMALLEST = 1e-6


def write_graphs(model: Any, folder: Path, precision: str) -> None:
    """Write the graphs and tables of a fairseq model in evaluation mode."""
    for side in (model.encoder, model.decoder):
        for part in (side, *side.layers.children()):
            for name in _OTHER_PARTS:
                if getattr(part, name, None) is not None:
                    raise InputError(f"the model has {name}, which an export does not support")
    maxima: Maxima = {}
    if precision == INT8:
        with TemporaryDirectory() as watched:
            _write(model, Path(watched), FLOAT32, {}, is_watched=True)
            maxima = _maxima(Path(watched), model)
    _write(model, folder, precision, maxima)


def _write(model: Any, folder: Path, precision: str, maxima: Maxima, *, is_watched: bool = False) -> None:
    encoder, decoder, *output = (folder / name for name in graph_files(precision))
    graphs = [Graph(precision == INT8, maxima.get(name, ()), is_watched) for name in _GRAPHS]
    with torch.no_grad():
        EncoderGraph(model, graphs[0]).graph.write(encoder, _ENCODER)
        DecoderGraph(model, graphs[1]).graph.write(decoder, _DECODER)
        write_output(model, graphs[2], *output)


class _WatchedModel(Model):
    """A model whose graphs are watched."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, FLOAT32)
        self.largest: dict[str, list[np.ndarray]] = {name: [] for name in _GRAPHS}

    def encode(self, tokens: np.ndarray, route: Route) -> dict[str, np.ndarray]:
        return self._note(_ENCODER, super().encode(tokens, route))

    def step(self, tokens: np.ndarray, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        found = self._note(_DECODER, super().step(tokens, feed))
        self.largest[_OUTPUT].append(np.abs(found["states"]).max(keepdims=True)[0])
        return found

    def _note(self, graph: str, found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        largest = [found.pop(name) for name in [*found] if name.startswith(LARGEST)]
        self.largest[graph].append(np.array(largest, np.float32))
        return found


def _maxima(folder: Path, model: Any) -> Maxima:
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
    return {name: np.maximum(np.max(rows, axis=0), _SMALLEST).tolist() for name, rows in watched.largest.items()}


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
