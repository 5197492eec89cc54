"""Our gated model computes what the published implementation computed, from its own weights.

Its evaluation used the causal mean for padded batches, which is the definition we follow everywhere.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fairseq_ext.convert.published_adapters import read_published
from fairseq_ext.patches.checkpoints import read_foreign_checkpoint
from tests.real_corpora import corpus

NAMES = ["LAW", "IT", "SUB", "TALKS", "MED", "REL"]
ORDER = [NAMES.index(name) for name in sorted(NAMES)]  # theirs by the rows of ours


@pytest.fixture(scope="module")
def folder() -> Path:
    return corpus("parity/gated")


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return read_published(*read_foreign_checkpoint(folder / "checkpoint.pt")).built()


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
