"""A new domain is trained; what was there stays as it was."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_ext.adapters import training as module
from fairseq_ext.adapters.domains import add_domain
from fairseq_ext.adapters.new_text import Training, split_pairs
from fairseq_ext.adapters.system import System
from fairseq_ext.adapters.training import as_trained, train_domain
from fairseq_ext.base.errors import InputError
from fairseq_ext.serve.runtime.manifest import verify
from fairseq_ext.serve.runtime.requests import Request
from fairseq_ext.serve.runtime.translator import SystemTranslator
from fairseq_ext.text.text_files import Pair
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


def let_scores(monkeypatch: pytest.MonkeyPatch, before: float, after: float) -> None:
    """Let the translations of held-out pairs have these scores without and with the adapter."""
    monkeypatch.setattr(module, "score", lambda _, route, __: before if route == "base" else after)


def changed_keys(before: System, after: System, name: str) -> set[str]:
    """Stacked tensors of which an adapter's row is another."""
    old, new = before.rows(name), after.rows(name)
    return {key for key in old if not torch.equal(old[key], new[key])}


def test_a_plain_adapter_is_trained_alone(
    exports: Path, texts: Path, tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_scores(monkeypatch, 40.0, 41.0)
    before = System.read(exports / "ad")
    _, scores = train_domain(exports / "ad", "news", "nearest", tmp_path / "four", training(texts))
    assert (scores.before, scores.after, scores.number) == (40.0, 41.0, 5)
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
    assert answers(tmp_path / "four", *toy.DOMAINS, "base") == answers(exports / "ad", *toy.DOMAINS, "base")


def answers(system: Path, *routes: str) -> list[Any]:
    """Translations with their scores."""
    requests = [Request(text, route) for text in ("w2 w5", "w7 w1 w3") for route in routes]
    return [answer.candidates for answer in SystemTranslator.load(system).translate(requests)]


@pytest.mark.parametrize("system", ["ad", "gad"])
def test_an_adapter_that_gains_nothing_does_nothing(
    exports: Path, texts: Path, tmp_path: Path, system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_scores(monkeypatch, 40.0, 40.0)
    train_domain(exports / system, "news", "law", tmp_path / "four", training(texts, old_text=texts))
    assert answers(tmp_path / "four", "news") == answers(exports / system, "base")
    fresh = add_domain(System.read(exports / system), "news", "nothing").rows("news")
    found = System.read(tmp_path / "four").rows("news")
    assert {key for key in fresh if not torch.equal(found[key], fresh[key])} == {
        key for key in fresh if "router" in key
    }


def test_training_that_does_not_lower_the_loss_changes_nothing(
    exports: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_scores(monkeypatch, 40.0, 41.0)
    monkeypatch.setattr(module.Bench, "losses", lambda *_: {"news": 1.0})
    train_domain(exports / "ad", "news", "law", tmp_path / "four", training(texts))
    law = System.read(exports / "ad").rows("law")
    assert all(torch.equal(row, law[key]) for key, row in System.read(tmp_path / "four").rows("news").items())


def test_the_number_of_updates_follows_the_text(
    exports: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = System.read(exports / "ad")
    grown = add_domain(system, "news", "nothing")
    bench = module.Bench(tmp_path, "news", training(texts))
    bench.write_data(system, grown)
    tokens = len((tmp_path / "data-bin/news/train.en-pl.pl.bin").read_bytes()) // 2  # numbers of two bytes
    found = []
    for most_tokens in (tokens, tokens // 10, 1):
        monkeypatch.setattr(module, "as_trained", lambda _, most=most_tokens: {"max-tokens": most})
        found.append(bench._updates(grown))
    assert found[0] == 20
    assert found[1] == 6 * -(-tokens // (tokens // 10))
    assert found[2] == 320


def test_options_are_those_of_the_training_of_the_system(exports: Path) -> None:
    system = System.read(exports / "ad")
    facts = {
        "optimization": {"lr": [0.003], "clip_norm": 1.0},
        "optimizer": {"_name": "adam", "adam_betas": [0.9, 0.98]},
        "dataset": {"max_tokens": 500},
        "criterion": {"label_smoothing": 0.0},
        "task": {"output_symbols": "text"},
    }

    def told(num_updates: int, dropout: float = 0.1, **changes: Any) -> dict[str, Any]:
        checkpoint = {"cfg": {**facts, **changes}, "optimizer_history": [{"num_updates": num_updates}]}
        return as_trained(replace(system, checkpoint=checkpoint, options={**system.options, "dropout": dropout}))

    own = {"lr": [0.003], "clip-norm": 1.0, "adam-betas": "[0.9, 0.98]", "max-tokens": 500, "label-smoothing": 0.0}
    usual = {"lr": 0.002, "clip-norm": 0.0, "adam-betas": "(0.9, 0.98)", "max-tokens": 3000, "label-smoothing": 0.1}
    assert told(9) == {**own, "output-symbols": "text"}
    assert told(9, dataset={"max_tokens": 16_384})["max-tokens"] == 3000
    assert told(9, dataset={}, criterion=None) == {**told(9), "max-tokens": 3000, "label-smoothing": 0.1}
    assert told(9, optimizer={"_name": "sgd"}) == told(0) == {**usual, "output-symbols": "all"}
    assert told(0, dropout=0.0)["label-smoothing"] == 0.0


def test_a_fifth_is_held_out_unless_a_number_is_given() -> None:
    pairs = [Pair("w " * number, "x") for number in range(1, 2001)]
    for given, number, expected in ((None, 50, 10), (None, 2000, 200), (None, 3, 1), (7, 50, 7)):
        assert len(split_pairs("news", pairs[:number], Training(valid=given, max_words=2000))["valid"]) == expected


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
