"""Our gated model computes what the published implementation computed, from its own weights.

Its evaluation used the causal mean for padded batches, which is the definition we follow everywhere.
"""

from __future__ import annotations

import re
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary
from torch import Tensor

from fairseq_ext.models.transformer_gated_adapter import TransformerGatedAdapterModel
from tests.real_corpora import corpus

NAMES = ["LAW", "IT", "SUB", "TALKS", "MED", "REL"]
# Theirs: one module per adapter; ours: one stacked parameter per kind. Ours keeps "up" as b×H.
KINDS = {
    "0.weight": "norm_weight", "0.bias": "norm_bias",
    "1.fc1.weight": "down_weight", "1.fc1.bias": "down_bias",
    "1.fc2.weight": "up_weight", "1.fc2.bias": "up_bias",
}  # fmt: skip
DEAD = re.compile(
    r"encoder\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)|.*\.(version|_float_tensor)|.*\.adapters\..*"
)


def converted(published: dict[str, Tensor]) -> dict[str, Tensor]:
    ours = {name: value for name, value in published.items() if not DEAD.fullmatch(name)}
    for layer in (f"{side}.layers.{n}" for side in ("encoder", "decoder") for n in (0, 1)):
        ours[f"{layer}.adapter.router.weight"] = published[f"{layer}.adapters.gating.weight"]
        for theirs, kind in KINDS.items():
            parts = [published[f"{layer}.adapters.adapter_modules.[TAG={name}].{theirs}"] for name in NAMES]
            stacked = torch.stack([part.t() for part in parts] if kind == "up_weight" else parts)
            ours[f"{layer}.adapter.bank.{kind}"] = stacked
    return ours


@pytest.fixture(scope="module")
def folder() -> Path:
    return corpus("parity/gated")


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    state = torch.load(folder / "checkpoint.pt", weights_only=True)
    dictionary = Dictionary.load(str(folder / "dict.src.txt"))
    args = Namespace(**vars(state["cfg"]["model"]))
    args.adapter_names, args.gate_temperature = NAMES, args.const_adapter_temperature
    args.checkpoint_activations = False
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary, domains=NAMES)
    model = TransformerGatedAdapterModel.build_model(args, task).eval()
    missing, unknown = model.load_state_dict(converted(state["model"]), strict=False)
    assert not unknown
    assert {name for name in missing if not name.endswith("version")} == set()
    return model


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
            outputs[f"eval.encoder_gate_logits.{layer}"],
            atol=1e-4,
            rtol=1e-4,
        )
        ours = extra["gate_logits"]["decoder"][layer]
        theirs = outputs[f"eval.decoder_gate_logits.{layer}"].transpose(0, 1)
        torch.testing.assert_close(ours[is_token], theirs[is_token], atol=1e-4, rtol=1e-4)
    log_probs = logits.log_softmax(-1).gather(2, outputs["target"].unsqueeze(2)).squeeze(2)
    torch.testing.assert_close(
        log_probs[is_token], outputs["eval.target_log_probs"][is_token].float(), atol=1e-4, rtol=1e-4
    )
