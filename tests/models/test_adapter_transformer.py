"""What adapters in translation promise beyond what every model does: domains, names, decoding."""

import copy
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.data import data_utils
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from omegaconf import OmegaConf

from fairseq_ext.base.errors import InputError
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
    "gated LoRA, pre-norm": (ARCHS[1], [*LORA, *PRE_NORM, "--gate-top-k", "2"]),
}


@pytest.fixture(params=SETTINGS)
def setting(request: pytest.FixtureRequest, data: Path) -> tuple[Any, Namespace]:
    arch, options = SETTINGS[request.param]
    return toy.make_task(data, *options, arch=arch)


def only(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("setting", names, indirect=True)


@pytest.fixture
def model(setting: tuple[Any, Namespace]) -> Any:
    """An adapter model in evaluation mode whose adapters have been somewhere."""
    task, args = setting
    model = toy.make_model(task, args)
    toy.randomise_adapters(model)
    return model


@only("plain", "plain LoRA")
def test_only_adapters_that_take_part_move(setting: tuple) -> None:
    """Neither weight decay nor momentum moves those of domains that a batch has not."""
    task, args = setting
    model = toy.make_model(task, args)
    options = OmegaConf.structured(FairseqAdamConfig(lr=[0.01], weight_decay=0.1, tpu=False))
    optimiser = FairseqAdam(options, [p for p in model.parameters() if p.requires_grad])
    inputs = toy.first_batch(task, "test", max_sentences=12)["net_input"]
    for rows in (slice(None), inputs["domain_ids"] > 0, inputs["domain_ids"] > 0):
        before = copy.deepcopy(model.state_dict())
        optimiser.zero_grad()
        optimiser.backward(model(**{name: value[rows] for name, value in inputs.items()})[0].square().sum())
        task.optimizer_step(optimiser, model, 1)
    for name in [name for name, _ in model.named_parameters() if ".adapter." in name]:
        moved = model.state_dict()[name].ne(before[name]).flatten(1).any(1)
        assert moved.tolist() == [False, True, True], name


def test_generated_scores_equal_forced_ones(setting: tuple, model: Any) -> None:
    task, _ = setting
    batch = toy.first_batch(task, "test", max_sentences=12)
    generator = task.build_generator([model], Namespace(beam=4, max_len_b=12))
    hypotheses = [row[0] for row in task.inference_step(generator, [model], batch)]
    dictionary = task.target_dictionary
    forced_input = data_utils.collate_tokens(
        [h["tokens"] for h in hypotheses], dictionary.pad(), dictionary.eos(), move_eos_to_beginning=True
    )
    with torch.no_grad():
        forced = model(**batch["net_input"] | {"prev_output_tokens": forced_input})[0].log_softmax(-1)
    for row, hypothesis in enumerate(hypotheses):
        tokens = hypothesis["tokens"]
        scores = forced[row, : len(tokens)].gather(1, tokens.unsqueeze(1)).squeeze(1)
        torch.testing.assert_close(scores, hypothesis["positional_scores"], atol=1e-4, rtol=0)


def with_domains(setting: tuple, domains: list[str]) -> Any:
    """A fresh model for data with these domains."""
    task, args = (copy.copy(each) for each in setting)
    task.domains, args.adapter_names = domains, None
    return toy.make_model(task, args, seed=3)


@only("plain", "plain LoRA", "gated by all inputs")
def test_adapters_follow_their_names(setting: tuple, model: Any) -> None:
    """Rows of banks and gates, when the same domains are numbered in another order."""
    batch = toy.first_batch(setting[0], "test", max_sentences=12)["net_input"]
    other = with_domains(setting, ["sub", "law", "med"])
    other.load_state_dict(copy.deepcopy(model.state_dict()), strict=True)
    renumbered = dict(batch, domain_ids=torch.tensor([1, 2, 0])[batch["domain_ids"]])
    torch.testing.assert_close(other(**renumbered)[0], model(**batch)[0])
    assert read_names(other.state_dict()[NAMES]) == ["sub", "law", "med"]
    for domains in (["law", "med", "zsub"], ["law", "med", "new", "sub"]):
        with pytest.raises(InputError, match="sub"):
            with_domains(setting, domains).load_state_dict(copy.deepcopy(model.state_dict()), strict=True)
