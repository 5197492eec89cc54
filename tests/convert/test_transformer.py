"""fairseq's Transformers of any age become bases that adapters can be trained on."""

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_ext.base.errors import InputError
from fairseq_ext.convert.checkpoints import import_checkpoint
from tests import toy
from tests.convert import others
from tests.patches.hostile import Runs

Base = tuple[Namespace, Any]  # its options and the model
PLAIN = ["--task", "translation", "--arch", "transformer", *others.SIZES]
SHARED = [*PLAIN, "--share-all-embeddings", "--encoder-normalize-before", "--decoder-normalize-before"]
TIED = [*PLAIN, "--share-decoder-input-output-embed", "--decoder-learned-pos", "--max-target-positions", "30"]
KINDS = {"separate": PLAIN, "shared": SHARED, "tied": TIED}
KINDS |= {"mbart": others.MBART, "mbart50": others.MBART50, "m2m": others.M2M}


@pytest.fixture(scope="module")
def plain(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return others.pretrained_data(data, tmp_path_factory.mktemp("plain") / "data-bin")


@pytest.fixture(scope="module")
def shared(plain: Path) -> Base:
    return others.make(plain, SHARED)[1:]


def imported(source: Path, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    import_checkpoint(source, folder)
    return folder


def batch_of(task: Any, split: str) -> dict[str, Any]:
    """A split of one domain as one batch."""
    if split not in task.datasets:
        task.load_dataset(split)
    dataset = task.datasets[split]
    batch = dataset.collater([dataset[n] for n in range(len(dataset))])
    return batch if "net_input" in batch else batch["main:en-pl"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_batches_and_logits_are_those_of_fairseqs_own_task(plain: Path, tmp_path: Path, kind: str) -> None:
    """Tokens of languages stand where fairseq's own tasks put them, and fresh adapters change nothing."""
    own_task, own_args, own_model = others.make(plain, KINDS[kind])
    copies = {"encoder.layers.0.fc1_weight": torch.zeros(2), "decoder.embed_positions._float_tensor": torch.zeros(1)}
    folder = imported(others.write_old(tmp_path / "old.pt", own_args, own_model, model=copies), tmp_path)
    told = [] if "translation" in KINDS[kind] else (folder / "options.txt").read_text().split()
    assert told in ([], ["--language-tokens", kind, "--langs", "de,en,pl"])
    start = str(folder / "model.pt")
    task, args = toy.make_task(plain, "--finetune-from-model", start, *told, arch="transformer_gated_adapter")
    model = toy.make_model(task, args)
    model.load_state_dict(torch.load(start, weights_only=True)["model"], strict=True, model_cfg=args)
    batch, own = batch_of(task, "test:law"), batch_of(own_task, "test")
    order, own_order = batch["id"].argsort(), own["id"].argsort()
    for entry in ("src_tokens", "src_lengths", "prev_output_tokens"):
        assert torch.equal(batch["net_input"][entry][order], own["net_input"][entry][own_order]), entry
    assert torch.equal(batch["target"][order], own["target"][own_order])
    with torch.no_grad():
        logits = model(**batch["net_input"])[0][order]
        expected = own_model(**own["net_input"])[0][own_order]
    is_token = batch["target"][order].ne(1)
    # Logits may be summed in another order, see AdapterDecoder.output_layer.
    torch.testing.assert_close(logits[is_token], expected[is_token], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda _, args: vars(args).update(encoder_layers=10**9), "encoder_layers is 1000000000"),
        (lambda _, args: vars(args).update(decoder_ffn_embed_dim=9), "of another shape: decoder.layers.0.fc1"),
        (lambda _, args: vars(args).update(encoder_embed_dim="__import__('os')"), "expected a positive integer"),
        (lambda _, args: vars(args).update(encoder_attention_heads=3), "no model can be built"),
        (lambda _, args: vars(args).update(no_cross_attention=True), "no_cross_attention"),
        (lambda model, _: model.update({"decoder.adaptive_softmax.head": torch.ones(2)}), "unknown: decoder.adaptive"),
        (lambda model, _: model.update({"decoder.layers.0.adapter.x": torch.ones(2)}), "has adapters"),
        (lambda _, args: vars(args).update(task="translation_multi_simple_epoch"), "option decoder_langtok is None"),
    ],
)
def test_what_does_not_match_is_refused(shared: Base, tmp_path: Path, change: Callable, match: str) -> None:
    args, base = shared
    weights, options = dict(base.state_dict()), Namespace(**vars(args), decoder_langtok=None)
    change(weights, options)
    torch.save({"args": options, "model": weights}, tmp_path / "old.pt")
    with pytest.raises(InputError, match=rf"old\.pt: .*{match}"):
        imported(tmp_path / "old.pt", tmp_path / "base")
    assert not (tmp_path / "base/model.pt").exists()


def test_hostile_files_run_nothing(shared: Base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    args, base = shared
    hostile = Namespace(**{**vars(args), "encoder_layers_to_keep": Runs()})
    others.write_old(tmp_path / "state.pt", args, base, extra_state={"x": Runs()})
    others.write_old(tmp_path / "options.pt", hostile, base)
    half = others.write_old(tmp_path / "half.pt", args, base)
    half.write_bytes(half.read_bytes()[:5000])
    for name in ("state.pt", "options.pt", "half.pt"):
        with pytest.raises(InputError, match=f"{name}: (refused|not a readable checkpoint)"):
            imported(tmp_path / name, tmp_path / "base")
    assert not (tmp_path / "PWN").exists()
