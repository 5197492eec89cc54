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


def config_of(folder: Path, systems: dict[str, Any], **changes: Any) -> Hierarchy:
    _, experiment = load_experiment(write_lm_experiment(folder, train={"systems": systems}, **changes))
    assert isinstance(experiment, Hierarchy)
    return experiment


def test_clusters_of_other_states_choose_nothing(tmp_path: Path) -> None:
    """Blocks are told apart by the states of the model that the tree was induced from."""
    systems = {"base": PLAIN, "tuned": {**PLAIN, "from": "base"}, "x": {**ADAPTERS, "tree": "induced"}}
    more = {**ADAPTERS, "tree": "induced", "from": "x"}  # the same base, one step further
    assert config_of(tmp_path, {**systems, "more": more}, evaluate={"choose_tokens": [4]})
    systems["x"]["from"] = "tuned"
    with pytest.raises(InputError, match="evaluate: choose_tokens: "):
        config_of(tmp_path, systems, evaluate={"choose_tokens": [4]})
    assert config_of(tmp_path, systems, evaluate={"choose_tokens": []})
