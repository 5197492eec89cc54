"""Adapter files and a checkpoint that earlier versions wrote give the numbers that these versions computed.

``bottleneck.safetensors`` and ``gated.pt`` are of commit e427110, which knew no LoRA; ``lora.safetensors`` is of
f4823ba.
"""

import json
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils

from fairseq_ext.adapters.files import attach_adapters
from tests import toy

RECORDED = Path(__file__).resolve().parents[1] / "recorded" / "adapters"
SIZES = {"layers": "1", "embed-dim": "8", "ffn-embed-dim": "8", "attention-heads": "2"}


@pytest.fixture
def base(data: Path, tmp_path: Path) -> Path:
    """What the adapters were trained on, of weights that every machine makes alike."""
    sizes = [(f"--{side}-{name}", size) for side in ("encoder", "decoder") for name, size in SIZES.items()]
    task, args = toy.make_task(data, *sum(sizes, ()), arch="transformer_tiny")
    args.source_lang, args.target_lang = "en", "pl"
    model = toy.make_model(task, args)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            values = ((torch.arange(parameter.numel()) * 37 + zlib.crc32(name.encode())) % 101 - 50) / 128
            parameter.copy_(values.view_as(parameter) + name.endswith("norm.weight"))
        for side in (model.encoder, model.decoder):
            side.embed_tokens.weight[side.padding_idx] = 0
    return toy.write_checkpoint(tmp_path / "base.pt", args, model)


def logits(checkpoint: Path, data: Path) -> torch.Tensor:
    """Of the second word of three sentences, one of each domain, those of eight symbols."""
    models, _, _ = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], {"data": str(data)})
    tokens = torch.tensor([[5, 6, 7, 2], [9, 8, 2, 1], [10, 2, 1, 1]])
    inputs: dict[str, Any] = {"src_tokens": tokens, "src_lengths": tokens.ne(1).sum(1)}
    inputs |= {"prev_output_tokens": torch.tensor([[2, 5, 6], [2, 8, 9], [2, 7, 1]])}
    with torch.no_grad():
        found: torch.Tensor = models[0].eval()(**inputs, domain_ids=torch.tensor([0, 1, 2]))[0][:, 1, 4:12]
    return found


def recorded(name: str) -> torch.Tensor:
    return torch.tensor(json.loads((RECORDED / "logits.json").read_text())[name])


@pytest.mark.parametrize("name", ["bottleneck", "lora"])
def test_an_adapter_file_of_an_earlier_version_gives_its_numbers(
    base: Path, data: Path, tmp_path: Path, name: str
) -> None:
    attach_adapters(base, [RECORDED / f"{name}.safetensors"], tmp_path / "adapted.pt")
    torch.testing.assert_close(logits(tmp_path / "adapted.pt", data), recorded(name), atol=2e-5, rtol=0)


def test_a_checkpoint_of_an_earlier_version_gives_its_numbers(data: Path) -> None:
    torch.testing.assert_close(logits(RECORDED / "gated.pt", data), recorded("bottleneck"), atol=2e-5, rtol=0)
