"""What routing asks of an accelerator beside the plain Transformer: kernels, and no waiting for their results."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks.shared.operators import OperatorCount, count_operators
from tests import toy

MIX, AD, GAD = (f"transformer{kind}_small" for kind in ("", "_domain_adapter", "_gated_adapter"))
ROWS, LENGTH = 64, 12
SPARSE = ("--gate-top-k", "2")
# Kernels in proportion to MIX's, at most: of a forward pass, a training step, a decoding step.
LIMITS = {
    (AD,): (1.8, 1.25, 1.2),
    (GAD,): (1.5, 1.1, 1.3),
}
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def seven_domains(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy.make_data(tmp_path_factory.mktemp("data"), [f"d{n}" for n in range(7)], (1,) * 7)


@pytest.fixture(scope="module")
def counts(seven_domains: Path) -> Callable[..., list[OperatorCount]]:
    def count(arch: str, *options: str) -> list[OperatorCount]:
        return Runs(toy.make_model(*toy.make_task(seven_domains, *options, arch=arch))).counts()

    return cache(count)


class Runs:
    """A model's forward pass, training step and decoding step, for rows of seven domains in turn."""

    def __init__(self, model: Any):
        self.model = model.to("meta")
        self.tokens = torch.zeros(ROWS, LENGTH, dtype=torch.long, device="meta")
        self.inputs: dict[str, Tensor] = {"src_tokens": self.tokens, "src_lengths": self.tokens.ne(1).sum(1)}
        if hasattr(model, "banks"):
            self.inputs["domain_ids"] = torch.arange(ROWS, device="meta")

    @torch.no_grad()
    def forward(self) -> None:
        self.model.eval()(**self.inputs, prev_output_tokens=self.tokens)

    def train(self) -> None:
        self.model.train()(**self.inputs, prev_output_tokens=self.tokens)[0].sum().backward()

    @torch.no_grad()
    def start(self) -> None:
        """Encode, and write two words."""
        self.model.eval().make_generation_fast_()
        self.encoded, self.state, self.written = self.model.encoder(**self.inputs), {}, 0
        self.order = torch.arange(ROWS, device="meta")
        for _ in range(2):
            self.step()

    @torch.no_grad()
    def step(self) -> None:
        self.written += 1
        self.model.decoder(self.tokens[:, : self.written], encoder_out=self.encoded, incremental_state=self.state)
        self.model.decoder.reorder_incremental_state_scripting(self.state, self.order)
        self.encoded = self.model.encoder.reorder_encoder_out(self.encoded, self.order)

    def counts(self) -> list[OperatorCount]:
        """Of a forward pass, a training step and a decoding step, none of them the first."""
        count_operators(self.train, "meta")
        found = [count_operators(self.forward, "meta"), count_operators(self.train, "meta")]
        count_operators(self.start, "meta")  # what is prepared for generation trains no more
        return [*found, count_operators(self.step, "meta")]


@pytest.mark.parametrize("system", LIMITS, ids=" ".join)
def test_kernels_are_nearly_those_of_the_plain_transformer(counts: Callable[..., list], system: tuple) -> None:
    for own, plain, limit in zip(counts(*system), counts(MIX), LIMITS[system], strict=True):
        assert own.kernels.total() <= limit * plain.kernels.total()


@pytest.mark.parametrize("system", [*LIMITS, (GAD, *SPARSE)], ids=" ".join)
def test_routing_never_waits_for_the_device(counts: Callable[..., list], system: tuple) -> None:
    """What is left is what fairseq asks of every Transformer: whether there is padding."""
    for own, plain in zip(counts(*system), counts(MIX), strict=True):
        assert own.waits == plain.waits
    assert own.waits.total() == 1
