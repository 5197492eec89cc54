"""Every combination against the paper's formulas, from the same two GRUs."""

import pytest
import torch
from torch import Tensor

from fairseq_ext.modules.combinations import COMBINATIONS
from fairseq_ext.modules.domain_adapted_gru import DomainAdaptedGRU
from tests.modules.test_gru import by_hand

T, B, E, H = 5, 3, 4, 6
UNGATED = [name for name, combination in COMBINATIONS.items() if not combination.has_gates]
GATED = [name for name, combination in COMBINATIONS.items() if combination.has_gates]


def made(name: str) -> tuple[DomainAdaptedGRU, tuple[Tensor, ...]]:
    """The module, and what it reads: x, x*, and h and h* before the first step."""
    torch.manual_seed(1)
    gru = DomainAdaptedGRU(COMBINATIONS[name], E, E, H)
    if gru.context_weight is not None:
        torch.nn.init.normal_(gru.context_weight)
    return gru, (torch.randn(T, B, E), torch.randn(T, B, E), torch.randn(2, B, H))


def expected(name: str, gru: DomainAdaptedGRU, x: Tensor, general_x: Tensor, initial: Tensor) -> Tensor:
    """Eq. 7 to 12."""
    inputs = {"wvc": torch.cat([general_x, x], -1), "wvs": general_x + x, "fixed": general_x}.get(name, x)
    own = by_hand(gru.gru, inputs, initial[0])
    if gru.general_gru is None:
        return own
    general = by_hand(gru.general_gru, general_x, initial[1])
    weight = gru.context_weight
    return {
        "cvc": lambda: torch.cat([general, own], -1),
        "wcvc": lambda: torch.cat([weight * general, own], -1),
        "cvs": lambda: general + own,
        "wcvs": lambda: weight * general + own,
    }[name]()


@pytest.mark.parametrize("name", UNGATED)
def test_is_its_formula(name: str) -> None:
    gru, inputs = made(name)
    contexts, _ = gru(*inputs)
    torch.testing.assert_close(contexts, expected(name, gru, *inputs), atol=1e-6, rtol=0)
    assert contexts.shape == (T, B, gru.output_dim)


@pytest.mark.parametrize("name", COMBINATIONS)
def test_text_in_parts_is_the_same_text(name: str) -> None:
    gru, (words, general_words, initial) = made(name)
    whole, end = gru(words, general_words, initial)
    first, middle = gru(words[:2], general_words[:2], initial)
    second, last = gru(words[2:], general_words[2:], middle)
    torch.testing.assert_close(torch.cat([first, second]), whole)
    torch.testing.assert_close(last, end)
