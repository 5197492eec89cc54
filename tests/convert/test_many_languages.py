"""Adapters on many-language models: the tokens of the languages are where fairseq's own tasks put them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_ext.convert.checkpoints import import_checkpoint
from tests import toy
from tests.convert import others

AD, GAD = "transformer_domain_adapter", "transformer_gated_adapter"
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


def ours(data: Path, family: Any, arch: str, *extra: str) -> tuple[Any, Any]:
    """Our task and a model with fresh adapters on the imported checkpoint."""
    start = str(family[3] / "model.pt")
    told = (family[3] / "options.txt").read_text().split()
    task, args = toy.make_task(data, "--finetune-from-model", start, *told, *extra, arch=arch)
    model = toy.make_model(task, args)
    model.load_state_dict(torch.load(start, weights_only=True)["model"], strict=True, model_cfg=args)
    return task, model


def batch_of(task: Any, split: str) -> dict[str, Any]:
    """A split of one domain as one batch."""
    if split not in task.datasets:
        task.load_dataset(split)
    dataset = task.datasets[split]
    batch = dataset.collater([dataset[n] for n in range(len(dataset))])
    return batch if "net_input" in batch else batch["main:en-pl"]


def test_the_options_of_its_language_tokens_are_told(family: Any) -> None:
    assert (family[3] / "options.txt").read_text().split() == ["--language-tokens", family[0], "--langs", "de,en,pl"]


@pytest.mark.parametrize("arch", [AD, GAD])
def test_batches_are_those_of_fairseqs_own_task_and_fresh_adapters_change_nothing(
    pretrained: Path, family: Any, arch: str
) -> None:
    task, model = ours(pretrained, family, arch)
    batch, own = batch_of(task, "test:law"), batch_of(family[1], "test")
    order, own_order = batch["id"].argsort(), own["id"].argsort()
    for name in ("src_tokens", "src_lengths", "prev_output_tokens"):
        assert torch.equal(batch["net_input"][name][order], own["net_input"][name][own_order]), name
    assert torch.equal(batch["target"][order], own["target"][own_order])
    with torch.no_grad():
        logits = model(**batch["net_input"])[0][order]
        expected = family[2](**{**own["net_input"]})[0][own_order]
    is_token = batch["target"][order].ne(1)
    torch.testing.assert_close(logits[is_token], expected[is_token], atol=1e-6, rtol=1e-6)
