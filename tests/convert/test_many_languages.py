"""Adapters on many-language models: the tokens of the languages are where fairseq's own tasks put them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_ext.convert.checkpoints import import_checkpoint
from tests import toy
from tests.convert import others

FAMILIES = {"mbart": others.MBART, "mbart50": others.MBART50, "m2m": others.M2M}


@pytest.fixture(scope="module")
def pretrained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return others.pretrained_data(data, tmp_path_factory.mktemp("pretrained") / "data-bin")


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest, pretrained: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A family's name, its own task and model, and the folder of the imported checkpoint."""
    task, args, model = others.make(pretrained, FAMILIES[request.param])
    folder = tmp_path_factory.mktemp(request.param)
    import_checkpoint(others.write_old(folder / "old.pt", args, model), folder)
    return request.param, task, model, folder


def batch_of(task: Any, split: str) -> dict[str, Any]:
    """A split of one domain as one batch."""
    if split not in task.datasets:
        task.load_dataset(split)
    dataset = task.datasets[split]
    batch = dataset.collater([dataset[n] for n in range(len(dataset))])
    return batch if "net_input" in batch else batch["main:en-pl"]


def test_batches_are_fairseqs_own_and_fresh_adapters_change_nothing(pretrained: Path, family: Any) -> None:
    name, own_task, own_model, folder = family
    told = (folder / "options.txt").read_text().split()
    assert told == ["--language-tokens", name, "--langs", "de,en,pl"]
    start = str(folder / "model.pt")
    task, args = toy.make_task(pretrained, "--finetune-from-model", start, *told, arch="transformer_gated_adapter")
    model = toy.make_model(task, args)
    model.load_state_dict(torch.load(start, weights_only=True)["model"], strict=True, model_cfg=args)
    batch, own = batch_of(task, "test:law"), batch_of(own_task, "test")
    order, own_order = batch["id"].argsort(), own["id"].argsort()
    for entry in ("src_tokens", "src_lengths", "prev_output_tokens"):
        assert torch.equal(batch["net_input"][entry][order], own["net_input"][entry][own_order]), entry
    assert torch.equal(batch["target"][order], own["target"][own_order])
    with torch.no_grad():
        logits = model(**batch["net_input"])[0][order]
        expected = own_model(**own["net_input"])[0][own_order]
    is_token = batch["target"][order].ne(1)
    torch.testing.assert_close(logits[is_token], expected[is_token], atol=1e-6, rtol=1e-6)
