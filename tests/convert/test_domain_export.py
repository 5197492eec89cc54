"""A domain's adapters become layers, and the model stays what it was."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fairseq_ext.convert.checkpoints import export_domain
from fairseq_ext.inputs.errors import InputError
from tests import toy
from tests.verbs import verb

AD = "transformer_domain_adapter_tiny"
PRE_NORM = ["--encoder-normalize-before", "--decoder-normalize-before", "--bottleneck-dim", "12"]
LORA = ["--adapter-form", "lora", "--lora-modules", "q,k,v,out,fc1,fc2", "--lora-alpha", "3"]


def write_ad(data: Path, folder: Path, *options: str) -> Path:
    task, args = toy.make_task(data, *options, arch=AD)
    model = toy.make_model(task, args)
    toy.randomise_adapters(model)
    return toy.write_checkpoint(folder / "ad.pt", args, model)


@pytest.mark.slow
@pytest.mark.parametrize(("options", "layers"), [(PRE_NORM, 4), (LORA, 2)], ids=["pre-norm", "LoRA, post-norm"])
def test_a_plain_transformer_translates_as_one_domains_adapters(
    data: Path, tmp_path: Path, options: list[str], layers: int
) -> None:
    source = write_ad(data, tmp_path, *options)
    verb("export-domain")([str(source), "med", str(tmp_path / "med")])
    saved = torch.load(tmp_path / "med/model.pt", weights_only=True)
    assert saved["cfg"]["model"].arch == "transformer"
    assert saved["cfg"]["model"].encoder_layers == layers
    tokens = {"src_tokens": torch.tensor([[5, 6, 7, 2], [1, 1, 8, 2]]), "src_lengths": torch.tensor([4, 2])}
    tokens["prev_output_tokens"] = torch.tensor([[2, 8, 9], [2, 7, 1]])
    task, args = toy.make_task(data, *options, arch=AD)
    adapted, plain = toy.make_model(task, args), toy.make_model(task, saved["cfg"]["model"])
    adapted.load_state_dict(torch.load(source, weights_only=True)["model"])
    plain.load_state_dict(saved["model"])
    with torch.no_grad():
        expected = adapted(**tokens, domain_ids=torch.tensor([1, 1]))[0]
        other = adapted(**tokens, domain_ids=torch.tensor([0, 0]))[0]
        torch.testing.assert_close(plain(**tokens)[0], expected, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(expected, other, atol=1e-2)


@pytest.mark.parametrize(
    ("options", "domain", "match"),
    [
        ([], "med", "its encoder is post-norm"),
        (PRE_NORM, "news", "has no adapter news; it has law, med, sub"),
        ([*PRE_NORM, "--activation-fn", "gelu"], "med", "have the activation gelu"),
        ([*PRE_NORM[:2], "--bottleneck-dim", "70"], "med", "70 wide inside, its encoder's layers 64"),
    ],
)
def test_what_cannot_be_layers_is_told_in_a_line(
    data: Path, tmp_path: Path, options: list[str], domain: str, match: str
) -> None:
    with pytest.raises(InputError, match=rf"ad\.pt: .*{match}"):
        export_domain(write_ad(data, tmp_path, *options), domain, tmp_path)
    assert not (tmp_path / "model.pt").exists()
