"""Adapters take the form of the base checkpoint that they start from."""

from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils
from omegaconf import OmegaConf

from fairseq_ext.base.errors import InputError
from tests import toy, toy_text

AD, GAD = "transformer_domain_adapter", "transformer_gated_adapter"
START = "--finetune-from-model"


@pytest.fixture(scope="module")
def base(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    sizes = ["--encoder-layers", "3", "--encoder-normalize-before", "--no-scale-embedding", "--share-all-embeddings"]
    positions = ["--encoder-learned-pos", "--max-source-positions", "50"]
    task, args = toy.make_task(data, *sizes, *positions, arch="transformer_tiny")
    return toy.write_checkpoint(tmp_path_factory.mktemp("base") / "base.pt", args, toy.make_model(task, args))


@pytest.fixture(scope="module")
def student(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base that drops nothing but attention."""
    task, args = toy.make_task(data, "--dropout", "0", "--attention-dropout", "0.2", arch="transformer_tiny")
    return toy.write_checkpoint(tmp_path_factory.mktemp("student") / "base.pt", args, toy.make_model(task, args))


def test_adapters_take_the_size_of_their_base(data: Path, base: Path) -> None:
    task, args = toy.make_task(data, START, str(base), arch=AD)
    assert (args.encoder_layers, args.encoder_embed_dim, args.max_source_positions) == (3, 64, 50)
    assert args.encoder_normalize_before
    model = toy.make_model(task, args)
    weights = torch.load(base, weights_only=True)["model"]
    model.load_state_dict(weights, strict=True, model_cfg=args)
    assert torch.equal(model.encoder.layers[2].fc1.weight, weights["encoder.layers.2.fc1.weight"])


def test_hydra_takes_the_size_of_its_base(data: Path, base: Path) -> None:
    """fairseq-hydra-train has the base in another section than the model's options."""
    cfg = OmegaConf.create({"model": {"_name": AD}, "checkpoint": {"finetune_from_model": str(base)}})
    task, _ = toy.make_task(data)
    model = task.build_model(cfg.model)
    model.load_state_dict(torch.load(base, weights_only=True)["model"], strict=True)
    assert (cfg.model.encoder_layers, cfg.model.encoder_normalize_before) == (3, True)  # for the checkpoint
    cfg.model = {"_name": f"{AD}_tiny"}
    with pytest.raises(InputError, match=f"--encoder-layers 2: .*{base} has --encoder-layers 3; .* --arch {AD}, "):
        task.build_model(cfg.model)


@pytest.mark.parametrize("arch", ["transformer_lm_hier_adapter", "transformer_lm_topic"])
def test_language_models_take_the_size_of_their_base(text: Path, tmp_path: Path, arch: str) -> None:
    sizes = ["--decoder-layers", "3", "--decoder-normalize-before", "--no-scale-embedding"]
    positions = ["--decoder-learned-pos", "--max-target-positions", "50"]
    plain, options = toy_text.make_task(text, *sizes, *positions, arch=toy_text.PLAIN)
    words = ["--task", "multi_domain_language_modeling", "--arch", toy_text.PLAIN, *sizes, *positions]
    path = toy.write_checkpoint(tmp_path / "base.pt", toy.parsed(text, *words), toy.make_model(plain, options))
    weights = torch.load(path, weights_only=True)["model"]
    tree = ["--adapters", "single"] if "hier" in arch else []
    task, args = toy_text.make_task(text, *tree, START, str(path), arch=arch)
    toy.make_model(task, args).load_state_dict(dict(weights), strict=True)
    with pytest.raises(InputError, match=rf"--decoder-layers 2: .* --decoder-layers 3; .* --arch {arch}, "):
        toy_text.make_task(text, *tree, START, str(path), arch=f"{arch}_tiny")
    cfg = OmegaConf.create({
        "model": {"_name": arch, **({"adapters": "single"} if tree else {})},
        "checkpoint": {"finetune_from_model": str(path)}, "common": {"tpu": False},
        "task": {"add_bos_token": False, "tokens_per_sample": 8, "max_target_positions": 8},
    })  # fmt: skip
    OmegaConf.set_struct(cfg, True)
    task.build_model(cfg.model).load_state_dict(dict(weights), strict=True)
    assert (cfg.model.decoder_layers, cfg.model.decoder_embed_dim) == (3, toy_text.WIDTH)


@pytest.mark.slow
@pytest.mark.parametrize("options", [["--adapter-form", "lora", "--lora-rank", "3"], ["--bottleneck-dim", "5"]])
def test_gates_take_the_adapters_of_their_base(data: Path, tmp_path: Path, options: list[str]) -> None:
    task, args = toy.make_task(data, *options, arch=f"{AD}_tiny")
    plain = toy.make_model(task, args)
    toy.randomise_adapters(plain)
    path = toy.write_checkpoint(tmp_path / "ad.pt", args, plain)
    gated = toy.make_model(*toy.make_task(data, START, str(path), arch=f"{GAD}_tiny"))
    gated.load_state_dict(dict(plain.state_dict()), strict=True)
    assert all(torch.equal(gated.state_dict()[name], value) for name, value in plain.state_dict().items())
    assert not any(gate.weight.any() for gate in gated.gates)


@pytest.mark.slow
def test_a_finished_checkpoint_does_not_look_at_its_base(data: Path, base: Path, tmp_path: Path) -> None:
    """Another file may lie at that path by then."""
    moved = tmp_path / "base.pt"
    moved.write_bytes(base.read_bytes())
    task, args = toy.make_task(data, START, str(moved), arch=GAD)
    finished = toy.write_checkpoint(tmp_path / "finished.pt", args, toy.make_model(task, args))
    moved.write_bytes(b"no checkpoint")
    (model,), _ = checkpoint_utils.load_model_ensemble([str(finished)], {"data": str(data)})
    assert len(model.encoder.layers) == 3


def test_sizes_that_differ_are_told_in_a_line(data: Path, base: Path) -> None:
    with pytest.raises(InputError, match=f"--encoder-layers 2: .* 3; .* --arch {AD}, "):
        toy.make_task(data, START, str(base), arch=f"{AD}_tiny")
    with pytest.raises(InputError, match="--layernorm-embedding: "):
        toy.make_task(data, START, str(base), "--layernorm-embedding", arch=GAD)


@pytest.mark.parametrize("arch", [AD, f"{GAD}_tiny", "transformer", "transformer_tiny"])
@pytest.mark.parametrize(
    ("options", "rates"),
    [((), (0.0, 0.2, 0.0)), (("--dropout", "0.3"), (0.3, 0.2, 0.0)), (("--attention-dropout", "0"), (0.0, 0.0, 0.0))],
)
def test_dropout_is_that_of_the_base_unless_it_is_given(
    arch: str, options: tuple[str, ...], rates: tuple[float, ...], data: Path, student: Path
) -> None:
    _, found = toy.make_task(data, START, str(student), *options, arch=arch)
    assert (found.dropout, found.attention_dropout, found.activation_dropout) == rates
    assert list(found.base_rates.values()) == [0.0, 0.2, 0.0]


def test_adapters_keep_the_dropout_of_their_base(data: Path, student: Path, tmp_path: Path) -> None:
    task, args = toy.make_task(data, START, str(student), "--dropout", "0.3", arch=AD)
    plain = toy.write_checkpoint(tmp_path / "ad.pt", args, toy.make_model(task, args))
    assert toy.make_task(data, START, str(plain), arch=GAD)[1].dropout == 0
    # A fine-tuned model was trained with its own.
    task, args = toy.make_task(data, START, str(student), "--dropout", "0.3", arch="transformer")
    tuned = toy.write_checkpoint(tmp_path / "mix.pt", args, toy.make_model(task, args))
    assert toy.make_task(data, START, str(tuned), arch=AD)[1].dropout == 0.3


def test_an_invalid_dropout_of_a_base_is_refused(data: Path, tmp_path: Path) -> None:
    task, args = toy.make_task(data, arch="transformer_tiny")
    model = toy.make_model(task, args)
    args.dropout = 1.5
    base = toy.write_checkpoint(tmp_path / "base.pt", args, model)
    with pytest.raises(InputError, match=r"base\.pt: its option dropout is 1\.5; expected a rate from 0 to 1"):
        toy.make_task(data, START, str(base), arch=AD)
