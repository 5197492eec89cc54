"""Checkpoints of the published gated-adapters code, of which the released reference file is one."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_ext.convert.checkpoints import import_checkpoint
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.modules.adapter_names import NAMES, read_names
from tests.real_corpora import corpus
from tests.verbs import verb

run_import = verb("import", "checkpoint")

ORDER = ["LAW", "IT", "SUB", "TALKS", "MED", "REL"]


@pytest.fixture(scope="module")
def published() -> Path:
    return corpus("parity/gated")


@pytest.fixture(scope="module")
def state(published: Path) -> dict[str, Any]:
    torch.serialization.add_safe_globals([argparse.Namespace])
    return torch.load(published / "checkpoint.pt", weights_only=True)


def changed(state: dict[str, Any], folder: Path, change: Callable[[dict, dict], None]) -> Path:
    """The file with something else in its weights or options."""
    model, options = dict(state["model"]), dict(vars(state["cfg"]["model"]))
    change(model, options)
    path = folder / "theirs.pt"
    torch.save({**state, "model": model, "cfg": {**state["cfg"], "model": argparse.Namespace(**options)}}, path)
    return path


def test_the_command_imports_a_gated_model(published: Path, tmp_path: Path) -> None:
    run_import([str(published / "checkpoint.pt"), str(tmp_path / "ours")])
    assert (tmp_path / "ours/domains.txt").read_text().split() == sorted(ORDER)
    saved = torch.load(tmp_path / "ours/model.pt", weights_only=True)
    assert read_names(saved["model"][NAMES]) == sorted(ORDER)
    assert saved["cfg"]["model"].arch == "transformer_gated_adapter"


def test_rows_follow_the_names_whatever_they_are_called(published: Path, state: dict[str, Any], tmp_path: Path) -> None:
    import_checkpoint(published / "checkpoint.pt", tmp_path, {"LAW": "zlaw"})
    saved = torch.load(tmp_path / "model.pt", weights_only=True)["model"]
    names = read_names(saved[NAMES])
    assert names == ["IT", "MED", "REL", "SUB", "TALKS", "zlaw"]
    gate = state["model"]["decoder.layers.1.adapters.gating.weight"]
    assert torch.equal(saved["decoder.layers.1.adapter.router.weight"][5], gate[ORDER.index("LAW")])


def as_plain(model: dict[str, Any], options: dict[str, Any]) -> None:
    options.update(adapter_type="base", arch="transformer_adapter_bapna_and_firat")
    for name in [name for name in model if ".gating." in name]:
        del model[name]


def test_plain_adapters_are_imported_as_such(state: dict[str, Any], tmp_path: Path) -> None:
    import_checkpoint(changed(state, tmp_path, as_plain), tmp_path, {})
    saved = torch.load(tmp_path / "model.pt", weights_only=True)
    assert saved["cfg"]["model"].arch == "transformer_domain_adapter"
    bank = saved["model"]["encoder.layers.0.adapter.bank.up_weight"]
    theirs = state["model"]["encoder.layers.0.adapters.adapter_modules.[TAG=IT].1.fc2.weight"]
    assert torch.equal(bank[0], theirs.t())


GATE = "encoder.layers.1.adapters.gating"
ADAPTER = "decoder.layers.0.adapters.adapter_modules.[TAG=MED]"


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda model, _: model.pop(f"{ADAPTER}.1.fc1.bias"), r"lacks decoder\.layers\.0\.adapters.*MED.*fc1\.bias"),
        (lambda model, _: model.update({f"{ADAPTER}.2.weight": torch.ones(2)}), "1 unknown entries of its adapters"),
        (lambda model, _: model.update({f"{GATE}.weight": torch.ones(5, 64)}), "5 rows for 6 adapters"),
        (lambda _, options: options.update(encoder_layers=3), "option encoder_layers is 3, but its weights have 2"),
        (lambda _, options: options.update(aggregation_func="max_pool"), "option aggregation_func is 'max_pool'"),
        (lambda _, options: options.update(adapter_names=["[TAG=LAW]"] * 6), "two of its adapters are called LAW"),
        (lambda _, options: options.update(adapter_type="other"), "option adapter_type is 'other'"),
    ],
)
def test_what_does_not_fit_is_told_in_a_line(
    state: dict[str, Any], tmp_path: Path, change: Callable[[dict, dict], None], match: str
) -> None:
    with pytest.raises(InputError, match=rf"theirs\.pt: .*{match}"):
        import_checkpoint(changed(state, tmp_path, change), tmp_path, {})
    assert not (tmp_path / "model.pt").exists()
