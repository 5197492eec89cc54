"""Models of a toy text are measured over every routing that is asked for, and the cost of adapters is counted."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_ext.base.domain_tree import Paths, single_tree, tree_from_json
from fairseq_ext.experiments.hierarchy.config import (
    ALL,
    BEST_PATH,
    CHOOSING_LOSS,
    LOSS,
    MEAN_PATH,
    OWN,
    WORD_LOSS,
    Hierarchy,
    InducedTree,
    chosen,
)
from fairseq_ext.experiments.hierarchy.measure import costs_of, measure_run, records_of_losses, routings_of
from fairseq_ext.experiments.metrics.records import Record, Records
from fairseq_ext.experiments.registry import load_experiment
from fairseq_ext.experiments.scoring import LanguageModelScorer, Likelihood
from tests import toy_text
from tests.experiments.small_lm import make_checkpoint
from tests.experiments.small_lm_experiment import write_lm_experiment

TREE = tree_from_json(json.dumps(toy_text.TREE), "toy")


def experiment_of(folder: Path, **changes: Any) -> Hierarchy:
    """An experiment with adapters on the toy text's tree."""
    size = {"tokens-per-sample": toy_text.BLOCK}
    adapters = {"from": "base", "arch": "transformer_lm_hier_adapter_tiny", "tree": "toy", **size}
    systems = {
        "base": {"arch": "transformer_lm_tiny", **size},
        "deep": adapters,
        "single": {**adapters, "adapters": "single"},
    }
    tree = {"toy": str(toy_text.write_tree(folder / "toy.json"))}
    evaluate = {"sequences": 4, "every_path": ["deep"], "max_tokens": 64, "cpu": True}
    path = write_lm_experiment(folder, train={"systems": systems}, tree=tree, evaluate={**evaluate, **changes})
    return load_experiment(path).experiment


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Hierarchy, Records]:
    """An experiment whose model of hierarchical adapters, with nodes that differ, has been measured."""
    experiment = experiment_of(tmp_path_factory.mktemp("toy"))
    work = experiment.work_dir
    text = toy_text.make_text(work).rename(work / "data-bin")
    toy_text.make_text(work, ["new"], (20,), toy_text.make_dictionary()).rename(work / "data-bin-unseen")
    for name in [*toy_text.DOMAINS, "new"]:
        (work / "splits" / name).mkdir(parents=True)
        (work / "splits" / name / "test.txt").write_text("two words\nand three more\n", encoding="utf-8")
    checkpoint = work / "systems/deep/checkpoint_best.pt"
    checkpoint.parent.mkdir(parents=True)
    tree = toy_text.write_tree(work / "tree.json")
    make_checkpoint(checkpoint, text, toy_text.HIER, tokens_per_sample=toy_text.BLOCK, tree=tree)
    return experiment, Records(list(measure_run(experiment, experiment.runs["deep"][0])))


def test_a_run_is_measured_over_all_that_is_asked_for(measured: tuple[Hierarchy, Records]) -> None:
    """In domain over its own path; unseen over all, each and chosen ones, the best of other text first."""
    _, records = measured
    assert [record.dims for record in records.select(LOSS) if record.domain == "law"] == [OWN]
    routings = [record.dims for record in records.select(LOSS) if record.domain == "new"]
    by_path = [{"path": leaf} for leaf in TREE.leaves]
    assert routings == [ALL, *by_path, chosen(1, "votes"), chosen(2, "votes"), BEST_PATH, MEAN_PATH]
    choices = records.select(CHOOSING_LOSS)
    assert choices == sorted(choices, key=lambda record: record.value)
    assert {(record.domain, record.n) for record in choices} == {("new", 4)}
    best = records.by_run("deep", LOSS, "new", **choices[0].dims)
    assert records.by_run("deep", LOSS, "new", **chosen(1, "votes")) == best
    losses = [records.value("deep", LOSS, "new", **routing) for routing in by_path]
    assert records.value("deep", LOSS, "new", **BEST_PATH) == min(losses)
    assert records.value("deep", LOSS, "new", **MEAN_PATH) == pytest.approx(sum(losses) / 3)
    assert records.of("deep", WORD_LOSS, "law", **OWN)[0].n == 5
    short = records_of_losses(Record, [(OWN, Likelihood(1.0, 2))], words=1)
    assert [(record.metric, record.value, record.n) for record in short] == [(LOSS, 0.5, 2), (WORD_LOSS, 1.0, 1)]


@pytest.mark.parametrize(
    ("best", "one", "two"),
    [
        ({"law": 3, "sub": 1}, {"law": 3}, {"law": 3, "sub": 1}),
        ({"law": 4}, {"law": 4}, {"law": 4}),  # no other has a vote
        (["law", "sub", "med"], ["law"], ["law", "sub"]),
    ],
)
def test_paths_are_chosen_by_votes(tmp_path: Path, best: Paths, one: Paths, two: Paths) -> None:
    experiment = experiment_of(tmp_path, every_path=[], path_weights=["uniform", "votes"], num_paths=[1, 2, 3, 4])
    # The tree has three leaves.
    by_votes = {count: (chosen(count, "votes"), paths) for count, paths in ((1, one), (2, two), (3, best))}
    single = routings_of(experiment, "single", single_tree(["a", "b"]), [])
    assert single == [(ALL, ["a", "b"]), ({"path": "a"}, ["a"]), ({"path": "b"}, ["b"])]
    # A tree that is drawn by hand has no votes.
    assert routings_of(experiment, "deep", TREE, best) == [(ALL, list(TREE.leaves)), *by_votes.values()]
    induced = experiment.model_copy(update={"tree": {"toy": InducedTree()}})
    uniform = {count: (chosen(count, "uniform"), list(paths)) for count, paths in ((2, two), (3, best))}
    expected = [(ALL, list(TREE.leaves)), by_votes[1], uniform[2], by_votes[2], uniform[3], by_votes[3]]
    assert routings_of(induced, "deep", TREE, best) == expected


def test_costs_are_those_of_a_path_of_mean_length(measured: tuple[Hierarchy, Records], tmp_path: Path) -> None:
    experiment, _ = measured
    checkpoint = experiment.work_dir / "systems/deep/checkpoint_best.pt"
    data = experiment.work_dir / "data-bin"
    scorer = LanguageModelScorer.load(checkpoint, data, tokens_per_sample=toy_text.BLOCK, cpu=True)
    state = torch.load(checkpoint, weights_only=True)
    state["optimizer_history"] = [{"num_updates": n, "best_loss": 1.0} for n in (70, 12)]  # its base, itself
    torch.save(state, tmp_path / "trained.pt")
    cost = costs_of(scorer.model, tmp_path / "trained.pt")
    assert (cost["updates"], cost["leaf_updates"]) == (12, 4)
    width, layers, nodes, inner = 32, 2, 5, cost["bottleneck_dim"]
    node = 2 * width * inner + inner + width
    assert cost["num_adapters"] == nodes
    assert cost["mean_path_length"] == pytest.approx((3 + 3 + 2) / 3)
    assert cost["added"] == layers * (nodes * node + 2 * width)
    assert cost["active"] == round(layers * (cost["mean_path_length"] * node + 2 * width))
    assert cost["added_flops"] == pytest.approx(4 * layers * width * inner * 8 / 3)
    # Attention, feed-forward net and norms of two layers, and a last norm if there is one.
    dense = layers * (4 * (width * width + width) + 2 * width * 64 + 64 + width + 4 * width)
    assert cost["base_flops"] in (2 * dense, 2 * (dense + 2 * width))
