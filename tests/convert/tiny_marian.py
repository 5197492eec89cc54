"""A Marian model of some thousand random weights, as Firefox's folders have it: an SSRU, post-norm, one vocabulary."""

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from tests.convert.tiny_translation import write_pieces

WIDTH, INNER = 16, 24
OPTIONS = {
    "type": "transformer",
    **{"dim-emb": WIDTH, "transformer-dim-ffn": INNER, "transformer-heads": 2, "enc-depth": 2, "dec-depth": 1},
    **{"dec-cell": "ssru", "transformer-decoder-autoreg": "rnn", "transformer-ffn-activation": "relu"},
    **{"transformer-preprocess": "", "transformer-postprocess": "dan", "transformer-postprocess-top": ""},
    **{"transformer-postprocess-emb": "d", "tied-embeddings-all": True},
}
_SPECIAL = {"eos_id": 0, "unk_id": 1, "bos_id": -1, "pad_id": -1}


def make_firefox_folder(folder: Path, pair: str = "ende", size: int = 61) -> Path:
    """Write ``model.PAIR.npz`` and ``vocab.PAIR.spm``, with weights that depend on their names alone."""
    write_pieces(folder / f"vocab.{pair}.spm", size, **_SPECIAL)
    options = np.frombuffer(yaml.safe_dump(OPTIONS).encode() + b"\0", np.int8)
    arrays: dict[str, Any] = {"Wemb": _random("Wemb", size, WIDTH), "decoder_ff_logit_out_b": _random("b", 1, size)}
    blocks = {"encoder_l1": ["self"], "encoder_l2": ["self"], "decoder_l1": ["context"]}
    for layer, attentions in blocks.items():
        for block in attentions:
            arrays |= {f"{layer}_{block}_W{name}": _random(layer + block + name, WIDTH, WIDTH) for name in "qkvo"}
            arrays |= {f"{layer}_{block}_b{name}": _random(layer + name, 1, WIDTH) for name in "qkvo"}
            arrays |= _norm(f"{layer}_{block}_Wo")
        arrays |= {f"{layer}_ffn_W1": _random(layer, WIDTH, INNER), f"{layer}_ffn_b1": _random(layer, 1, INNER)}
        arrays |= {f"{layer}_ffn_W2": _random(layer, INNER, WIDTH), f"{layer}_ffn_b2": _random(layer, 1, WIDTH)}
        arrays |= _norm(f"{layer}_ffn_ffn")
    arrays |= {f"decoder_l1_rnn_{name}": _random(name, WIDTH, WIDTH) for name in ("W", "Wf")}
    arrays |= {"decoder_l1_rnn_bf": _random("bf", 1, WIDTH), **_norm("decoder_l1_rnn_ffn")}
    np.savez(folder / f"model.{pair}.npz", **{"special:model.yml": options}, **arrays)
    return folder


def _norm(name: str) -> dict[str, Any]:
    return {f"{name}_ln_scale": 1 + _random(name, 1, WIDTH), f"{name}_ln_bias": _random(name, 1, WIDTH)}


def _random(name: str, *shape: int) -> Any:
    return np.random.default_rng(zlib.crc32(name.encode())).normal(0, 0.3, shape).astype(np.float32)
