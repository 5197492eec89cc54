"""A Marian model of some thousand random weights, in a folder as Firefox's: one vocabulary, weights, their options."""

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from tests.text.tiny_pieces import write_pieces

WIDTH, INNER = 16, 24
OPTIONS = {
    "type": "transformer",
    **{"dim-emb": WIDTH, "transformer-dim-ffn": INNER, "transformer-heads": 2, "enc-depth": 2, "dec-depth": 1},
    **{"dec-cell": "ssru", "transformer-ffn-activation": "relu", "tied-embeddings-all": True},
}
_POST_NORM = {"preprocess": "", "postprocess": "dan", "postprocess-top": ""}
_PRE_NORM = {"preprocess": "n", "postprocess": "da", "postprocess-top": "n"}
_SPECIAL = {"eos_id": 0, "unk_id": 1, "bos_id": -1, "pad_id": -1}


def make_marian_folder(folder: Path, pair: str = "ende", *, is_student: bool = True, size: int = 61) -> Path:
    """Write ``model.PAIR.npz`` and ``vocab.PAIR.spm``, with weights that depend on their names alone.

    A student has an SSRU and is post-norm, as Firefox's; otherwise the model has self-attention and is pre-norm.
    """
    write_pieces(folder / f"vocab.{pair}.spm", size, **_SPECIAL)
    norms = {f"transformer-{name}": value for name, value in (_POST_NORM if is_student else _PRE_NORM).items()}
    autoregressive = {"transformer-decoder-autoreg": "rnn" if is_student else "self-attention"}
    options = yaml.safe_dump({**OPTIONS, **norms, **autoregressive, "transformer-postprocess-emb": "d"})
    arrays = {**_arrays(size, is_student), "special:model.yml": np.frombuffer(options.encode() + b"\0", np.int8)}
    np.savez(folder / f"model.{pair}.npz", **arrays)
    return folder


def _arrays(size: int, is_student: bool) -> dict[str, Any]:
    suffix = "" if is_student else "_pre"
    shapes: dict[str, tuple[int, ...]] = {"Wemb": (size, WIDTH), "decoder_ff_logit_out_b": (1, size)}
    layers = {"encoder_l1": ["self"], "encoder_l2": ["self"], "decoder_l1": ["context"]}
    if is_student:
        shapes |= {
            "decoder_l1_rnn_W": (WIDTH, WIDTH),
            "decoder_l1_rnn_Wf": (WIDTH, WIDTH),
            "decoder_l1_rnn_bf": (1, WIDTH),
        }
        shapes |= _norm("decoder_l1_rnn_ffn", suffix)
    else:
        layers["decoder_l1"].append("self")
        shapes |= {**_norm("encoder_top", ""), **_norm("decoder_top", "")}
    for layer, blocks in layers.items():
        for block in blocks:
            shapes |= {f"{layer}_{block}_W{name}": (WIDTH, WIDTH) for name in "qkvo"}
            shapes |= {f"{layer}_{block}_b{name}": (1, WIDTH) for name in "qkvo"}
            shapes |= _norm(f"{layer}_{block}_Wo", suffix)
        shapes |= {f"{layer}_ffn_W1": (WIDTH, INNER), f"{layer}_ffn_b1": (1, INNER)}
        shapes |= {f"{layer}_ffn_W2": (INNER, WIDTH), f"{layer}_ffn_b2": (1, WIDTH)}
        shapes |= _norm(f"{layer}_ffn_ffn", suffix)
    return _random(shapes)


def _norm(name: str, suffix: str) -> dict[str, tuple[int, ...]]:
    return {f"{name}_ln_{kind}{suffix}": (1, WIDTH) for kind in ("scale", "bias")}


def _random(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    generators = {name: np.random.default_rng(zlib.crc32(name.encode())) for name in shapes}
    return {
        name: ("scale" in name) + generators[name].normal(0, 0.3, shape).astype(np.float32)
        for name, shape in shapes.items()
    }
