"""A domain's adapters become layers, and the model stays what it was."""

from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_ext.base.errors import InputError
from fairseq_ext.convert.checkpoints import unfold
from fairseq_ext.convert.fairseq_model import Imported
from tests import toy
from tests.verbs import verb

AD = "transformer_domain_adapter_tiny"
PRE_NORM = ["--encoder-normalize-before", "--decoder-normalize-before", "--bottleneck-dim", "12"]
LORA = ["--adapter-form", "lora", "--lora-modules", "q,k,v,out,fc1,fc2", "--lora-alpha", "3"]


@pytest.mark.slow
@pytest.mark.parametrize(("options", "layers"), [(PRE_NORM, 4), (LORA, 2)], ids=["pre-norm", "LoRA, post-norm"])
def test_a_plain_transformer_translates_as_a_domain(data: Path, tmp_path: Path, options: list, layers: int) -> None:
    task, args = toy.make_task(data, *options, arch=AD)
    adapted = toy.make_model(task, args)
    toy.randomise_adapters(adapted)
    source = toy.write_checkpoint(tmp_path / "ad.pt", args, adapted)
    verb("export-domain")([str(source), "med", str(tmp_path / "med")])
    saved = torch.load(tmp_path / "med/model.pt", weights_only=True)
    assert saved["cfg"]["model"].arch == "transformer"
    assert saved["cfg"]["model"].encoder_layers == layers
    tokens = {"src_tokens": torch.tensor([[5, 6, 7, 2], [1, 1, 8, 2]]), "src_lengths": torch.tensor([4, 2])}
    tokens["prev_output_tokens"] = torch.tensor([[2, 8, 9], [2, 7, 1]])
    plain = toy.make_model(task, saved["cfg"]["model"])
    plain.load_state_dict(saved["model"])
    with torch.no_grad():
        expected = adapted(**tokens, domain_ids=torch.tensor([1, 1]))[0]
        other = adapted(**tokens, domain_ids=torch.tensor([0, 0]))[0]
        torch.testing.assert_close(plain(**tokens)[0], expected, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(expected, other, atol=1e-2)


@pytest.mark.parametrize(
    ("changes", "domain", "match"),
    [
        ({"encoder_normalize_before": False}, "med", "its encoder is post-norm"),
        ({}, "news", "has no adapter news; it has law, med"),
        ({"activation_fn": "gelu"}, "med", "the activation gelu"),
        ({"decoder_ffn_embed_dim": 11}, "med", "bottleneck_dim is 12, more than decoder_ffn_embed_dim"),
    ],
)
def test_adapters_that_cannot_become_layers_are_refused(changes: dict[str, Any], domain: str, match: str) -> None:
    layout: dict[str, Any] = {"activation_fn": "relu"}
    for side in ("encoder", "decoder"):
        layout |= {f"{side}_normalize_before": True, f"{side}_ffn_embed_dim": 12}
    model = Imported(AD, {**layout, **changes}, {}, ("law", "med"), {"bottleneck_dim": 12})
    with pytest.raises(InputError, match=match):
        unfold(model, domain)
