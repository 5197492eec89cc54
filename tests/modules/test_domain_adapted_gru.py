"""Every combination without gates against the paper's formulas, from the same two GRUs."""

import pytest
import torch

from fairseq_ext.modules.combinations import COMBINATIONS
from fairseq_ext.modules.domain_adapted_gru import DomainAdaptedGRU
from tests.modules.test_gru import by_hand

T, B, E, H = 5, 3, 4, 6
UNGATED = [name for name, combination in COMBINATIONS.items() if not combination.has_gates]


@pytest.mark.parametrize("name", UNGATED)
def test_is_its_formula(name: str) -> None:
    """Eq. 7 to 12."""
    torch.manual_seed(1)
    gru = DomainAdaptedGRU(COMBINATIONS[name], E, E, H)
    weight = torch.ones(()) if gru.context_weight is None else torch.nn.init.normal_(gru.context_weight)
    x, general_x, initial = torch.randn(T, B, E), torch.randn(T, B, E), torch.randn(2, B, H)
    contexts, _ = gru(x, general_x, initial)
    inputs = {"wvc": torch.cat([general_x, x], -1), "wvs": general_x + x, "fixed": general_x}.get(name, x)
    expected = by_hand(gru.gru, inputs, initial[0])
    if gru.general_gru is not None:
        general = weight * by_hand(gru.general_gru, general_x, initial[1])
        expected = torch.cat([general, expected], -1) if name in ("cvc", "wcvc") else general + expected
    torch.testing.assert_close(contexts, expected, atol=1e-6, rtol=0)
    assert contexts.shape == (T, B, gru.output_dim)
