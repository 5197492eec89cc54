"""Text among tensors, such as the names of adapters."""

import pytest
import torch
from torch import Tensor

from fairseq_ext.base.errors import InputError
from fairseq_ext.modules.adapter_names import read_names
from fairseq_ext.modules.text_entry import read_text, text_entry

TEXT = '["root", "söhne", "law", "🙂"]'


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_stored_text_survives_averaging_of_checkpoints(dtype: torch.dtype) -> None:
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
