from argparse import Namespace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.dataclass.configs import FairseqConfig
from fairseq.optim import OPTIMIZER_REGISTRY, FP16Optimizer, MemoryEfficientFP16Optimizer
from fairseq.optim.adam import FairseqAdamConfig
from omegaconf import OmegaConf
from torch import nn

from fairseq_ext.base.errors import InputError
from fairseq_ext.modules.adapter_bank import AdapterBank
from fairseq_ext.modules.node_bank import NodeBank
from fairseq_ext.tasks.idle_rows import only_active_change

H, N = 6, 4
NAMES = ["adam", pytest.param("sgd", marks=pytest.mark.slow), "adafactor"]  # torch imports its compiler for SGD
SHARED = {"lr": [0.1], "weight_decay": 0.1, "momentum": 0.9}
OPTIONS: dict[str, Any] = {
    "adam": OmegaConf.structured(FairseqAdamConfig(weight_decay=0.1, lr=[0.1], tpu=False)),
    "sgd": Namespace(**SHARED),
    "adafactor": Namespace(
        **SHARED, adafactor_eps="(1e-30, 1e-3)", clip_threshold=1.0, decay_rate=-0.8, beta1=0.9,
        scale_parameter=False, relative_step=False, warmup_init=False,
    ),
}  # fmt: skip


def make_bank(kind: str) -> AdapterBank:
    """Rows of stacked parameters, or the nodes of a tree."""
    torch.manual_seed(1)
    bank = AdapterBank(H, 3, N, shared_norm=True) if kind == "rows" else NodeBank(H, 3, N)
    for parameter in bank.parameters():
        nn.init.normal_(parameter)
    return bank


def make_optimizer(bank: AdapterBank, name: str = "adam") -> Any:
    return OPTIMIZER_REGISTRY[name](OPTIONS[name], list(bank.parameters()))


def half_optimizer(bank: AdapterBank, option: str) -> Any:
    cfg = OmegaConf.structured(FairseqConfig())
    OmegaConf.set_struct(cfg, False)
    cfg.optimizer = {**OPTIONS["adam"], "_name": "adam"}
    cfg.common.fp16_init_scale, cfg.common.fp16_no_flatten_grads = 1, option != "--fp16"
    kind = MemoryEfficientFP16Optimizer if option == "--memory-efficient-fp16" else FP16Optimizer
    return kind.build_optimizer(cfg, list(bank.parameters()))


def step(bank: AdapterBank, optimizer: Any, active: list[int], seed: int = 1, max_norm: float = 0.0) -> None:
    torch.manual_seed(seed)
    optimizer.zero_grad()
    weights = torch.full((len(active),), 1 / len(active)) if len(active) > 1 else torch.ones(1)
    x = torch.randn(5, 2, H).to(bank.up_bias.dtype)
    optimizer.backward(bank(x, weights, active=active).float().square().sum())
    optimizer.clip_grad_norm(max_norm)
    with only_active_change(optimizer, SimpleNamespace(banks=[bank])):
        optimizer.step()


def copy_of(bank: AdapterBank) -> dict:
    return {name: value.clone() for name, value in bank.state_dict().items()}


def moved(bank: AdapterBank, before: dict) -> set[int]:
    rows = {kind: getattr(bank, kind).ne(before[kind]).flatten(1).any(1) for kind in bank.row_names}
    return {row for moves in rows.values() for row in moves.nonzero().flatten().tolist()}


@pytest.mark.parametrize("name", NAMES)
def test_only_active_rows_move(name: str) -> None:
    """Also when they have momentum, and weights decay; and what is remembered of the others stays."""
    bank = make_bank("rows")
    optimizer = make_optimizer(bank, name)
    step(bank, optimizer, [0, 1, 2, 3])
    before = copy_of(bank)
    state = optimizer.optimizer.state[bank.up_weight]
    remembered = {key: state[key].clone() for key in state if torch.is_tensor(state[key]) and state[key].dim() > 1}
    assert remembered
    step(bank, optimizer, [1, 3])
    assert moved(bank, before) == {1, 3}
    for key, value in remembered.items():
        assert state[key].ne(value).flatten(1).any(1).tolist() == [False, True, False, True]
    assert not torch.equal(bank.norm_weight, before["norm_weight"])


@pytest.mark.parametrize("kind", ["rows", "nodes"])
@pytest.mark.parametrize("option", ["--fp16", "--fp16-no-flatten-grads", "--memory-efficient-fp16"])
def test_idle_rows_do_not_move_in_half_precision(kind: str, option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the weights move nor the optimiser's copy of them in full precision, which later steps would show."""
    monkeypatch.setattr("torch.cuda.current_device", lambda: None)  # the CPU's number, to fairseq
    bank = make_bank(kind).half()
    optimizer = half_optimizer(bank, option)
    step(bank, optimizer, [0, 1, 2, 3])
    before = copy_of(bank)
    for _ in range(3):
        step(bank, optimizer, [1, 3])
    assert moved(bank, before) == {1, 3}


@pytest.mark.parametrize("kind", ["rows", "nodes"])
def test_sharded_weights_are_refused(kind: str) -> None:
    bank = make_bank(kind)
    piece = nn.Parameter(torch.cat([p.detach().flatten() for p in bank.parameters()]))
    bank(torch.randn(5, 2, H), torch.ones(1), active=[0]).sum().backward()
    optimizer = SimpleNamespace(optimizer=torch.optim.Adam([piece]), param_groups=[{"params": [piece]}])
    changing = only_active_change(optimizer, SimpleNamespace(banks=[bank]))
    with pytest.raises(InputError, match="fully_sharded"), changing:
        raise AssertionError("must not step")


@pytest.mark.parametrize("name", NAMES)
def test_optimisers_count_the_steps_of_each_node(name: str) -> None:
    """One that is active every 5th step moves as if these were all steps, whatever the optimiser."""
    nodes, alone = make_bank("nodes"), make_bank("nodes")
    optimizers = [make_optimizer(bank, name) for bank in (nodes, alone)]
    for bank in (nodes, alone):
        bank.norm_weight.requires_grad_(False)
        bank.norm_bias.requires_grad_(False)
    for number in range(11):
        if number % 5:
            step(nodes, optimizers[0], [0, 2], seed=number, max_norm=0.1)
        else:
            for bank, optimizer in zip((nodes, alone), optimizers, strict=True):
                step(bank, optimizer, [1], seed=number, max_norm=0.1)
    for own, expected in zip(nodes.node_parameters(1), alone.node_parameters(1), strict=True):
        assert torch.equal(own, expected)


def test_nodes_with_gradients_of_zero_took_no_part() -> None:
    """As those have that another process needed, or a batch that fairseq makes up."""
    nodes = make_bank("nodes")
    optimizer = make_optimizer(nodes)
    step(nodes, optimizer, [0, 1, 2, 3])
    before = copy_of(nodes)
    for parameter in nodes.parameters():
        parameter.grad = torch.zeros_like(parameter)
    for parameter in nodes.node_parameters(2):
        parameter.grad = torch.ones_like(parameter)
    with only_active_change(optimizer, SimpleNamespace(banks=[nodes])):
        optimizer.step()
    assert moved(nodes, before) == {2}
