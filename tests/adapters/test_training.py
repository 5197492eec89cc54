"""A new domain is trained; what was there stays as it was."""

from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_ext.adapters.new_text import Training
from fairseq_ext.adapters.system import System
from fairseq_ext.adapters.training import train_domain
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.runtime.manifest import verify
from tests import toy

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text of the old domains and of ``news``."""
    folder = tmp_path_factory.mktemp("texts")
    for seed, name in enumerate([*toy.DOMAINS, "news"]):
        toy.write_text(folder / name, 40, seed)
    return folder


def training(texts: Path, **given: object) -> Training:
    few = {"max_update": 3, "gate_updates": 3, "valid": 5, "old_pairs": 20, "extra": ["--cpu"]}
    return Training(**{"text": texts / "news", **few, **given})  # type: ignore[arg-type]


def changed_keys(before: System, after: System, name: str) -> set[str]:
    """Stacked tensors of which an adapter's row is another."""
    old, new = before.rows(name), after.rows(name)
    return {key for key in old if not torch.equal(old[key], new[key])}


def test_a_plain_adapter_is_trained_alone(exports: Path, texts: Path, tmp_path: Path, capfd: Any) -> None:
    before = System.read(exports / "ad")
    train_domain(exports / "ad", "news", "nearest", tmp_path / "four", training(texts))
    after = System.read(tmp_path / "four")
    assert verify(tmp_path / "four").domains == ("law", "med", "news", "sub")
    for name in toy.DOMAINS:
        assert not changed_keys(before, after, name)
    printed = capfd.readouterr().err
    assert all(f"{name}: validation loss " in printed for name in toy.DOMAINS)
    losses = {name: float(printed.partition(f"{name}: validation loss ")[2].split()[0]) for name in toy.DOMAINS}
    nearest = before.rows(min(losses, key=losses.__getitem__))
    differing = [key for key, row in after.rows("news").items() if not torch.equal(row, nearest[key])]
    assert len(differing) == len(nearest)
    assert max(float((after.rows("news")[key] - nearest[key]).abs().max()) for key in nearest) < 0.1
    assert [path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock")] == ["four"]


@pytest.mark.parametrize("gates", ["guarded", "refit"])
def test_gates_are_fitted_to_a_new_domain(exports: Path, texts: Path, tmp_path: Path, gates: str) -> None:
    before = System.read(exports / "gad")
    train_domain(exports / "gad", "news", "law", tmp_path / "four", training(texts, old_text=texts, gates=gates))
    after = System.read(tmp_path / "four")
    verify(tmp_path / "four")
    routers = {key for key in before.model if ".router." in key}
    for name in toy.DOMAINS:
        assert changed_keys(before, after, name) == (routers if gates == "refit" else set())
    start = before.rows("law")
    moved = {key for key, row in after.rows("news").items() if not torch.equal(row, start[key])}
    assert moved == start.keys()
    assert after.guarded == (("news",) if gates == "guarded" else ())


@pytest.mark.slow
def test_a_new_domain_does_not_take_the_share_of_the_base(exports: Path, texts: Path, tmp_path: Path) -> None:
    before = System.read(exports / "gad-base")
    train_domain(exports / "gad-base", "news", "law", tmp_path / "four", training(texts, old_text=texts))
    after = System.read(tmp_path / "four")
    verify(tmp_path / "four")
    own = [key for key in before.model if key.endswith("router.base_weight")]
    assert len(own) == 5
    assert all(torch.equal(after.model[key], before.model[key]) for key in own)
    assert after.guarded == ("news",)
    with pytest.raises(InputError, match="--gates refit: .* use guarded"):
        train_domain(
            exports / "gad-base", "news", "law", tmp_path / "x", training(texts, old_text=texts, gates="refit")
        )


def test_what_training_needs(exports: Path, texts: Path, tmp_path: Path) -> None:
    for system, given, message in (
        ("gad", {}, "--old-text: "),
        ("systems/ad/model.pt", {}, "give an exported system"),
        ("ad", {"valid": 100}, r"news: has only \d+ different sources .* --valid"),
        ("ad", {"text": texts / "sports"}, r"sports\.en"),
        ("gad", {"old_text": tmp_path}, "no text of the domain law; add law.en"),
    ):
        with pytest.raises(InputError, match=message):
            train_domain(exports / system, "news", "nothing", tmp_path / "x", training(texts, **given))
    assert not [path for path in tmp_path.iterdir() if not path.name.endswith(".lock")]
