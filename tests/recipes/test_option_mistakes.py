"""A misspelt option of fairseq's is one line before anything is done, in an experiment file of every kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.recipes.test_odd_files import KINDS, _tree, folder, plan

__all__ = ["folder"]
# Of each kind, a system; the last of the file, so that what comes before it would have been done.
SYSTEMS = {
    "translation": "gad",
    "hierarchical": "induced",
    "topics": "topics-10-movies",
    "classification": "adapters-64",
    "words": "dagru",
}


def said_of(kind: str, folder: Path, system: str, **options: Any) -> str:
    tree = json.loads(_tree(kind))
    tree["train"]["systems"][system] |= options
    return str(plan(kind, json.dumps(tree).encode(), folder))


@pytest.mark.parametrize(("kind", "system"), SYSTEMS.items())
def test_a_mistake_is_named_with_file_system_and_key(folder: Path, kind: str, system: str) -> None:
    line = said_of(kind, folder, system, lrr=0.1)
    said = "fairseq-train has no option 'lrr'; did you mean 'lr'?"
    assert line == f"{folder}/odd.yaml: train: systems: {system}: lrr: {said}"


@pytest.mark.parametrize(
    ("option", "value"),
    [("save-interval", "long"), ("optimizer", "adm"), ("clip-norm", True), ("arch", "transformer_tinny")],
)
def test_a_wrong_value_is_named(folder: Path, option: str, value: Any) -> None:
    line = said_of("translation", folder, "gad", **{option: value})
    assert line.startswith(f"{folder}/odd.yaml: train: systems: gad: {option}: fairseq-train ")


def test_an_option_of_all_systems_is_named_with_common(folder: Path) -> None:
    tree = json.loads(_tree("translation"))
    tree["train"]["common"]["dropuot"] = 0.1
    line = plan("translation", json.dumps(tree).encode(), folder)
    assert "train: systems: mix (under common): dropuot: fairseq-train has no option 'dropuot'; did you mean" in line


def test_options_of_outputs_are_read_too(folder: Path) -> None:
    tree = json.loads(_tree("translation"))
    tree["translate"]["outputs"]["gad"]["beem"] = 5
    line = plan("translation", json.dumps(tree).encode(), folder)
    assert line.endswith("translate: outputs: gad: beem: fairseq-generate has no option 'beem'; did you mean 'beam'?")


def test_every_kind_is_tried() -> None:
    assert SYSTEMS.keys() == KINDS.keys() - {"cleaning"}
