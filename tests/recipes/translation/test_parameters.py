"""Parameters of tiny models, counted by hand."""

from __future__ import annotations

from pathlib import Path

import torch

from fairseq_ext.recipes.translation.analyses import count_parameters
from tests import toy

SIZE = [
    "--encoder-embed-dim", "4", "--encoder-ffn-embed-dim", "8", "--encoder-layers", "1",
    "--decoder-embed-dim", "4", "--decoder-ffn-embed-dim", "8", "--decoder-layers", "1", "--decoder-output-dim", "4",
    "--encoder-attention-heads", "1", "--decoder-attention-heads", "1", "--share-all-embeddings",
]  # fmt: skip
# Attention: 4 projections of 4×4 and 4. Feed-forward: 4×8 + 8 and 8×4 + 4. Norm: 2×4.
# The encoder's layer has one attention and two norms, the decoder's two and three.
# Symbols: 20 words, fairseq's four, three tags; the embeddings are tied.
BASE = 27 * 4 + (80 + 76 + 2 * 8) + (2 * 80 + 76 + 3 * 8)
# For each of three domains and two layers: norm, down (4×2 + 2), up (2×4 + 4).
ADAPTERS = 3 * 2 * (8 + 10 + 12)
# For each of two layers three scores of four inputs.
GATES = 2 * 3 * 4


def save(path: Path, data: Path, arch: str, *options: str) -> Path:
    """A checkpoint like those that fairseq-train writes, its tied embeddings torn apart as from a GPU."""
    task, args = toy.make_task(data, *SIZE, *options, arch=arch)
    model = toy.make_model(task, args)
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    config = toy.composed(args)
    history = {"optimizer_name": "Adam", "lr_scheduler_state": {}, "num_updates": 0}
    state = {"args": None, "cfg": config, "model": weights, "optimizer_history": [history]}
    torch.save(state | {"extra_state": {"train_iterator": {"epoch": 1}}}, path)
    return path


def test_counts(tmp_path: Path, data: Path) -> None:
    assert (BASE, ADAPTERS, GATES) == (540, 180, 24)
    checkpoint = save(tmp_path / "checkpoint.pt", data, "transformer_gated_adapter_tiny")
    assert count_parameters(checkpoint, data) == (540 + 180 + 24, 180 + 24)
