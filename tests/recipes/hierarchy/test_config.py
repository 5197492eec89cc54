"""Experiment files of hierarchical adapters: what they mean."""

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


def test_clusters_of_other_states_choose_nothing(tmp_path: Path) -> None:
    """Blocks are told apart by the states of the model that the tree was induced from."""
    systems = {"base": PLAIN, "tuned": {**PLAIN, "from": "base"}, "x": {**ADAPTERS, "tree": "induced"}}
    more = {**ADAPTERS, "tree": "induced", "from": "x"}  # the same base, one step further
    assert config_of(tmp_path, {**systems, "more": more}, evaluate={"choose_tokens": [4]})
    systems["x"]["from"] = "tuned"
    assert mistake_in(tmp_path, systems, evaluate={"choose_tokens": [4]}).startswith("evaluate: choose_tokens: ")
    assert config_of(tmp_path, systems, evaluate={"choose_tokens": []})
