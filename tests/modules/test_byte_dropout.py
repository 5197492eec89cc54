from __future__ import annotations

import pytest
import torch

from fairseq_ext.modules.byte_dropout import byte_dropout, random_bytes


@pytest.mark.parametrize("p", [0.1, 0.3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_share_is_dropped_and_the_mean_stays(p: float, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    dropped = byte_dropout(torch.ones(400, 500, dtype=dtype), p)
    assert dropped.dtype == dtype
    rounded = round(256 * p) / 256
    assert float(dropped.eq(0).double().mean()) == pytest.approx(rounded, abs=0.005)
    assert float(dropped.double().mean()) == pytest.approx(1, abs=0.01)
    assert dropped.unique().tolist() == [0, torch.tensor(1 / (1 - rounded)).to(dtype).item()]


def test_gradients_pass_where_numbers_do() -> None:
    x = torch.randn(30, 7, requires_grad=True)
    out = byte_dropout(x, 0.5)
    out.backward(torch.ones_like(out))
    assert x.grad is not None
    assert torch.equal(x.grad, out.ne(0) * 2.0)
    assert 0 < int(x.grad.count_nonzero()) < x.numel()


@pytest.mark.parametrize("p", [1e-6, 1 - 1e-6])
def test_a_rounded_probability_neither_keeps_nor_drops_all(p: float) -> None:
    torch.manual_seed(1)
    kept = byte_dropout(torch.ones(100_000), p).ne(0)
    assert 0 < int(kept.sum()) < len(kept)


def test_bytes_are_even_and_follow_the_seed() -> None:
    torch.manual_seed(3)
    first = random_bytes(100_003)
    counts = first.long().bincount(minlength=256)
    assert len(first) == 100_003
    assert counts.min() > 250 < 500 > counts.max()  # 391 on average
    torch.manual_seed(3)
    assert torch.equal(random_bytes(100_003), first)
