"""Export of a Transformer, with or without adapters, to ONNX graphs: the encoder, and one step of the decoder.

Embedding and output tables are outside of these graphs, see :mod:`fairseq_ext.serve.graphs.output_graphs`.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from fairseq_ext.base.errors import InputError
from fairseq_ext.serve.graphs.calibration import Maxima, measure_maxima
from fairseq_ext.serve.graphs.decoder_graph import DecoderGraph
from fairseq_ext.serve.graphs.encoder_graph import EncoderGraph
from fairseq_ext.serve.graphs.graph import Graph
from fairseq_ext.serve.graphs.output_graphs import write_output
from fairseq_ext.serve.runtime.manifest import FLOAT32, INT8, graph_files

# Parts of fairseq's Transformer that are not supported.
_OTHER_PARTS = (
    *("attn_ln", "ffn_layernorm", "w_resid", "c_attn"),
    *("project_in_dim", "project_out_dim", "adaptive_softmax"),
)


def write_graphs(model: Any, folder: Path, precision: str) -> None:
    """Write the graphs and tables of a fairseq model in evaluation mode."""
    for side in (model.encoder, model.decoder):
        for part in (side, *side.layers.children()):
            for name in _OTHER_PARTS:
                if getattr(part, name, None) is not None:
                    raise InputError(f"the model has {name}, which an export does not support")
    _write(model, folder, precision, _measured(model) if precision == INT8 else Maxima())


def _measured(model: Any) -> Maxima:
    """Return the largest absolute inputs of a model's matrix products while it translates."""
    with TemporaryDirectory() as folder:
        _write(model, Path(folder), FLOAT32, Maxima(), is_watched=True)
        return measure_maxima(Path(folder), model)


def _write(model: Any, folder: Path, precision: str, maxima: Maxima, *, is_watched: bool = False) -> None:
    encoder, decoder, *output = (folder / name for name in graph_files(precision))
    is_int8 = precision == INT8
    with torch.no_grad():
        EncoderGraph(model, Graph(is_int8, maxima.encoder, is_watched)).graph.write(encoder, "encoder")
        DecoderGraph(model, Graph(is_int8, maxima.decoder, is_watched)).graph.write(decoder, "decoder")
        write_output(model, Graph(is_int8, maxima.output, is_watched), *output)
