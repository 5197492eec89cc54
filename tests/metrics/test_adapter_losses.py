"""Losses under every adapter are those of the model with that domain, sentence by sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.metrics.adapter_losses import AdapterScorer
from tests import toy

AD, GAD = "transformer_domain_adapter_tiny", "transformer_gated_adapter_tiny"


@pytest.mark.parametrize("arch", [AD, GAD])
def test_rows_are_sentences_and_columns_adapters(data: Path, arch: str) -> None:
    task, args = toy.make_task(data, arch=arch)
    model = toy.make_model(task, args)
    toy.randomise_adapters(model)
    scorer = AdapterScorer(model.eval(), task, max_tokens=40)
    losses = scorer.losses("med", "test")
    pairs = task.dataset("test:med")
    assert losses.shape == (len(pairs), 3)
    assert losses.dtype == np.float32
    for row in range(len(pairs)):
        alone = pairs.collater([pairs[row]])
        for number in range(3):
            routes = {"domain_ids": torch.tensor([number]), "is_forced": torch.tensor([True])}
            with torch.no_grad():
                logits, _ = model(**{**alone["net_input"], **routes})
            expected = F.cross_entropy(logits[0], alone["target"][0], reduction="sum")
            assert losses[row, number] == pytest.approx(float(expected), rel=1e-5)
    assert len(np.unique(losses[0])) == 3


def test_bfloat16_is_near(data: Path) -> None:
    task, args = toy.make_task(data, arch=AD)
    model = toy.make_model(task, args)
    toy.randomise_adapters(model)
    near = AdapterScorer(model.eval(), task, torch.bfloat16).losses("law", "test")
    exact = AdapterScorer(model, task).losses("law", "test")
    assert not np.array_equal(near, exact)
    np.testing.assert_allclose(near, exact, rtol=0.05)


def test_a_model_without_adapters_is_refused(data: Path, tmp_path: Path) -> None:
    task, args = toy.make_task(data, arch="transformer_tiny")
    path = toy.write_checkpoint(tmp_path / "mix.pt", args, toy.make_model(task, args))
    with pytest.raises(InputError, match="mix.pt: has no adapters of domains"):
        AdapterScorer.load(path, data)
