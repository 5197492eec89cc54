"""Experiment files of hierarchical adapters: what they mean, and where mistakes are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.hierarchy.config import Hierarchy
from fairseq_ext.recipes.registry import load_experiment
from tests.recipes.small_lm_experiment import ADAPTERS, write_lm_experiment

PLAIN = {"arch": "transformer_lm_tiny"}
ON_TREE = {**ADAPTERS, "tree": "manual"}


def config_of(folder: Path, systems: dict[str, Any] | None = None, **changes: Any) -> Hierarchy:
    if systems is not None:
        changes["train"] = {"systems": systems}
    _, experiment = load_experiment(write_lm_experiment(folder, **changes))
    assert isinstance(experiment, Hierarchy)
    return experiment


def mistake_in(folder: Path, systems: dict[str, Any] | None = None, **changes: Any) -> str:
    """The message on a file with a mistake, without the file."""
    with pytest.raises(InputError) as caught:
        config_of(folder, systems, **changes)
    message = str(caught.value)
    assert message.startswith(f"{folder / 'lm.yaml'}: ")
    return message.removeprefix(f"{folder / 'lm.yaml'}: ")


def test_runs_start_from_the_run_of_their_seed(tmp_path: Path) -> None:
    systems = {"base": {**PLAIN, "seeds": [1, 2]}, "deep": {**ON_TREE, "seeds": [2]}}
    experiment = config_of(tmp_path, systems, tree={"manual": "m.json"}, evaluate={})
    start = experiment.start_of(experiment.runs["deep"][0])
    assert start is not None
    assert start.name == "base@2"
    systems["deep"]["seeds"] = [3]
    message = mistake_in(tmp_path, systems, tree={"manual": "m.json"}, evaluate={})
    assert message.startswith("train: systems: deep: from")


@pytest.mark.parametrize(
    ("system", "key"),
    [
        ({**PLAIN, "uses_teacher": True}, "uses_teacher"),
        ({**PLAIN, "tokens-per-sample": 0.5}, "tokens-per-sample"),
        ({**PLAIN, "tree": "manual"}, "tree"),
        (ADAPTERS, "tree"),
        ({**ON_TREE, "from": None}, "from"),
        ({**ADAPTERS, "tree": "oak"}, "tree"),
        ({**ON_TREE, "adapters": "double"}, "adapters"),
        ({**ON_TREE, "tokens-per-sample": 64}, "tokens-per-sample"),
        ({"checkpoint": "gpt2.pt", "from": "base"}, "checkpoint"),
        ({"checkpoint": "gpt2.pt", "arch": ADAPTERS["arch"], "tree": "manual"}, "checkpoint"),
    ],
)
def test_mistakes_in_systems_are_named(tmp_path: Path, system: dict[str, Any], key: str) -> None:
    message = mistake_in(tmp_path, {"base": PLAIN, "x": system}, evaluate={})
    assert message.startswith(f"train: systems: x: {key}: ")


@pytest.mark.parametrize(
    ("tree", "key"),
    [
        ({"oak": 3}, "tree: oak: "),
        ({"oak tree": "x.json"}, "tree: oak tree: "),
        ({"oak": {"file": "x.json", "sequences": 3}}, "tree: oak: file: "),
        ({"oak": {"system": "deep"}}, "tree: oak: system: 'deep'"),
        ({"oak": {"system": "many"}}, "tree: oak: system: 'many'"),
        ({"oak": {"system": "late"}}, "tree: oak: system: 'late'"),
    ],
)
def test_mistakes_in_trees_are_named(tmp_path: Path, tree: dict[str, Any], key: str) -> None:
    systems = {"base": PLAIN, "deep": ON_TREE, "many": {**PLAIN, "seeds": [1, 2]}}
    if tree.get("oak") == {"system": "late"}:
        systems |= {"on-oak": {**ADAPTERS, "tree": "oak"}, "late": {**PLAIN, "from": "on-oak"}}
    assert mistake_in(tmp_path, systems, tree={"manual": "m.json", **tree}).startswith(key)


@pytest.mark.parametrize(
    ("section", "content", "key"),
    [
        ("evaluate", {"num_paths": []}, "num_paths: "),
        ("evaluate", {"choose_tokens": [-1]}, "choose_tokens: "),
        ("evaluate", {"every_path": ["multi"]}, "every_path: "),
        ("corpora", {"folder": "a", "unseen": "a"}, "unseen: "),
        ("split", {"test": 0}, "test: "),
    ],
)
def test_mistakes_in_sections_are_named(tmp_path: Path, section: str, content: dict[str, Any], key: str) -> None:
    assert mistake_in(tmp_path, **{section: content}).startswith(f"{section}: {key}")


def test_clusters_of_other_states_choose_nothing(tmp_path: Path) -> None:
    """Blocks are told apart by the states of the model that the tree was induced from."""
    systems = {"base": PLAIN, "tuned": {**PLAIN, "from": "base"}, "x": {**ADAPTERS, "tree": "induced"}}
    more = {**ADAPTERS, "tree": "induced", "from": "x"}  # the same base, one step further
    assert config_of(tmp_path, {**systems, "more": more}, evaluate={"choose_tokens": [4]})
    systems["x"]["from"] = "tuned"
    assert mistake_in(tmp_path, systems, evaluate={"choose_tokens": [4]}).startswith("evaluate: choose_tokens: ")
    assert config_of(tmp_path, systems, evaluate={"choose_tokens": []})
