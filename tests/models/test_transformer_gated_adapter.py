from pathlib import Path

import pytest
import torch
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from omegaconf import OmegaConf

from fairseq_ext.models.adapter_transformer import NO_ADAPTER
from tests import toy


def test_shared_gates_are_one_weight_a_side(data: Path) -> None:
    task, args = toy.make_task(data, "--share-gates")
    model = toy.make_model(task, args)
    gates = {id(p) for name, p in model.named_parameters(remove_duplicate=False) if ".router." in name}
    assert len(gates) == 2
    toy.randomise_adapters(model)
    batch = toy.first_batch(task)["net_input"]
    _, extra = model(**batch)
    first, second = extra["gate_logits"]["decoder"]
    assert not torch.allclose(first, second)  # each layer still averages its own hidden states


@pytest.mark.parametrize("inputs", ["states", "source", "states,source", "states,source,encoder"])
def test_what_each_input_would_decide_alone(data: Path, inputs: str) -> None:
    """Each is a distribution; and an input that says nothing leaves the other with what is used."""
    task, args = toy.make_task(data, "--gate-inputs", inputs, "--gate-pairs", "16")
    model = toy.make_model(task, args).eval()
    toy.randomise_adapters(model)
    net_input = toy.first_batch(task)["net_input"]
    weights = model.gate_weights(net_input, net_input["prev_output_tokens"])
    has_states, has_more = "states" in inputs, inputs != "states"
    parts = {"source"} if "source" in inputs else set()
    parts |= {"encoder_states", "decoder_states"} if has_states and has_more else set()
    assert weights.keys() == {"encoder", "decoder", "tokens"} | parts
    assert all(torch.allclose(weights[part].sum(-1), torch.ones(())) for part in parts)
    if inputs == "source":
        torch.testing.assert_close(weights["encoder"], weights["source"].expand_as(weights["encoder"]))
    if inputs == "states,source":
        model.encoder.source_gate.weight.data.zero_()
        silent = model.gate_weights(net_input, net_input["prev_output_tokens"])
        torch.testing.assert_close(silent["source"], torch.full_like(silent["source"], 1 / 3))
        for side in ("encoder", "decoder"):
            torch.testing.assert_close(silent[f"{side}_states"], silent[side])


def test_a_row_may_be_forced_to_one_adapter_or_none(data: Path) -> None:
    """Beside a row that the gates route: as plain adapters, and exactly as the base."""
    task, args = toy.make_task(data)
    model = toy.make_model(task, args)
    toy.randomise_adapters(model)
    plain_task, plain_args = toy.make_task(data, arch="transformer_domain_adapter_tiny")
    plain = toy.make_model(plain_task, plain_args)
    plain.load_state_dict({k: v for k, v in model.state_dict().items() if ".router." not in k})
    base_task, base_args = toy.make_task(data, arch="transformer_tiny")
    base = toy.make_model(base_task, base_args).requires_grad_(False)  # torch multiplies what is frozen in another way
    base.load_state_dict({k: v for k, v in model.state_dict().items() if k in base.state_dict()})
    known = {k: v[:3] for k, v in toy.first_batch(task)["net_input"].items()}
    bare = {k: v for k, v in known.items() if k != "domain_ids"}
    ids = torch.tensor([2, NO_ADAPTER, 1])
    found = model(**bare, domain_ids=ids, is_forced=torch.tensor([True, True, False]))[0]
    assert torch.equal(found[1], base(**bare)[0][1])
    torch.testing.assert_close(found[0], plain(**bare, domain_ids=ids)[0][0])
    torch.testing.assert_close(found[2], model(**bare)[0][2])
    assert torch.equal(model(**known)[0], model(**bare)[0])  # what is only known forces nothing
    assert torch.equal(plain(**bare, domain_ids=ids)[0][1], base(**bare)[0][1])


def test_only_the_gates_that_are_named_train(data: Path) -> None:
    task, args = toy.make_task(data, "--train-gates", "med")
    model = toy.make_model(task, args, train=True)
    toy.randomise_adapters(model)
    assert model.trained_gate_rows == [1]
    assert {name.rpartition("adapter.")[2] for name, p in model.named_parameters() if p.requires_grad} == {
        "router.weight"
    }
    before = {name: value.clone() for name, value in model.state_dict().items()}
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = FairseqAdam(OmegaConf.structured(FairseqAdamConfig(lr=[0.1], weight_decay=0.1, tpu=False)), parameters)
    optimizer.backward(model(**toy.first_batch(task)["net_input"])[0].square().sum())
    task.optimizer_step(optimizer, model, 1)
    for name, value in model.state_dict().items():
        rows = [row for row in range(len(value)) if not torch.equal(value[row], before[name][row])]
        assert rows == ([1] if name.endswith("router.weight") else []), name


def test_the_guard_of_a_checkpoint_is_taken_over(data: Path) -> None:
    task, args = toy.make_task(data)
    first, second = (toy.make_model(task, args, seed=seed) for seed in (1, 2))
    first.guard(["med"])
    second.load_state_dict(dict(first.state_dict()), strict=True)
    assert [gate.guarded for gate in second.gates] == [(1,)] * 4
    first.guard([])
    second.load_state_dict(dict(first.state_dict()), strict=True)
    assert second.state_dict().keys() == first.state_dict().keys()
    assert second.gates[0].guarded == ()


def test_gates_are_as_sparse_as_is_asked_whatever_the_checkpoint(data: Path) -> None:
    task, args = toy.make_task(data)
    dense, sparse = toy.make_model(task, args), toy.make_model(*toy.make_task(data, "--gate-top-k", "1"))
    toy.randomise_adapters(dense)
    sparse.load_state_dict(dict(dense.state_dict()), strict=True)
    inputs = toy.first_batch(task)["net_input"]
    weights = sparse.gate_weights(inputs, inputs["prev_output_tokens"])
    assert weights["encoder"].eq(1).sum(-1).eq(1).all()
