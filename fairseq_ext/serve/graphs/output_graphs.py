"""Export of what lies between hidden states and tokens: the output layer, the choice of the best, and the tables.

The graph of the output layer has no weights: :class:`fairseq_ext.serve.runtime.tables.Output` gives it those of the
tokens that may be chosen, all of them or a shortlist.

Sizes: N hypotheses, H features, V symbols, C tokens that may be chosen, E requested ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairseq_ext.patches.models import OUTPUT_BIAS
from fairseq_ext.serve.graphs.graph import Graph, as_array, to_int8
from fairseq_ext.serve.runtime.tables import BLOCK


def write_output(model: Any, graph: Graph, logits: Path, best: Path, tables: Path) -> None:
    """Write the graphs of the output layer and of the choice of tokens, and the tables of a fairseq model."""
    _add_logits(graph, model.decoder.output_projection.weight.shape[1])
    graph.write(logits, "logits")
    _best_graph().write(best, "best")
    _write_tables(model, tables, graph.is_int8)


def _write_tables(model: Any, path: Path, is_int8: bool) -> None:
    """Write the tables that :class:`fairseq_ext.serve.runtime.tables.Tables` reads."""
    decoder, output = model.decoder, model.decoder.output_projection
    source, rows = _with_rows_of(model.encoder.embed_tokens.weight, output.weight, output.weight)
    # Read as the decoder reads it: the start symbol may be zero.
    embeddings = decoder.embed_tokens(torch.arange(len(output.weight), device=output.weight.device))
    target, rows = _with_rows_of(embeddings, output.weight, rows)
    bias = getattr(decoder, OUTPUT_BIAS, output.bias)
    arrays: dict[str, Any] = {"source": source, "target": target, "rows": as_array(rows)}
    arrays["bias"] = as_array(torch.zeros(len(output.weight)) if bias is None else bias)
    if is_int8:
        arrays["rows"], arrays["scales"] = to_int8(rows)
    np.savez(path, **arrays)


def _with_rows_of(table: Tensor, output: Tensor, rows: Tensor) -> tuple[np.ndarray, Tensor]:
    """Return the places of a table's vectors in ``rows``, V, and ``rows`` with those that the output table lacks."""
    places, size = np.arange(len(table)), min(len(table), len(output))
    is_new = torch.ones(len(table), dtype=torch.bool)
    is_new[:size] = (table[:size] != output[:size]).any(1)
    places[is_new.numpy()] = len(rows) + np.arange(int(is_new.sum()))
    return places.astype(np.int32), torch.cat([rows, table[is_new]])


def _add_logits(graph: Graph, width: int) -> None:
    """Add the output layer: ``states``, N×H → ``logits``, N×C."""
    states = graph.input("states", "float", ["N", width])
    # Placeholders with the right types, which the runtime replaces.
    bias = graph.placeholder("bias", np.zeros(1, np.float32))
    if graph.is_int8:
        weight = graph.placeholder("weight", np.zeros((width, 1), np.int8))
        logits = graph.product(states, weight, graph.placeholder("scales", np.ones(1, np.float32)), bias)
    else:
        logits = graph.op("Gemm", states, graph.placeholder("weight", np.zeros((width, 1), np.float32)), bias)
    graph.output("logits", logits)


def _best_graph() -> Graph:
    """Return the graph that finds the ``most`` best of C tokens, N×most, and the scores of requested columns, N×E."""
    graph = Graph()
    scores = graph.op("LogSoftmax", graph.input("logits", "float", ["N", "C"]), axis=-1)
    columns, most = graph.input("columns", "int", ["N", "E"]), graph.input("most", "int", [1])
    graph.output("asked", graph.op("GatherElements", scores, columns, axis=1))
    # In two stages: first over the maxima of blocks, then over the tokens of the best blocks. Block j has the tokens
    # j, j + C/32, …, so that block maxima are an elementwise maximum of rows.
    by_block = graph.op("Reshape", scores, [0, BLOCK, -1])
    blocks = graph.op("Shape", by_block, start=2)
    _, chosen = graph.ops("TopK", 2, by_block.reduced("Max", 1, keep=False), graph.op("Min", most, blocks), axis=1)
    members = graph.op("Flatten", chosen.unsqueeze(1) + (blocks * np.arange(BLOCK)).unsqueeze(0, 2))
    of_members = graph.op("GatherElements", scores, members, axis=1)
    most = graph.op("Min", most, graph.op("Shape", scores, start=1))
    best, places = graph.ops("TopK", 2, of_members, most, axis=1)
    graph.output("best", best)
    graph.output("best_tokens", graph.op("GatherElements", members, places, axis=1), "int")
    return graph
