"""The stages of an experiment with hierarchical adapters: which there are, in which order, and what they need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.engine.steps import Step
from fairseq_ext.induction.steps import Induction, PathChoice
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.hierarchy.stages import stages_of
from fairseq_ext.recipes.registry import load_experiment
from tests.recipes.small_lm_experiment import ADAPTERS, DOMAINS, write_lm_experiment
from tests.verbs import verb

PLAIN = {"arch": "transformer_lm_tiny"}


def steps_of(folder: Path, **changes: Any) -> dict[str, list[Step]]:
    _, experiment = load_experiment(write_lm_experiment(folder, **changes))
    return {stage.name: stage.steps() for stage in stages_of(experiment)}


def test_systems_that_need_an_induced_tree_come_after_it(tmp_path: Path) -> None:
    steps = steps_of(tmp_path)
    assert list(steps) == [
        "prepare", "base", "single", "manual", "tree", "multi", "induced", "paths", "evaluate", "report",
    ]  # fmt: skip
    assert [step.output.name for step in steps["evaluate"]] == ["base", "single", "multi", "manual", "induced"]
    assert [step.output for step in steps["tree"]] == [tmp_path / "work/trees/induced"]
    assert steps["tree"][0].options == {"version": 1, **Induction(sequences=60, dimensions=5, seed=1).model_dump()}
    choice = PathChoice(num_paths=2, sequences=20, seed=1)
    assert steps["paths"][0].options == {"version": 2, **choice.model_dump(exclude={"path_weights"})}


def test_a_system_depends_on_its_base_and_its_tree(tmp_path: Path) -> None:
    work, steps = tmp_path / "work", steps_of(tmp_path)
    [manual], [induced] = steps["manual"], steps["induced"]
    base = work / "systems/base/checkpoint_best.pt"
    assert manual.inputs == [work / "data-bin", base, tmp_path / "tree.json"]
    assert induced.inputs == [work / "data-bin", base, work / "trees/induced/tree.json"]
    # A tree drawn by hand names its domains.
    assert manual.options["system"]["train-domains"] == ",".join(sorted(DOMAINS))
    assert "train-domains" not in induced.options["system"]


def test_measurements_depend_on_paths_only_where_clusters_choose_them(tmp_path: Path) -> None:
    steps = steps_of(tmp_path)
    paths = tmp_path / "work/paths/induced/paths.json"
    assert [step.output.name for step in steps["evaluate"] if paths in step.inputs] == ["induced"]


def test_without_unseen_domains_no_paths_are_chosen(tmp_path: Path) -> None:
    steps = steps_of(tmp_path, corpora={"folder": str(tmp_path / "text")})
    assert steps["paths"] == []
    assert not any("unseen" in path.name for step in steps["evaluate"] for path in [step.output, *step.inputs])


def test_a_given_checkpoint_is_not_trained(tmp_path: Path) -> None:
    (tmp_path / "gpt2.pt").touch()
    systems = {"gpt2": {"checkpoint": str(tmp_path / "gpt2.pt")}, "x": {**ADAPTERS, "from": "gpt2", "tree": "induced"}}
    steps = steps_of(tmp_path, train={"systems": systems}, evaluate={})
    assert steps["gpt2"] == []
    assert tmp_path / "gpt2.pt" in steps["x"][0].inputs
    assert tmp_path / "gpt2.pt" in steps["tree"][0].inputs


@pytest.mark.parametrize(
    ("system", "place"), [("tree", "train: systems: 'tree'"), ("base", "train: systems: base: checkpoint: ")]
)
def test_mistakes_are_named_before_anything_runs(tmp_path: Path, system: str, place: str) -> None:
    systems = {system: PLAIN if system == "tree" else {"checkpoint": "no.pt"}}
    path = write_lm_experiment(tmp_path, tree={}, train={"systems": systems}, evaluate={})
    with pytest.raises(InputError, match=f"^{path}: {place}"):
        verb("run")([str(path)])
    assert not (tmp_path / "work").exists()


def test_a_missing_stage_is_named(tmp_path: Path) -> None:
    path = write_lm_experiment(tmp_path)
    with pytest.raises(InputError, match=r"manual: needs .*data-bin, which the stage prepare makes"):
        verb("run")([str(path), "--only", "manual"])
    with pytest.raises(InputError, match=r"induced: needs .*tree.json, which the stage tree makes"):
        verb("run")([str(path), "--only", "prepare", "base", "induced", "--dry-run"])
