"""Our gated model computes what the published implementation computed, from its own weights.

Its evaluation used the causal mean for padded batches, which is the definition we follow everywhere.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fairseq_ext.convert.fairseq_model import Imported, build_model, read_transformer
from fairseq_ext.modules.adapter_names import NAMES as NAMES_ENTRY
from fairseq_ext.modules.adapter_names import names_entry
from fairseq_ext.patches.checkpoints import read_foreign_checkpoint
from tests.real_corpora import corpus

NAMES = ["LAW", "IT", "SUB", "TALKS", "MED", "REL"]
ORDER = [NAMES.index(name) for name in sorted(NAMES)]  # theirs by the rows of ours
# Theirs: one module per adapter; ours: one stacked parameter per kind.
KINDS = {
    "0.weight": "norm_weight", "0.bias": "norm_bias",
    "1.fc1.weight": "down_weight", "1.fc1.bias": "down_bias",
    "1.fc2.weight": "up_weight", "1.fc2.bias": "up_bias",
}  # fmt: skip


def renamed(weights: dict[str, Tensor], options: dict[str, Any]) -> Imported:
    """Their gated model under our names."""
    base = read_transformer({name: value for name, value in weights.items() if ".adapters." not in name}, options)
    ours = {**base.weights, NAMES_ENTRY: names_entry(sorted(NAMES))}
    for gate in [name for name in weights if name.endswith(".adapters.gating.weight")]:
        layer = gate.removesuffix(".adapters.gating.weight")
        ours[f"{layer}.adapter.router.weight"] = weights[gate][ORDER]
        for kind, own in KINDS.items():
            names = (f"{layer}.adapters.adapter_modules.[TAG={name}].{kind}" for name in sorted(NAMES))
            parts = [weights[name].t() if own == "up_weight" else weights[name] for name in names]
            ours[f"{layer}.adapter.bank.{own}"] = torch.stack(parts)
    width = ours["encoder.layers.0.adapter.bank.down_bias"].size(1)
    extra = {"bottleneck_dim": width, "gate_temperature": options["const_adapter_temperature"]}
    return Imported("transformer_gated_adapter", base.layout, ours, tuple(sorted(NAMES)), extra)


@pytest.fixture(scope="module")
def folder() -> Path:
    return corpus("parity/gated")


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    theirs = renamed(*read_foreign_checkpoint(folder / "checkpoint.pt"))
    sizes = [len(theirs.weights[f"{side}.embed_tokens.weight"]) for side in ("encoder", "decoder")]
    model = build_model(theirs.arguments(), sizes, theirs.names)
    model.load_state_dict(dict(theirs.weights), strict=True)
    return model.float().eval()


@pytest.fixture(scope="module")
def outputs(folder: Path) -> dict[str, Tensor]:
    arrays = np.load(folder / "outputs.npz")
    return {name: torch.from_numpy(arrays[name]) for name in arrays}


def test_published_weights_give_published_outputs(model: Any, outputs: dict[str, Tensor]) -> None:
    with torch.no_grad():
        encoder_out = model.encoder(outputs["src_tokens"], outputs["src_lengths"])
        logits, extra = model.decoder(outputs["prev_output_tokens"], encoder_out=encoder_out)
    is_token = outputs["target"].ne(1)
    is_source = outputs["src_tokens"].ne(1).t()
    torch.testing.assert_close(
        encoder_out["encoder_out"][0][is_source], outputs["eval.encoder_out"][is_source], atol=1e-4, rtol=1e-4
    )
    for layer in (0, 1):
        torch.testing.assert_close(
            extra["gate_logits"]["encoder"][layer],
            outputs[f"eval.encoder_gate_logits.{layer}"][:, ORDER],
            atol=1e-4,
            rtol=1e-4,
        )
        ours = extra["gate_logits"]["decoder"][layer]
        theirs = outputs[f"eval.decoder_gate_logits.{layer}"].transpose(0, 1)[..., ORDER]
        torch.testing.assert_close(ours[is_token], theirs[is_token], atol=1e-4, rtol=1e-4)
    log_probs = logits.log_softmax(-1).gather(2, outputs["target"].unsqueeze(2)).squeeze(2)
    torch.testing.assert_close(
        log_probs[is_token], outputs["eval.target_log_probs"][is_token].float(), atol=1e-4, rtol=1e-4
    )
