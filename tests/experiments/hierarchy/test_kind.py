"""The stages of an experiment with language models: which there are, in which order, and what they need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.engine.steps import Step
from fairseq_ext.experiments import run
from fairseq_ext.experiments.hierarchy.config import load_config
from fairseq_ext.experiments.hierarchy.kind import stages_of
from fairseq_ext.induction.options import Induction, PathChoice
from fairseq_ext.inputs.errors import InputError
from tests.experiments.small_lm_experiment import ADAPTERS, DOMAINS, write_lm_experiment

PLAIN = {"arch": "transformer_lm_tiny"}


def steps_of(folder: Path, **changes: Any) -> dict[str, list[Step]]:
    stages = stages_of(load_config(write_lm_experiment(folder, **changes)))
    return {stage.name: stage.steps() for stage in stages}


def test_systems_that_need_an_induced_tree_come_behind_it(tmp_path: Path) -> None:
    steps = steps_of(tmp_path)
    assert list(steps) == [
        "prepare", "base", "single", "manual", "tree", "multi", "induced", "paths", "evaluate", "report",
    ]  # fmt: skip
    assert [step.output.name for step in steps["prepare"]] == [
        "corpora", "splits", "subwords", "encoded", "data-bin", "data-bin-unseen",
    ]  # fmt: skip
    assert [step.output.name for step in steps["evaluate"]] == ["base", "single", "multi", "manual", "induced"]
    assert [step.output for step in steps["tree"]] == [tmp_path / "work/trees/induced"]


def test_a_system_depends_on_its_base_and_its_tree(tmp_path: Path) -> None:
    work = tmp_path / "work"
    [manual], [induced] = (steps_of(tmp_path)[name] for name in ("manual", "induced"))
    base = work / "systems/base/checkpoint_best.pt"
    assert manual.inputs == [work / "data-bin", base, tmp_path / "tree.json"]
    assert induced.inputs == [work / "data-bin", base, work / "trees/induced/tree.json"]
    # A tree drawn by hand says which domains there are.
    assert manual.options["system"]["train-domains"] == ",".join(sorted(DOMAINS))
    assert "train-domains" not in induced.options["system"]


def test_given_domains_are_kept(tmp_path: Path) -> None:
    """A grown tree is trained on what is new."""
    systems = {"base": PLAIN, "manual": {**ADAPTERS, "tree": "manual", "train_domains": DOMAINS[0]}}
    [step] = steps_of(tmp_path, train={"systems": systems}, evaluate={})["manual"]
    assert step.options["system"]["train_domains"] == DOMAINS[0]
    assert "train-domains" not in step.options["system"]


def test_trees_and_paths_are_those_of_the_commands(tmp_path: Path) -> None:
    """A new version of either makes them again."""
    steps = steps_of(tmp_path)
    [tree], [paths] = steps["tree"], steps["paths"]
    assert tree.options == Induction(sequences=60, dimensions=5, seed=1).recorded()
    assert paths.options == PathChoice(num_paths=2, sequences=20, seed=1).recorded()
    assert "version" in tree.options.keys() & paths.options.keys()


def test_what_is_measured_depends_on_paths_only_where_clusters_choose_them(tmp_path: Path) -> None:
    work = tmp_path / "work"
    inputs = {step.output.name: step.inputs for step in steps_of(tmp_path)["evaluate"]}
    paths = work / "paths/induced/paths.json"
    assert paths in inputs["induced"]
    assert not any(paths in inputs[name] for name in ("base", "single", "multi", "manual"))


def test_without_unseen_domains_no_paths_are_chosen(tmp_path: Path) -> None:
    path = write_lm_experiment(tmp_path)
    steps = steps_of(tmp_path, corpora={"folder": str(path.parent / "text")})
    assert steps["paths"] == []
    assert "data-bin-unseen" not in [step.output.name for step in steps["prepare"]]
    assert not any(path.name == "data-bin-unseen" for step in steps["evaluate"] for path in step.inputs)


def test_a_given_checkpoint_is_not_trained(tmp_path: Path) -> None:
    (tmp_path / "gpt2.pt").touch()
    systems = {"gpt2": {"checkpoint": str(tmp_path / "gpt2.pt")}, "x": {**ADAPTERS, "from": "gpt2", "tree": "induced"}}
    steps = steps_of(tmp_path, train={"systems": systems}, evaluate={})
    assert steps["gpt2"] == []
    assert tmp_path / "gpt2.pt" in steps["x"][0].inputs
    assert tmp_path / "gpt2.pt" in steps["tree"][0].inputs


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": {"systems": {"tree": PLAIN}}}, "systems: 'tree' is the name of a stage; choose another one"),
        ({"train": {"systems": {"base": {"checkpoint": "no.pt"}}}}, "base: checkpoint: no file no.pt; a GPT-2 is"),
        ({"tree": {"oak": {"sequences": 0}}}, "tree: oak: --sequences 0: must be 1 at least"),
        ({"tree": {"oak": {"sequence": 3}}}, "tree: oak: unknown key 'sequence'"),
        ({"train": {"systems": {"base": {**PLAIN, "seeds": [1, 2]}}}}, "oak: system: 'base' has several seeds"),
    ],
)
def test_mistakes_are_named_before_anything_runs(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    settings = {"tree": {"oak": {}}, "train": {"systems": {"base": PLAIN}}, "evaluate": {}, **changes}
    path = write_lm_experiment(tmp_path, **settings)
    with pytest.raises(InputError, match=message):
        run.main([str(path)])
    assert not (tmp_path / "work").exists()


def test_a_missing_stage_is_named(tmp_path: Path) -> None:
    path = write_lm_experiment(tmp_path)
    with pytest.raises(InputError, match=r"manual: needs .*data-bin, which the stage prepare makes; run that first"):
        run.main([str(path), "--only", "manual"])
    with pytest.raises(InputError, match=r"induced: needs .*tree.json, which the stage tree makes"):
        run.main([str(path), "--only", "prepare", "base", "induced", "--dry-run"])


def test_a_dry_run_prints_all_steps_and_makes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run.main([str(write_lm_experiment(tmp_path)), "--dry-run"])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert {word for word, _ in lines} == {"build"}
    assert len(lines) == 19
    assert not (tmp_path / "work").exists()
