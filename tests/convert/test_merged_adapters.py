"""Adapters that were trained apart, on one base, in one bank."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_ext.convert.checkpoints import import_checkpoints
from fairseq_ext.inputs.errors import InputError
from tests import toy

AD = "transformer_domain_adapter_tiny"
SEEDS = {"law": 5, "med": 6, "sub": 7}


def write_single(root: Path, name: str, *options: str, seed: int = 1) -> Path:
    """A checkpoint with the adapters of one domain, on the base of this seed."""
    data = toy.make_data(root / name, [name], (6,))
    task, args = toy.make_task(data, *options, arch=AD)
    model = toy.make_model(task, args, seed=1)
    toy.randomise_adapters(model, SEEDS[name])
    # Dictionaries of one tag each differ in size; bases must not.
    base = {key: value for key, value in base_state(task, args, seed).items() if ".adapter" not in key}
    model.load_state_dict({**model.state_dict(), **base})
    return toy.write_checkpoint(root / f"{name}.pt", args, model)


def base_state(task: Any, args: Any, seed: int) -> dict[str, Any]:
    return toy.make_model(task, args, seed=seed).state_dict()


@pytest.fixture(scope="module")
def singles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("singles")
    return {name: write_single(root, name) for name in SEEDS}


def merged(sources: list[tuple[str | None, Path]], folder: Path) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    import_checkpoints(sources, folder, {}, None)
    return torch.load(folder / "model.pt", weights_only=True)


def test_rows_are_those_of_each_file_in_the_order_of_names(singles: dict[str, Path], tmp_path: Path) -> None:
    found = merged([(None, singles[name]) for name in ("sub", "law", "med")], tmp_path)
    assert (tmp_path / "domains.txt").read_text().split() == ["law", "med", "sub"]
    for row, name in enumerate(SEEDS):
        own = torch.load(singles[name], weights_only=True)["model"]
        for key in (key for key in own if ".adapter.bank." in key):
            assert torch.equal(found["model"][key][row], own[key][0]), (name, key)


def test_a_merged_bank_translates_each_domain_as_its_own_file_did(singles: dict[str, Path], tmp_path: Path) -> None:
    weights = merged([(None, path) for path in singles.values()], tmp_path / "merged")["model"]
    all_data = toy.make_data(tmp_path, list(SEEDS))
    tokens = {"src_tokens": torch.tensor([[5, 6, 7, 2]]), "src_lengths": torch.tensor([4])}
    tokens["prev_output_tokens"] = torch.tensor([[2, 8, 9]])
    # Of the size of the merged model's vocabulary, not of these data.
    size = len(weights["encoder.embed_tokens.weight"])
    for row, name in enumerate(SEEDS):
        task, args = toy.make_task(tmp_path / "data-bin", arch=AD)
        for dictionary in (task.src_dict, task.tgt_dict):
            del dictionary.symbols[size:]
        model = toy.make_model(task, args)
        model.load_state_dict(weights)
        own_task, own_args = toy.make_task(singles[name].parent / name / "data-bin", arch=AD)
        own = toy.make_model(own_task, own_args)
        own.load_state_dict(torch.load(singles[name], weights_only=True)["model"])
        with torch.no_grad():
            logits = model(**tokens, domain_ids=torch.tensor([row]))[0]
            expected = own(**tokens, domain_ids=torch.tensor([0]))[0]
        torch.testing.assert_close(logits, expected, atol=1e-6, rtol=1e-6)
    assert all_data.is_dir()


def test_one_adapter_of_a_file_is_taken_or_named(singles: dict[str, Path], tmp_path: Path) -> None:
    pair = tmp_path / "pair"
    merged([(None, singles["law"]), (None, singles["med"])], pair)
    found = merged([("med", pair / "model.pt"), ("news", singles["sub"])], tmp_path / "other")
    assert (tmp_path / "other/domains.txt").read_text().split() == ["med", "news"]
    own = torch.load(singles["sub"], weights_only=True)["model"]
    key = "decoder.layers.0.adapter.bank.up_weight"
    assert torch.equal(found["model"][key][1], own[key][0])
    with pytest.raises(InputError, match="model.pt: has no adapter sub; it has law, med"):
        merged([("sub", pair / "model.pt"), (None, singles["law"])], tmp_path / "third")


@pytest.mark.slow
def test_what_cannot_be_merged_is_told_in_a_line(singles: dict[str, Path], tmp_path: Path) -> None:
    twice = [(None, singles["law"]), (None, singles["law"])]
    with pytest.raises(InputError, match=r"law\.pt: has an adapter law, as .*law\.pt has; choose one"):
        merged(twice, tmp_path / "x")
    other = write_single(tmp_path, "med", seed=2)
    first = r"med\.pt: its base is not that of .*law\.pt: encoder\.embed_tokens\.weight differs"
    with pytest.raises(InputError, match=first):
        merged([(None, singles["law"]), (None, other)], tmp_path / "x")
    wide = write_single(tmp_path, "sub", "--bottleneck-dim", "8")
    with pytest.raises(InputError, match=r"sub\.pt: its adapters are of another size than .*down_weight is \(8, 64\)"):
        merged([(None, singles["law"]), (None, wide)], tmp_path / "x")
    task, args = toy.make_task(tmp_path / "med/data-bin")
    gated = toy.write_checkpoint(tmp_path / "gad.pt", args, toy.make_model(task, args))
    with pytest.raises(InputError, match=r"gad\.pt: its adapters are gated"):
        merged([(None, singles["law"]), (None, gated)], tmp_path / "x")
