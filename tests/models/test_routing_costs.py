"""What dense gates ask of an accelerator beside the plain Transformer: kernels, and no waiting for their results.

Given and sparse weights wait once for the counts of positions, see ``modules/chosen_adapters.py``.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks.shared.operators import OperatorCount, count_operators
from tests import toy

MIX, GAD = (f"transformer{kind}_small" for kind in ("", "_gated_adapter"))
ROWS, LENGTH = 64, 12
# Kernels in proportion to MIX's, at most: of a forward pass, a training step, a decoding step.
LIMITS = {GAD: (1.5, 1.1, 1.3)}
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[OperatorCount]]:
    data = toy.make_data(tmp_path_factory.mktemp("data"), [f"d{n}" for n in range(7)], (1,) * 7)
    return cache(lambda *words: counts_of(toy.make_model(*toy.make_task(data, *words[1:], arch=words[0]))))


def counts_of(model: Any) -> list[OperatorCount]:
    """Of a forward pass, a training step and a decoding step, none of them the first, for rows of seven domains."""
    model.to("meta")
    tokens = torch.zeros(ROWS, LENGTH, dtype=torch.long, device="meta")
    inputs: dict[str, Tensor] = {"src_tokens": tokens, "src_lengths": tokens.ne(1).sum(1)}
    if hasattr(model, "banks"):
        inputs["domain_ids"] = torch.arange(ROWS, device="meta")
    state: dict[str, Any] = {}
    encoded: list[dict] = []

    @torch.no_grad()
    def forward() -> None:
        model.eval()(**inputs, prev_output_tokens=tokens)

    def train() -> None:
        model.train()(**inputs, prev_output_tokens=tokens)[0].sum().backward()

    @torch.no_grad()
    def start() -> None:
        model.eval().make_generation_fast_()  # and it trains no more
        encoded.append(model.encoder(**inputs))
        step()
        step()

    @torch.no_grad()
    def step() -> None:
        model.decoder(tokens[:, : len(encoded)], encoder_out=encoded[-1], incremental_state=state)
        order = torch.arange(ROWS, device="meta")
        model.decoder.reorder_incremental_state_scripting(state, order)
        encoded.append(model.encoder.reorder_encoder_out(encoded[-1], order))

    count_operators(train, "meta")
    found = [count_operators(forward, "meta"), count_operators(train, "meta")]
    count_operators(start, "meta")
    return [*found, count_operators(step, "meta")]


@pytest.mark.parametrize("arch", LIMITS)
def test_kernels_are_nearly_those_of_the_plain_transformer(counts: Callable[..., list], arch: str) -> None:
    for own, plain, limit in zip(counts(arch), counts(MIX), LIMITS[arch], strict=True):
        assert own.kernels.total() <= limit * plain.kernels.total()


def test_routing_never_waits_for_the_device(counts: Callable[..., list]) -> None:
    """What is left is what fairseq asks of every Transformer: whether there is padding."""
    for own, plain in zip(counts(GAD), counts(MIX), strict=True):
        assert own.waits == plain.waits
    assert own.waits.total() == 1
