"""Text among tensors: the names of adapters, the epsilon of norms."""

import pytest
import torch
from torch import Tensor, nn

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.models.bert import ENTRY, set_norm_eps, take_norm_eps
from fairseq_ext.modules.adapter_names import read_names
from fairseq_ext.modules.text_entry import read_text, text_entry

TEXT = '["root", "söhne", "law", "🙂"]'
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])


@DTYPES
def test_a_text_survives_averages(dtype: torch.dtype) -> None:
    """Of checkpoints, by fairseq's script, and of updates, step by step, by --store-ema."""
    saved = text_entry(TEXT).to(dtype)
    assert read_text(sum(saved.float() for _ in range(10)) / 10) == TEXT
    average = saved.clone()
    for _ in range(2_000):
        average.mul_(0.999).add_(saved, alpha=0.001)
    assert read_text(average) == TEXT
    assert read_text(text_entry(TEXT) - 1e-3) == TEXT  # as rounding leaves it


@pytest.mark.parametrize("damaged", [text_entry(TEXT) + 300, torch.ones(1) / 0, torch.tensor([195.0])])
def test_damaged_names_are_refused(damaged: Tensor) -> None:
    with pytest.raises(InputError, match="adapter_names"):
        read_names(damaged)


@DTYPES
def test_the_epsilon_of_norms_goes_with_the_weights(dtype: torch.dtype) -> None:
    one, other = (nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)) for _ in range(2))
    set_norm_eps(one, 1e-12)
    take_norm_eps(other, {f"encoder.{name}": value.to(dtype) for name, value in one.state_dict().items()}, "encoder.")
    assert other[1].eps == 1e-12
    assert torch.equal(other.get_buffer(ENTRY), one.get_buffer(ENTRY))
