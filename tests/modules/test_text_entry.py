import pytest
import torch

from fairseq_ext.modules.text_entry import read_text, text_entry

TEXT = '["root", "söhne", "law", "🙂"]'


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_text_survives_an_average_of_checkpoints(dtype: torch.dtype) -> None:
    """As fairseq's scripts/average_checkpoints.py makes it: a sum in full precision, then a division."""
    saved = text_entry(TEXT).to(dtype)
    total = saved.float().clone()
    for _ in range(9):
        total += saved.float()
    assert read_text(total.div_(10)) == TEXT


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_text_survives_an_average_of_updates(dtype: torch.dtype) -> None:
    """As fairseq's --store-ema makes it, step by step."""
    saved = text_entry(TEXT).to(dtype)
    average = saved.clone()
    for _ in range(2_000):
        average.mul_(0.999).add_(saved, alpha=0.001)
    assert read_text(average) == TEXT


def test_what_is_no_text_is_refused() -> None:
    for damaged in (text_entry(TEXT) + 300, torch.ones(1) / 0, torch.tensor([195.0])):
        with pytest.raises(ValueError, match="byte|decode"):
            read_text(damaged)
