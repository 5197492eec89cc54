"""The SSRU against its formula, at once and step by step."""

import torch

from fairseq_ext.modules.ssru import SSRU


def by_formula(cell: SSRU, x: torch.Tensor) -> torch.Tensor:
    """One sentence T×H, position by position."""
    weights = {name: weight.double() for name, weight in cell.named_parameters()}
    state, outputs = torch.zeros(x.shape[1], dtype=torch.float64), []
    for vector in x.double():
        forget = torch.sigmoid(weights["forget.weight"] @ vector + weights["forget.bias"])
        state = forget * state + (1 - forget) * (weights["candidate.weight"] @ vector)
        outputs.append(state.clamp(min=0))
    return torch.stack(outputs).float()


def test_it_computes_its_formula_and_padding_on_either_side_changes_nothing() -> None:
    cell, x = SSRU(5), torch.randn(7, 3, 5)
    torch.nn.init.normal_(cell.forget.bias)
    mask = torch.zeros(3, 7, dtype=torch.bool)
    mask[1, :2] = mask[2, 4:] = True
    found, weights = cell(x, x, x, key_padding_mask=mask)
    assert weights is None
    for row, own in enumerate((slice(None), slice(2, None), slice(4))):
        torch.testing.assert_close(found[own, row], by_formula(cell, x[own, row]))


def test_step_by_step_equals_at_once_and_follows_the_beam() -> None:
    cell, x, state = SSRU(5), torch.randn(6, 3, 5), {}
    first = [cell(x[t : t + 1], incremental_state=state)[0] for t in range(3)]
    order = torch.tensor([2, 0, 0])
    cell.reorder_incremental_state(state, order)
    (kept,) = state.values()
    assert {name: tuple(value.shape) for name, value in kept.items()} == {"cell": (3, 5)}
    rest = x[:, order]
    torch.testing.assert_close(torch.cat(first), cell(x)[0][:3])
    torch.testing.assert_close(cell(rest[3:], incremental_state=state)[0], cell(rest)[0][3:])  # several positions


def test_half_precision_keeps_a_long_memory() -> None:
    """A forget gate of 0.999 is 1 in bfloat16, and the cell would never change."""
    cell = SSRU(1).bfloat16()
    torch.nn.init.constant_(cell.forget.weight, 0)
    torch.nn.init.constant_(cell.forget.bias, 7)
    torch.nn.init.constant_(cell.candidate.weight, 1)
    found = cell(torch.ones(500, 1, 1, dtype=torch.bfloat16))[0]
    assert found.dtype == torch.bfloat16
    assert 0.3 < found[-1].item() < 0.4  # 1 - (1 - 1/(1 + e^7))^500
