"""What adapters in translation promise beyond what every model does: domains, names, decoding."""

from __future__ import annotations

import copy
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.data import data_utils
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from omegaconf import OmegaConf
from torch import Tensor

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.modules.adapter_names import NAMES, read_names
from tests import toy

ARCHS = ["transformer_domain_adapter_tiny", "transformer_gated_adapter_tiny"]
PRE_NORM = ["--encoder-normalize-before", "--decoder-normalize-before"]
# Of a small alpha: adapters far from their start then leave attention some entropy.
LORA = ["--adapter-form", "lora", "--lora-modules", "q,k,v,out,fc1,fc2", "--lora-alpha", "2"]
SETTINGS = {
    "plain": (ARCHS[0], []),
    "plain, pre-norm": (ARCHS[0], PRE_NORM),
    "plain LoRA": (ARCHS[0], LORA),
    "gated": (ARCHS[1], []),
    "gated by all inputs": (ARCHS[1], ["--gate-inputs", "states,source,encoder", "--gate-pairs", "64"]),
    "gated LoRA, pre-norm": (ARCHS[1], [*LORA, *PRE_NORM]),
}


@pytest.fixture(scope="module", params=SETTINGS.values(), ids=SETTINGS)
def setting(request: pytest.FixtureRequest, data: Path) -> tuple[Any, Namespace]:
    arch, options = request.param
    return toy.make_task(data, *options, arch=arch)


@pytest.fixture
def model(setting: tuple[Any, Namespace]) -> Any:
    """An adapter model in evaluation mode whose adapters have been somewhere."""
    task, args = setting
    model = toy.make_model(task, args)
    toy.randomise_adapters(model)
    return model


def batch_of(task: Any) -> dict:
    task.load_dataset("test")
    return toy.first_batch(task, "test", max_sentences=12)


def log_probs(model: Any, net_input: dict) -> Tensor:
    with torch.no_grad():
        return model.get_normalized_probs(model(**net_input), log_probs=True)


def test_only_adapters_that_take_part_move(setting: tuple) -> None:
    """Neither weight decay nor momentum moves those of domains that a batch has not; gates give every one a part."""
    task, args = setting
    model = toy.make_model(task, args, train=True)
    criterion = LabelSmoothedCrossEntropyCriterion(task, False, 0.1)
    optimiser = FairseqAdam(
        OmegaConf.structured(FairseqAdamConfig(lr=[0.01], weight_decay=0.1, tpu=False)),
        [p for p in model.parameters() if p.requires_grad],
    )
    task.load_dataset("train")
    dataset = task.datasets["train"]
    of_each = {dataset[i]["domain_id"]: dataset[i] for i in range(len(dataset))}

    def update(domains: list[int]) -> None:
        optimiser.zero_grad()
        task.train_step(dataset.collater([of_each[d] for d in domains]), model, criterion, optimiser, 1)
        task.optimizer_step(optimiser, model, 1)

    update([0, 1, 2])
    before = copy.deepcopy(model.state_dict())
    update([1, 2])
    after = model.state_dict()
    expected = [True, True, True] if "gated" in args.arch else [False, True, True]
    for name in [name for name, _ in model.named_parameters() if ".adapter." in name]:
        assert [not torch.equal(after[name][row], before[name][row]) for row in range(3)] == expected, name


def test_generated_scores_equal_forced_ones(setting: tuple, model: Any) -> None:
    task, _ = setting
    batch = batch_of(task)
    generator = task.build_generator([model], Namespace(beam=4, max_len_b=12))
    hypotheses = [row[0] for row in task.inference_step(generator, [model], batch)]
    dictionary = task.target_dictionary
    forced_input = data_utils.collate_tokens(
        [h["tokens"] for h in hypotheses], dictionary.pad(), dictionary.eos(), move_eos_to_beginning=True
    )
    forced = log_probs(model, batch["net_input"] | {"prev_output_tokens": forced_input})
    for row, hypothesis in enumerate(hypotheses):
        tokens = hypothesis["tokens"]
        scores = forced[row, : len(tokens)].gather(1, tokens.unsqueeze(1)).squeeze(1)
        torch.testing.assert_close(scores, hypothesis["positional_scores"], atol=1e-4, rtol=0)


def with_domains(setting: tuple, domains: list[str]) -> Any:
    """A fresh model for data with these domains."""
    task, args = setting
    other = copy.copy(task)
    other.domains = domains
    options = {key: value for key, value in vars(args).items() if key != "adapter_names"}
    return toy.make_model(other, Namespace(**options), seed=3)


def test_adapters_follow_their_names(setting: tuple, model: Any) -> None:
    """Rows of banks and gates, when the same domains are numbered in another order."""
    batch = batch_of(setting[0])["net_input"]
    other = with_domains(setting, ["sub", "law", "med"])
    other.load_state_dict(copy.deepcopy(model.state_dict()), strict=True)
    renumbered = dict(batch, domain_ids=torch.tensor([1, 2, 0])[batch["domain_ids"]])
    torch.testing.assert_close(other(**renumbered)[0], model(**batch)[0])
    assert read_names(other.state_dict()[NAMES]) == ["sub", "law", "med"]
    for domains in (["law", "med", "zsub"], ["law", "med", "new", "sub"]):
        with pytest.raises(InputError, match="sub"):
            with_domains(setting, domains).load_state_dict(copy.deepcopy(model.state_dict()), strict=True)


def test_a_checkpoint_of_an_earlier_version_says_what_was_not_compared(
    setting: tuple, model: Any, capsys: pytest.CaptureFixture
) -> None:
    """Unless its options have told the names, as where it is translated with."""
    earlier = {key: value for key, value in model.state_dict().items() if key != NAMES}
    told = toy.make_model(*setting)
    told.load_state_dict(dict(earlier), strict=True)
    assert capsys.readouterr().err == ""
    with_domains(setting, setting[0].domains).load_state_dict(dict(earlier), strict=True)
    assert capsys.readouterr().err.endswith(" law, med, sub\n")
