from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from omegaconf import OmegaConf
from torch import Tensor

from fairseq_ext.models.adapter_transformer import NO_ADAPTER
from tests import toy


def made(data: Path, *options: str, **given: Any) -> tuple[Any, Any, dict[str, Tensor]]:
    """The task, a model whose adapters have been somewhere, and an input."""
    task, args = toy.make_task(data, *options, **given)
    model = toy.make_model(task, args)
    toy.randomise_adapters(model)
    return task, model, toy.first_batch(task)["net_input"]


@pytest.mark.parametrize("inputs", ["states", "source", "states,source", "states,source,encoder"])
def test_gate_weights_of_each_input_alone(data: Path, inputs: str) -> None:
    """Each is a distribution; and an input that says nothing leaves the other with what is used."""
    _, model, net_input = made(data, "--gate-inputs", inputs, "--gate-pairs", "16")
    weights = model.gate_weights(net_input, net_input["prev_output_tokens"])
    parts = {"source"} if "source" in inputs else set()
    parts |= {"encoder_states", "decoder_states"} if "states," in inputs else set()
    assert weights.keys() == {"encoder", "decoder", "tokens"} | parts
    assert all(torch.allclose(weights[part].sum(-1), torch.ones(())) for part in parts)
    if inputs == "states,source":
        gate = model.encoder.source_gate(net_input["src_tokens"]).squeeze(0).unsqueeze(1)  # B×1×D
        of_states = weights["encoder"].log() * model.gates[0].temperature - gate  # logits, up to a constant
        torch.testing.assert_close(weights["encoder_states"], model.gates[0].weights(of_states))
        model.encoder.source_gate.weight.data.zero_()
        silent = model.gate_weights(net_input, net_input["prev_output_tokens"])
        torch.testing.assert_close(silent["source"], torch.full_like(silent["source"], 1 / 3))
        for side in ("encoder", "decoder"):
            torch.testing.assert_close(silent[f"{side}_states"], silent[side])


def test_a_row_may_be_forced_to_one_adapter_or_none(data: Path) -> None:
    """Beside a row that the gates route: as plain adapters, and exactly as the base."""
    _, model, inputs = made(data)
    plain = toy.make_model(*toy.make_task(data, arch="transformer_domain_adapter_tiny"))
    plain.load_state_dict({k: v for k, v in model.state_dict().items() if ".router." not in k})
    base = toy.make_model(*toy.make_task(data, arch="transformer_tiny"))
    base.requires_grad_(False)  # torch multiplies what is frozen in another way
    base.load_state_dict({k: v for k, v in model.state_dict().items() if k in base.state_dict()})
    bare = {name: value[:3] for name, value in inputs.items() if name != "domain_ids"}
    ids = torch.tensor([2, NO_ADAPTER, 1])
    found = model(**bare, domain_ids=ids, is_forced=torch.tensor([True, True, False]))[0]
    assert torch.equal(found[1], base(**bare)[0][1])
    torch.testing.assert_close(found[0], plain(**bare, domain_ids=ids)[0][0])
    torch.testing.assert_close(found[2], model(**inputs)[0][2])  # what is only known forces nothing
    assert torch.equal(plain(**bare, domain_ids=ids)[0][1], base(**bare)[0][1])


@pytest.mark.parametrize(("gates", "trained_rows"), [("med", [1]), ("all", [0, 1, 2])])
def test_only_the_gates_that_are_named_train(data: Path, gates: str, trained_rows: list[int]) -> None:
    task, model, inputs = made(data, "--train-gates", gates)
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    assert all(name.endswith("adapter.router.weight") for name in trained)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    options = OmegaConf.structured(FairseqAdamConfig(lr=[0.1], weight_decay=0.1, tpu=False))
    optimizer = FairseqAdam(options, list(trained.values()))
    optimizer.backward(model.train()(**inputs)[0].square().sum())
    task.optimizer_step(optimizer, model, 1)
    for name, value in model.state_dict().items():
        rows = [row for row in range(len(value)) if not torch.equal(value[row], before[name][row])]
        assert rows == (trained_rows if name.endswith("router.weight") else []), name


def test_guarded_adapters_are_stored_in_checkpoints(data: Path) -> None:
    task, args = toy.make_task(data)
    first, second = (toy.make_model(task, args, seed=seed) for seed in (1, 2))
    first.guard(["med"])
    second.load_state_dict(dict(first.state_dict()), strict=True)
    assert [gate.guarded for gate in second.gates] == [(1,)] * 4
    first.guard([])
    second.load_state_dict(dict(first.state_dict()), strict=True)
    assert second.gates[0].guarded == ()


def test_top_k_is_an_option_that_checkpoints_do_not_fix(data: Path) -> None:
    _, dense, inputs = made(data)
    sparse = toy.make_model(*toy.make_task(data, "--gate-top-k", "1"))
    sparse.load_state_dict(dict(dense.state_dict()), strict=True)
    weights = sparse.gate_weights(inputs, inputs["prev_output_tokens"])
    assert weights["encoder"].eq(1).sum(-1).eq(1).all()
