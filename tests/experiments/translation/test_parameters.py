"""Parameters of a tiny model, counted by hand."""

from pathlib import Path

import torch

from fairseq_ext.experiments.translation.analyses import count_parameters
from tests import toy

SIZE = [f"--{side}-{key}" for side in ("encoder", "decoder") for key in ("embed-dim=4", "ffn-embed-dim=8", "layers=1")]
SIZE += ["--encoder-attention-heads=1", "--decoder-attention-heads=1", "--decoder-output-dim=4"]
# Attention: 4 projections of 4×4 and 4. Feed-forward: 4×8 + 8 and 8×4 + 4. Norm: 2×4.
# The encoder's layer has one attention and two norms, the decoder's two and three.
# Symbols: 20 words, fairseq's four, three tags; the embeddings are tied.
BASE = 27 * 4 + (80 + 76 + 2 * 8) + (2 * 80 + 76 + 3 * 8)
# For each of three domains and two layers: norm, down (4×2 + 2), up (2×4 + 4).
ADAPTERS = 3 * 2 * (8 + 10 + 12)
# For each of two layers three scores of four inputs.
GATES = 2 * 3 * 4


def test_parameters_are_counted(tmp_path: Path, data: Path) -> None:
    task, args = toy.make_task(data, *SIZE, "--share-all-embeddings", arch="transformer_gated_adapter_tiny")
    path = tmp_path / "checkpoint.pt"
    toy.write_checkpoint(path, args, toy.make_model(task, args))
    # Its tied embeddings are separate, as from a GPU.
    state = torch.load(path, weights_only=False)
    state["model"] = {name: tensor.clone() for name, tensor in state["model"].items()}
    torch.save(state, path)
    assert count_parameters(path, data) == (BASE + ADAPTERS + GATES, ADAPTERS + GATES) == (744, 204)
