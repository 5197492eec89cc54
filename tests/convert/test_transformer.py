"""fairseq's Transformers of any age become bases that adapters can be trained on."""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_ext.convert.checkpoints import import_checkpoint
from fairseq_ext.inputs.errors import InputError
from tests import toy
from tests.convert import others
from tests.patches.hostile import Runs
from tests.verbs import verb

SEPARATE = ["--task", "translation", "--arch", "transformer", *others.SIZES]
SHARED = [*SEPARATE, "--share-all-embeddings", "--encoder-normalize-before", "--decoder-normalize-before"]
TIED = [*SEPARATE, "--share-decoder-input-output-embed", "--decoder-learned-pos", "--max-target-positions", "30"]
KINDS = {"separate": SEPARATE, "shared": SHARED, "tied": TIED}


@pytest.fixture(scope="module")
def plain(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return others.pretrained_data(data, tmp_path_factory.mktemp("plain") / "data-bin")


@pytest.fixture(scope="module")
def models(plain: Path) -> dict[str, tuple[Any, Namespace, Any]]:
    return {name: others.make(plain, arguments) for name, arguments in KINDS.items()}


def imported(source: Path, folder: Path) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    import_checkpoint(source, folder)
    return torch.load(folder / "model.pt", weights_only=True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_adapters_take_their_sizes_from_an_old_checkpoint_and_start_as_its_model(
    plain: Path, models: dict[str, Any], tmp_path: Path, kind: str
) -> None:
    _, args, base = models[kind]
    copies = {"encoder.layers.0.fc1_weight": torch.zeros(2), "decoder.embed_positions._float_tensor": torch.zeros(1)}
    source = others.write_old(tmp_path / "old.pt", args, base, model=copies)
    imported(source, tmp_path / "base")
    start = str(tmp_path / "base/model.pt")
    task, own = toy.make_task(plain, "--finetune-from-model", start, arch="transformer_gated_adapter")
    assert (own.encoder_ffn_embed_dim, own.decoder_ffn_embed_dim, own.decoder_attention_heads) == (24, 20, 4)
    model = toy.make_model(task, own)
    model.load_state_dict(torch.load(start, weights_only=True)["model"], strict=True, model_cfg=own)
    tokens = {"src_tokens": torch.tensor([[5, 6, 7, 2], [1, 1, 8, 2]]), "src_lengths": torch.tensor([4, 2])}
    tokens["prev_output_tokens"] = torch.tensor([[2, 8, 9], [2, 7, 1]])
    with torch.no_grad():
        features, expected = (each(**tokens, features_only=True)[0] for each in (model, base))
        logits, expected_logits = model(**tokens)[0], base(**tokens)[0]
    torch.testing.assert_close(features, expected, atol=1e-6, rtol=1e-6)
    # Logits are summed in another order, see AdapterDecoder.output_layer.
    torch.testing.assert_close(logits, expected_logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda _, args: vars(args).update(encoder_layers=10**9), "encoder_layers is 1000000000"),
        (lambda _, args: vars(args).update(decoder_ffn_embed_dim=9), "of another shape: decoder.layers.0.fc1"),
        (lambda _, args: vars(args).update(encoder_embed_dim="__import__('os')"), "expected a positive integer"),
        (lambda _, args: vars(args).update(encoder_attention_heads=3), "its options make no model"),
        (lambda _, args: vars(args).update(no_cross_attention=True), "no_cross_attention"),
        (lambda model, _: model.update({"decoder.adaptive_softmax.head": torch.ones(2)}), "unknown: decoder.adaptive"),
        (lambda model, _: model.update({"decoder.layers.0.adapter.x": torch.ones(2)}), "has adapters"),
        (lambda _, args: vars(args).update(task="translation_multi_simple_epoch"), "option decoder_langtok is None"),
    ],
)
def test_what_does_not_fit_is_told_in_a_line(
    models: dict[str, Any], tmp_path: Path, change: Callable[[dict, Namespace], Any], match: str
) -> None:
    _, args, base = models["shared"]
    weights, options = dict(base.state_dict()), Namespace(**vars(args), decoder_langtok=None)
    change(weights, options)
    torch.save({"args": options, "model": weights}, tmp_path / "old.pt")
    with pytest.raises(InputError, match=rf"old\.pt: .*{match}"):
        imported(tmp_path / "old.pt", tmp_path / "base")
    assert not (tmp_path / "base/model.pt").exists()


def test_hostile_and_damaged_files_run_nothing(
    models: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, args, base = models["shared"]
    source = others.write_old(tmp_path / "old.pt", args, base, extra_state={"x": Runs()})
    with pytest.raises(InputError, match=r"old\.pt: refused, because it holds more than weights and options"):
        imported(source, tmp_path / "base")
    hostile = argparse.Namespace(**{**vars(args), "encoder_layers_to_keep": Runs()})
    with pytest.raises(InputError, match="refused"):
        imported(others.write_old(tmp_path / "options.pt", hostile, base), tmp_path / "base")
    half = others.write_old(tmp_path / "half.pt", args, base)
    half.write_bytes(half.read_bytes()[:5000])
    with pytest.raises(InputError, match=r"half\.pt: not a readable checkpoint"):
        imported(half, tmp_path / "base")
    assert not (tmp_path / "PWN").exists()


def test_the_command_tells_how_to_go_on(
    models: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, args, base = models["separate"]
    source = others.write_old(tmp_path / "old.pt", args, base)
    verb("import", "checkpoint")([str(source), str(tmp_path / "base")])
    assert f"--finetune-from-model {tmp_path}/base/model.pt" in capsys.readouterr().out
    verb("import", "checkpoint")([str(source), str(tmp_path / "base")])
    assert "up to date" in capsys.readouterr().err
