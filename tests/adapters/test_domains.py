"""Domains that come and go: what is left stays as it was, bit for bit."""

from pathlib import Path

import pytest
import torch

from fairseq_ext.adapters.domains import add_domain, remove_domain, rename_domain
from fairseq_ext.adapters.system import System
from fairseq_ext.base.errors import InputError
from tests import toy


def data_of(data: Path, folder: Path, domains: list[str]) -> Path:
    """A data directory of other domains, with the dictionaries of this one."""
    folder.mkdir()
    for path in data.iterdir():
        if path.name != "domains.txt" and (path.is_file() or path.name in domains):
            (folder / path.name).symlink_to(path)
    (folder / "domains.txt").write_text("".join(f"{name}\n" for name in domains))
    return folder


def outputs(path: Path, data: Path, domains: list[str]) -> dict[str, torch.Tensor]:
    """Logits on each domain's test set."""
    model, task = toy.load(path, data)
    found = {}
    for name in domains:
        batch = toy.first_batch(task, f"test:{name}")
        with torch.no_grad():
            found[name] = model(**batch["net_input"])[0]
    return found


def assert_same_rows(one: System, other: System, name: str, other_name: str) -> None:
    own, theirs = one.rows(name), other.rows(other_name)
    assert own.keys() == theirs.keys()
    assert all(torch.equal(value, theirs[key]) for key, value in own.items())


def test_where_a_new_adapter_starts(systems: Path) -> None:
    system = System.read(systems / "gad/model.pt")
    assert_same_rows(add_domain(system, "news", "sub"), system, "news", "sub")
    for key, row in add_domain(system, "news", "mean").rows("news").items():
        torch.testing.assert_close(row, system.model[key].mean(0))
    fresh = add_domain(system, "news", "nothing").rows("news")
    assert not fresh["encoder.layers.0.adapter.bank.up_weight"].any()
    assert fresh["encoder.layers.0.adapter.bank.norm_weight"].eq(1).all()
    assert fresh["encoder.layers.0.adapter.bank.down_weight"].any()
    assert not fresh["decoder.layers.1.adapter.router.weight"].any()


@pytest.mark.parametrize("kind", ["ad", pytest.param("ad-lora", marks=pytest.mark.slow)])
def test_other_domains_give_the_same_bits(systems: Path, data: Path, tmp_path: Path, kind: str) -> None:
    """Though the new one, without a tag in the dictionary, stands in the middle of the rows."""
    add_domain(System.read(systems / kind / "model.pt"), "news", "mean").write(tmp_path / "four.pt")
    more = data_of(data, tmp_path / "data", ["law", "med", "news", "sub"])
    old = outputs(systems / kind / "model.pt", data, toy.DOMAINS)
    new = outputs(tmp_path / "four.pt", more, toy.DOMAINS)
    assert all(torch.equal(old[name], new[name]) for name in toy.DOMAINS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gad", "gad-lora"])
@pytest.mark.parametrize("row", [-1.0, 1.0], ids=["never wins", "wins"])
def test_a_guarded_newcomer_changes_only_where_it_wins(
    systems: Path, data: Path, tmp_path: Path, row: float, kind: str
) -> None:
    system = add_domain(System.read(systems / kind / "model.pt"), "news", "mean", guarded=True)
    for key in [key for key in system.model if ".router." in key]:
        system.model[key][2] = row * 4 * system.model[key].abs().amax(0)
    system.write(tmp_path / "four.pt")
    more = data_of(data, tmp_path / "data", ["law", "med", "news", "sub"])
    model, task = toy.load(tmp_path / "four.pt", more)
    old = outputs(systems / kind / "model.pt", data, toy.DOMAINS)
    new = outputs(tmp_path / "four.pt", more, toy.DOMAINS)
    has_won = {}
    for name in toy.DOMAINS:
        batch = toy.first_batch(task, f"test:{name}")["net_input"]
        weights = torch.cat(list(model.gate_weights(batch, batch["prev_output_tokens"]).values()), 1)
        won = weights[..., 2].gt(0).any(1)
        assert torch.equal(old[name][~won], new[name][~won])
        has_won[name] = bool(won.any())
    assert model.gates[0].guarded == (2,)
    assert any(has_won.values()) or row < 0


def test_removing_all_settled_domains_removes_the_guard(systems: Path, tmp_path: Path) -> None:
    path = tmp_path / "four.pt"
    add_domain(System.read(systems / "gad/model.pt"), "news", "mean", guarded=True).write(path)
    for name in toy.DOMAINS:
        left = remove_domain(path, name, tmp_path / f"without-{name}.pt")
        assert left.guarded == (() if name == "sub" else ("news",))
        path = tmp_path / f"without-{name}.pt"


def test_a_renamed_domain_keeps_its_adapter_in_the_new_order(systems: Path, data: Path, tmp_path: Path) -> None:
    rename_domain(systems / "ad/model.pt", "law", "zoo", tmp_path / "renamed.pt")
    before, after = System.read(systems / "ad/model.pt"), System.read(tmp_path / "renamed.pt")
    assert after.names == ("med", "sub", "zoo")
    assert_same_rows(after, before, "zoo", "law")
    other = data_of(data, tmp_path / "data", ["med", "sub", "zoo"])
    (other / "zoo").symlink_to(data / "law")
    old, new = outputs(systems / "ad/model.pt", data, ["law"]), outputs(tmp_path / "renamed.pt", other, ["zoo"])
    assert torch.equal(old["law"], new["zoo"])


def test_what_cannot_be_added_removed_or_renamed(systems: Path, tmp_path: Path) -> None:
    path, output = systems / "ad/model.pt", tmp_path / "x.pt"
    system = System.read(path)
    remove_domain(path, "law", tmp_path / "two.pt")
    remove_domain(tmp_path / "two.pt", "med", tmp_path / "one.pt")
    for change, message in (
        (lambda: add_domain(system, "law", "nothing"), "already has 'law'"),
        (lambda: add_domain(system, "gates", "nothing"), "'gates' is a reserved name"),
        (lambda: add_domain(system, "news", "sports"), "has no domain 'sports'; it has law, med, sub"),
        (lambda: remove_domain(path, "news", output), "has no domain 'news'"),
        (lambda: remove_domain(tmp_path / "one.pt", "sub", output), "sub is its only domain"),
        (lambda: rename_domain(path, "news", "sports", output), "has no domain 'news'"),
        (lambda: rename_domain(path, "law", "sub", output), "already has 'sub'"),
    ):
        with pytest.raises(InputError, match=message):
            change()
    assert not output.exists()
