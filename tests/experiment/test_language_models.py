"""Systems, trees and measurements as the file of a language model experiment says them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.errors import InputError
from fairseq_ext.experiment.language_models import (
    all_lm_runs,
    domains_of_tree,
    evaluation_of,
    language_models_of,
    lm_runs_of,
    lm_start_of,
    needs_induced_tree,
    trees_of,
)
from fairseq_ext.experiment.lm_config import LanguageModelExperiment, load_lm_config
from tests.small_lm_experiment import ADAPTERS, DOMAINS, write_lm_experiment


def config_of(folder: Path, systems: dict[str, Any] | None = None, **changes: Any) -> LanguageModelExperiment:
    if systems is not None:
        changes["train"] = {"systems": systems}
    return load_lm_config(write_lm_experiment(folder, **changes))


def test_trees_are_files_or_induced_by_the_first_system(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    manual, induced = trees_of(config).values()
    assert (manual.path, manual.is_induced) == (tmp_path / "tree.json", False)
    assert domains_of_tree(manual) == sorted(DOMAINS)
    assert induced.path == tmp_path / "work/trees/induced/tree.json"
    assert (induced.system, induced.options) == ("base", {"sequences": 60, "dimensions": 5})
    assert domains_of_tree(induced) is None


def test_systems_know_their_tree_and_adapters(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    models = language_models_of(config)
    assert {name: (model.adapters, model.tree) for name, model in models.items()} == {
        "base": (None, None),
        "single": ("single", "manual"),
        "multi": ("multi", "induced"),
        "manual": ("tree", "manual"),
        "induced": ("tree", "induced"),
    }
    assert models["manual"].tokens_per_sample == 16
    assert "tree" not in models["manual"].system.options
    assert [name for name in models if needs_induced_tree(config, name)] == ["multi", "induced"]


def test_runs_start_from_the_run_of_their_seed(tmp_path: Path) -> None:
    base = {"arch": "transformer_lm_tiny", "seeds": [1, 2]}
    config = config_of(tmp_path, {"base": base, "deep": {**ADAPTERS, "tree": "manual", "seeds": [2]}}, tree={
        "manual": str(tmp_path / "tree.json")
    })  # fmt: skip
    assert [run.name for run in all_lm_runs(config)] == ["base@1", "base@2", "deep"]
    start = lm_start_of(config, lm_runs_of(config, "deep")[0])
    assert start is not None
    assert start.name == "base@2"


@pytest.mark.parametrize(
    ("system", "message"),
    [
        ({"arch": "transformer_lm_tiny", "uses_teacher": True}, "x: uses_teacher: is for translation"),
        ({"arch": "transformer_lm_tiny", "per_domain": True}, "x: per_domain: is for translation"),
        ({"arch": "transformer_lm_tiny", "tree": "manual"}, "x: tree: goes with an arch transformer_lm_hier_adapter"),
        ({**ADAPTERS}, "x: tree: goes with an arch"),
        ({**ADAPTERS, "tree": "manual", "from": None}, "x: from: is missing; adapters go on a trained language model"),
        ({**ADAPTERS, "tree": "oak"}, "x: tree: no 'oak' under tree; there are manual, induced"),
        ({**ADAPTERS, "tree": "manual", "adapters": "double"}, "adapters: 'double' is unknown; choose one of tree, "),
        ({"checkpoint": "gpt2.pt", "from": "base"}, "x: checkpoint: is not trained, so it has no from"),
        ({"checkpoint": 2}, "x: checkpoint: expected the path of a checkpoint, got 2"),
    ],
)
def test_mistakes_in_systems_are_named(tmp_path: Path, system: dict[str, Any], message: str) -> None:
    config = config_of(tmp_path, {"base": {"arch": "transformer_lm_tiny"}, "x": system})
    with pytest.raises(InputError, match=message):
        language_models_of(config)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"oak": 3}, "tree: oak: expected a file, or the options of an induction, got 3"),
        ({"oak": {"system": "deep"}}, "oak: system: 'deep' is no language model without adapters; there are base"),
        ({"oak tree": "x.json"}, "'oak tree' is no domain name"),
    ],
)
def test_mistakes_in_trees_are_named(tmp_path: Path, tree: dict[str, Any], message: str) -> None:
    systems = {"base": {"arch": "transformer_lm_tiny"}, "deep": {**ADAPTERS, "tree": "manual"}}
    config = config_of(tmp_path, systems, tree={"manual": "m.json", **tree})
    with pytest.raises(InputError, match=message):
        language_models_of(config)


def test_what_is_measured_has_defaults_and_may_be_nothing(tmp_path: Path) -> None:
    evaluation = evaluation_of(config_of(tmp_path, evaluate={}))
    assert (evaluation.num_paths, evaluation.choose_tokens, evaluation.sequences) == ([1, 2], [0, 32], 1000)
    evaluation = evaluation_of(config_of(tmp_path, evaluate={"choose_tokens": [], "every_path": []}))
    assert (evaluation.choose_tokens, evaluation.every_path) == ([], [])


def test_perplexities_that_are_compared_are_over_blocks_of_one_length(tmp_path: Path) -> None:
    short = {**ADAPTERS, "tree": "manual", "tokens-per-sample": 64}
    config = config_of(tmp_path, {"base": {"arch": "transformer_lm_tiny"}, "x": short}, evaluate={})
    with pytest.raises(
        InputError, match="systems: x: tokens-per-sample: is 64, that of 'base' 1024; give both the same"
    ):
        evaluation_of(config)


def test_clusters_of_other_states_choose_nothing(tmp_path: Path) -> None:
    """Sequences are told apart by the states of the model that the tree was induced from."""
    plain = {"arch": "transformer_lm_tiny"}
    systems = {"base": plain, "tuned": {**plain, "from": "base"}, "x": {**ADAPTERS, "tree": "induced"}}
    asked: dict[str, Any] = {"evaluate": {"choose_tokens": [4]}}
    assert evaluation_of(config_of(tmp_path, systems, **asked)).choose_tokens == [4]
    more = {**ADAPTERS, "tree": "induced", "from": "x"}  # the same base, one step further
    assert evaluation_of(config_of(tmp_path, {**systems, "more": more}, **asked)).choose_tokens == [4]
    systems["x"]["from"] = "tuned"
    with pytest.raises(InputError, match="choose_tokens: the adapters of 'x' are on 'tuned', whose states the"):
        evaluation_of(config_of(tmp_path, systems, **asked))
    assert evaluation_of(config_of(tmp_path, systems, evaluate={"choose_tokens": []})).choose_tokens == []


@pytest.mark.parametrize(
    ("evaluate", "message"),
    [
        ({"num_paths": [0]}, "evaluate: num_paths: 0 is too small; give 1 or more"),
        ({"num_paths": []}, r"evaluate: num_paths: expected a list, got \[\]"),
        ({"choose_tokens": [-1]}, "choose_tokens: -1 is too small; give 0 or more"),
        ({"sequences": 0}, "sequences: 0 is too small"),
        ({"every_path": ["multi"]}, "every_path: 'multi' is no system with a tree; there are manual, induced"),
        ({"paths": 2}, "evaluate: unknown key 'paths'"),
    ],
)
def test_mistakes_in_measurements_are_named(tmp_path: Path, evaluate: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluation_of(config_of(tmp_path, evaluate=evaluate))
