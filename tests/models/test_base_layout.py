"""Adapters take the form of the base checkpoint that they start from."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils

from fairseq_ext.inputs.errors import InputError
from tests import toy

AD, GAD = "transformer_domain_adapter", "transformer_gated_adapter"


@pytest.fixture(scope="module")
def base(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    sizes = ["--encoder-layers", "3", "--encoder-normalize-before", "--no-scale-embedding", "--share-all-embeddings"]
    positions = ["--encoder-learned-pos", "--max-source-positions", "50"]
    task, args = toy.make_task(data, *sizes, *positions, arch="transformer_tiny")
    return toy.write_checkpoint(tmp_path_factory.mktemp("base") / "base.pt", args, toy.make_model(task, args))


def start(base: Path) -> list[str]:
    return ["--finetune-from-model", str(base)]


@pytest.mark.parametrize("arch", [AD, GAD])
def test_no_size_need_be_typed(data: Path, base: Path, arch: str) -> None:
    task, args = toy.make_task(data, *start(base), arch=arch)
    assert (args.encoder_layers, args.encoder_embed_dim, args.max_source_positions) == (3, 64, 50)
    assert args.encoder_normalize_before
    model = toy.make_model(task, args)
    weights = torch.load(base, weights_only=True)["model"]
    model.load_state_dict(weights, strict=True, model_cfg=args)
    assert torch.equal(model.encoder.layers[2].fc1.weight, weights["encoder.layers.2.fc1.weight"])


@pytest.mark.parametrize("options", [["--adapter-form", "lora", "--lora-rank", "3"], ["--bottleneck-dim", "5"]])
def test_gates_take_the_adapters_of_their_base(data: Path, tmp_path: Path, options: list[str]) -> None:
    task, args = toy.make_task(data, *options, arch=f"{AD}_tiny")
    plain = toy.make_model(task, args)
    toy.randomise_adapters(plain)
    path = toy.write_checkpoint(tmp_path / "ad.pt", args, plain)
    gated = toy.make_model(*toy.make_task(data, *start(path), arch=f"{GAD}_tiny"))
    gated.load_state_dict(dict(plain.state_dict()), strict=True)
    assert all(torch.equal(gated.state_dict()[name], value) for name, value in plain.state_dict().items())
    assert not any(gate.weight.any() for gate in gated.gates)


def test_a_finished_checkpoint_does_not_look_at_its_base(data: Path, base: Path, tmp_path: Path) -> None:
    """Another file may lie at that path by then."""
    moved = tmp_path / "base.pt"
    moved.write_bytes(base.read_bytes())
    task, args = toy.make_task(data, *start(moved), arch=GAD)
    finished = toy.write_checkpoint(tmp_path / "finished.pt", args, toy.make_model(task, args))
    other_task, other_args = toy.make_task(data, "--encoder-layers", "1", arch="transformer_tiny")
    toy.write_checkpoint(moved, other_args, toy.make_model(other_task, other_args))
    (model,), _ = checkpoint_utils.load_model_ensemble([str(finished)], {"data": str(data)})
    assert len(model.encoder.layers) == 3


@pytest.mark.parametrize(
    ("arguments", "arch", "match"),
    [
        (["--adapter-form", "lora", "--layernorm-embedding"], AD, "--layernorm-embedding: "),
        ([], f"{AD}_tiny", f"--encoder-layers 2: .* 3; .* --arch {AD}, "),
    ],
)
def test_sizes_that_differ_are_told_in_a_line(
    data: Path, base: Path, arguments: list[str], arch: str, match: str
) -> None:
    with pytest.raises(InputError, match=match):
        toy.make_task(data, *start(base), *arguments, arch=arch)
