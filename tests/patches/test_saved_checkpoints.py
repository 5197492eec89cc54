"""What may stand in a checkpoint, its options and its weights; all else ends in one line, soon."""

import copy
from argparse import Namespace
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data.encoders.gpt2_bpe import GPT2BPEConfig
from omegaconf import OmegaConf
from torch import Tensor

from fairseq_ext.base.errors import InputError
from fairseq_ext.patches.checkpoints import check_checkpoint
from fairseq_ext.patches.options import check_options, forget_starting_files
from tests.patches import hostile

CONFIG: dict = {"model": {"_name": "lightconv"}, "task": {"_name": "translation_multi_simple_epoch"}, "criterion": None}


def judge(state: dict, reason: str | None) -> None:
    """Check that options are accepted, or refused for a reason."""
    with pytest.raises(InputError, match=reason) if reason else nullcontext():
        check_options(state, {})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
        ({"bpe": {"_name": "bert"}}, "its bpe 'bert' is not allowed, because it downloads files"),
        ({"task": {"_name": "x", "lang_dict": "/dev/zero"}}, r"lang_dict names a file, .*'/dev/zero'"),
        ({"task": {"_name": "x", "lang_dict": None, "source_dict": ""}}, None),
        ({"model": {"_name": "wav2vec_ctc", "w2v_path": "a.pt"}}, r"--model-overrides \"{'w2v_path': 'FILE'}\""),
        ({"model": {"_name": "transformer", 1: "a", "1": "b"}}, "the key '1' of type int, expected text"),
        ({"common": {"a": [{"b": {1.5: 1}}]}}, "the key '1.5' of type float"),
    ],
)
def test_names_and_files_in_options_of_checkpoints_are_checked(change: dict, reason: str | None) -> None:
    for form in (dict, OmegaConf.create):
        judge({"cfg": form(CONFIG | change)}, reason)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ({"encoder_layers": 6, "encoder_embed_dim": 8, "max_source_positions": 1024}, None),
        ({"encoder_layers": 10**7, "encoder_embed_dim": 8}, "too few for 10000000 encoder layers of width 8"),
        ({"decoder_layers": 6, "decoder_embed_dim": 8, "decoder_ffn_embed_dim": 10**3}, "6 decoder layers"),
        ({"bottleneck_dim": 10**5}, "bottleneck_dim is 100000"),
        ({"max_target_positions": 10**9}, "max_target_positions is 1000000000"),
    ],
)
def test_a_model_is_no_larger_than_its_weights(model: dict[str, int], reason: str | None) -> None:
    judge({"cfg": CONFIG | {"model": CONFIG["model"] | model}, "model": {"weight": torch.zeros(2000)}}, reason)


def test_a_full_disk_is_one_line() -> None:
    with (
        open("/dev/full", "wb", 0) as file,
        pytest.raises(InputError, match=r"/dev/full: cannot be written \(.*No space"),
    ):
        checkpoint_utils._torch_persistent_save({"a": torch.zeros(10**5)}, file)


def test_files_in_options_are_refused_only_if_used() -> None:
    state = {"cfg": CONFIG | {"task": {"_name": "x", "lang_dict": "theirs"}}}
    check_options(state, {}, built=("model", "criterion"))
    check_options(state, {"lang_dict": "mine"})
    with pytest.raises(InputError, match="lang_dict"):
        check_options(state, {"lang_dict": None, "other": "theirs"})


def test_options_of_published_models_pass() -> None:
    """fairseq's defaults for GPT-2's subwords are addresses."""
    config = OmegaConf.create(
        {
            "model": {"_name": "transformer_lm", "adaptive_softmax_cutoff": "20000,60000"},
            "task": {"_name": "language_modeling"},
            "bpe": OmegaConf.structured(GPT2BPEConfig(_name="gpt2")),
            "distributed_training": {"distributed_init_method": "tcp://localhost:12345"},
            "job_logging_cfg": {"handlers": {"console": {"stream": "ext://sys.stdout"}}},
            "optimizer": {"_name": "adam", "adam_betas": "(0.9, 0.98)", "adam_eps": 1e-8},
        }
    )
    check_options({"args": None, "cfg": config, "model": {}}, {})


def test_embedding_files_are_forgotten_and_addresses_refused_but_for_the_users_own() -> None:
    given = {"arch": "transformer", "encoder_embed_path": "a", "decoder_embed_path": "b", "more": "https://c"}
    state = {"args": Namespace(**given), "cfg": None}
    with pytest.raises(InputError, match="more is an address"):
        check_options(state, {})
    check_options(state, {"more": "https://c"})
    forget_starting_files(state, {"decoder_embed_path": "b"})
    assert vars(state["args"]) == {**given, "encoder_embed_path": None}


# Weights

NAME = "encoder.layers.0.fc1.weight"


@pytest.fixture(scope="module")
def good(data: Path) -> hostile.State:
    return hostile.make_good(data)


def with_weight(change: Callable[[Tensor], Any]) -> Callable[[hostile.State], hostile.State]:
    return lambda state: {**state, "model": {**state["model"], NAME: change(state["model"][NAME].clone())}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_weight(lambda weight: weight.fill_(float("nan"))), f"'{NAME}' has entries that are not finite"),
        (with_weight(lambda weight: {"a": weight}), f"'{NAME}' is dict, expected a tensor"),
        (with_weight(lambda weight: weight.to_sparse()), "plain tensor|sparse"),
        (with_weight(lambda weight: torch.zeros(1).expand(10**14)), f"'{NAME}' declares 1000000*0 numbers"),
        (hostile.replaced(model=[1, 2]), "not a fairseq checkpoint"),
        (hostile.replaced(cfg=7), "its entry 'cfg' is int, expected options"),
    ],
)
def test_damaged_weights_are_refused_in_one_line(
    change: Callable, message: str, good: hostile.State, tmp_path: Path
) -> None:
    torch.save(change(copy.deepcopy(good)), tmp_path / "odd.pt")
    with pytest.raises(InputError, match=rf"odd\.pt: .*({message})") as caught:
        check_checkpoint(tmp_path / "odd.pt")
    assert "\n" not in str(caught.value)


def test_other_precisions_bytes_and_an_unused_bias_are_fine(good: hostile.State, tmp_path: Path) -> None:
    weights = {name: value.bfloat16() for name, value in good["model"].items()}
    more = {"steps": torch.tensor(3), "names": torch.tensor([104, 105], dtype=torch.uint8)}
    more["encoder.layers.0.conv.conv_bias"] = torch.tensor([float("nan")])
    torch.save({**good, "model": {**weights, **more}}, tmp_path / "model.pt")
    check_checkpoint(tmp_path / "model.pt")


def test_options_of_wrong_kinds_end_in_one_line(good: hostile.State, data: Path, tmp_path: Path) -> None:
    change = hostile.with_config(model={"encoder_attention_heads": "many"})
    torch.save(change(copy.deepcopy(good)), tmp_path / "odd.pt")
    with pytest.raises(InputError, match=r"odd\.pt: cannot build a model from it: \w+Error: ") as caught:
        checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "odd.pt")], {"data": str(data)})
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("share", [0.0, 0.9])
def test_truncated_at_any_place_is_one_line(good: hostile.State, tmp_path: Path, share: float) -> None:
    torch.save(good, tmp_path / "cut.pt")
    whole = (tmp_path / "cut.pt").read_bytes()
    (tmp_path / "cut.pt").write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(InputError, match=r"cut\.pt: not a readable checkpoint") as caught:
        checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "cut.pt"))
    assert "\n" not in str(caught.value)
