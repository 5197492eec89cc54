"""Systems, trees and measurements as the file says them; what is wrong with them is said when it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.experiments.hierarchy.config import HierarchyExperiment, load_config
from fairseq_ext.experiments.hierarchy.systems import InducedTree
from fairseq_ext.induction.options import Induction
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.models.transformer_lm_hier_adapter import HierAdapterConfig
from fairseq_ext.modules.language_model_options import ADAPTERS as KINDS
from tests.experiments.small_lm_experiment import ADAPTERS, DOMAINS, write_lm_experiment

PLAIN = {"arch": "transformer_lm_tiny"}


def config_of(folder: Path, systems: dict[str, Any] | None = None, **changes: Any) -> HierarchyExperiment:
    if systems is not None:
        changes["train"] = {"systems": systems}
    return load_config(write_lm_experiment(folder, **changes))


def test_trees_are_files_or_induced_by_the_first_system(tmp_path: Path) -> None:
    experiment = config_of(tmp_path, seed=3)
    manual, induced = experiment.trees.values()
    assert (manual.path, manual.is_induced) == (tmp_path / "tree.json", False)
    assert manual.domains == sorted(DOMAINS)
    path = tmp_path / "work/trees/induced/tree.json"
    assert induced == InducedTree("induced", path, "base", Induction(sequences=60, dimensions=5, seed=3))
    assert induced.is_induced
    assert experiment.induced_trees == [induced]


def test_a_tree_may_have_a_seed_of_its_own(tmp_path: Path) -> None:
    experiment = config_of(tmp_path, {"base": PLAIN}, tree={"oak": {"seed": 7}}, evaluate={})
    assert [tree.induction.seed for tree in experiment.induced_trees] == [7]


def test_systems_know_their_tree_and_adapters(tmp_path: Path) -> None:
    experiment = config_of(tmp_path)
    models = experiment.systems
    assert {name: (model.adapters, model.tree) for name, model in models.items()} == {
        "base": (None, None),
        "single": ("single", "manual"),
        "multi": ("multi", "induced"),
        "manual": ("tree", "manual"),
        "induced": ("tree", "induced"),
    }
    assert models["manual"].tokens_per_sample == 16
    assert "tree" not in models["manual"].system.options
    assert [name for name in models if experiment.needs_induced_tree(name)] == ["multi", "induced"]
    assert experiment.tree_of("multi") == experiment.trees["induced"]
    assert experiment.tree_of("base") is None


def test_runs_start_from_the_run_of_their_seed(tmp_path: Path) -> None:
    base = {"arch": "transformer_lm_tiny", "seeds": [1, 2]}
    systems = {"base": base, "deep": {**ADAPTERS, "tree": "manual", "seeds": [2]}}
    experiment = config_of(tmp_path, systems, tree={"manual": "m.json"}, evaluate={})
    assert [run.name for run in experiment.all_runs] == ["base@1", "base@2", "deep"]
    start = experiment.start_of(experiment.runs["deep"][0])
    assert start is not None
    assert start.name == "base@2"
    systems["deep"]["seeds"] = [3]
    with pytest.raises(InputError, match="deep: from: no run of 'base' has the seed or domain of deep; there are base"):
        config_of(tmp_path, systems, tree={"manual": "m.json"}, evaluate={})


@pytest.mark.parametrize(
    ("system", "message"),
    [
        ({**PLAIN, "uses_teacher": True}, "x: uses_teacher: is for translation"),
        ({**PLAIN, "per_domain": True}, "x: per_domain: is for translation"),
        ({**PLAIN, "tree": "manual"}, "x: tree: goes with an arch transformer_lm_hier_adapter"),
        ({**ADAPTERS}, "x: tree: goes with an arch"),
        ({**ADAPTERS, "tree": "manual", "from": None}, "x: from: is missing; adapters go on a trained language model"),
        ({**ADAPTERS, "tree": "oak"}, "x: tree: no 'oak' under tree; there are manual, induced"),
        ({**ADAPTERS, "tree": "manual", "adapters": "double"}, "adapters: 'double' is unknown; choose one of tree, "),
        ({"checkpoint": "gpt2.pt", "from": "base"}, "x: checkpoint: is not trained, so it has no from"),
        ({"checkpoint": "gpt2.pt", "arch": ADAPTERS["arch"], "tree": "manual"}, "x: checkpoint: .* has no adapters"),
        ({"checkpoint": 2}, "x: checkpoint: expected text, got 2"),
    ],
)
def test_mistakes_in_systems_are_named(tmp_path: Path, system: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        config_of(tmp_path, {"base": PLAIN, "x": system})


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"oak": 3}, "tree: oak: expected a file, or the options of an induction, got 3"),
        ({"oak": {"system": "deep"}}, "oak: system: 'deep' is no language model without adapters; there are base"),
        ({"oak tree": "x.json"}, "'oak tree' is no domain name"),
        ({"oak": {"sequences": 0}}, "tree: oak: --sequences 0: must be 1 at least"),
        ({"oak": {"sequence": 3}}, "tree: oak: unknown key 'sequence'; allowed are components,"),
        ({"oak": {"system": "many"}}, "oak: system: 'many' has several seeds; take one with one"),
        ({"oak": {"system": "late"}}, "oak: system: 'late' needs an induced tree itself"),
    ],
)
def test_mistakes_in_trees_are_named(tmp_path: Path, tree: dict[str, Any], message: str) -> None:
    systems = {"base": PLAIN, "deep": {**ADAPTERS, "tree": "manual"}, "many": {**PLAIN, "seeds": [1, 2]}}
    if tree.get("oak") == {"system": "late"}:
        systems |= {"on-oak": {**ADAPTERS, "tree": "oak"}, "late": {**PLAIN, "from": "on-oak"}}
    with pytest.raises(InputError, match=message):
        config_of(tmp_path, systems, tree={"manual": "m.json", **tree})


def test_what_is_measured_has_defaults_and_may_be_nothing(tmp_path: Path) -> None:
    evaluation = config_of(tmp_path, evaluate={}).evaluate
    assert (evaluation.num_paths, evaluation.choose_tokens, evaluation.sequences) == ([1, 2], [0, 32], 1000)
    evaluation = config_of(tmp_path, evaluate={"choose_tokens": [], "every_path": []}).evaluate
    assert (evaluation.choose_tokens, evaluation.every_path) == ([], [])


def test_perplexities_that_are_compared_are_over_blocks_of_one_length(tmp_path: Path) -> None:
    short = {**ADAPTERS, "tree": "manual", "tokens-per-sample": 64}
    message = "systems: x: tokens-per-sample: is 64, that of 'base' 1024; give both the same"
    with pytest.raises(InputError, match=message):
        config_of(tmp_path, {"base": PLAIN, "x": short}, evaluate={})


def test_clusters_of_other_states_choose_nothing(tmp_path: Path) -> None:
    """Sequences are told apart by the states of the model that the tree was induced from."""
    systems = {"base": PLAIN, "tuned": {**PLAIN, "from": "base"}, "x": {**ADAPTERS, "tree": "induced"}}
    asked: dict[str, Any] = {"evaluate": {"choose_tokens": [4]}}
    assert config_of(tmp_path, systems, **asked).evaluate.choose_tokens == [4]
    more = {**ADAPTERS, "tree": "induced", "from": "x"}  # the same base, one step further
    assert config_of(tmp_path, {**systems, "more": more}, **asked).evaluate.choose_tokens == [4]
    systems["x"]["from"] = "tuned"
    with pytest.raises(InputError, match="choose_tokens: the adapters of 'x' are on 'tuned', whose states the"):
        config_of(tmp_path, systems, **asked)
    assert config_of(tmp_path, systems, evaluate={"choose_tokens": []}).evaluate.choose_tokens == []


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
        config_of(tmp_path, evaluate=evaluate)


@pytest.mark.parametrize("topics", [{}, None, {"lines": 3}])
def test_topics_are_of_another_kind(tmp_path: Path, topics: Any) -> None:
    with pytest.raises(InputError, match=r"lm\.yaml: topics: is for experiments with topic models; write kind"):
        config_of(tmp_path, topics=topics)


def test_what_may_stand_in_the_file_is_named_as_there(tmp_path: Path) -> None:
    allowed = "corpora, evaluate, seed, split, subwords, train, tree, work_dir"
    with pytest.raises(InputError, match=f"unknown key 'systems'; allowed are {allowed}$"):
        load_config(write_lm_experiment(tmp_path, systems={"base": PLAIN}))


def test_every_kind_of_adapters_is_one_of_the_models(tmp_path: Path) -> None:
    """The first is what a system has that names none."""
    systems = {kind: {**ADAPTERS, "tree": "manual", "adapters": kind} for kind in KINDS}
    systems |= {"base": PLAIN, "silent": {**ADAPTERS, "tree": "manual"}}
    experiment = config_of(tmp_path, systems, evaluate={})
    assert {name: experiment.systems[name].adapters for name in KINDS} == {kind: kind for kind in KINDS}
    assert experiment.systems["silent"].adapters == HierAdapterConfig().adapters
