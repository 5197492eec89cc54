"""Perplexities in this process are fairseq-eval-lm's, and a formula's; routings are what they are called."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli import eval_lm as fairseq_eval_lm

from fairseq_ext.domains.domain_tree import multi_tree, single_tree, tree_from_json
from fairseq_ext.experiments.hierarchy.adapter_costs import costs_of
from fairseq_ext.experiments.hierarchy.evaluate import Measurement, Places, families_of, measure, paths_of_routings
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.metrics.perplexity import LanguageModelScorer
from fairseq_ext.tasks.sequence_paths import SequencePaths
from tests import toy, toy_text
from tests.induction.small_lm import make_checkpoint

WHAT = Measurement("tree", toy_text.BLOCK, (1, 2), (0, 3), every_path=True, sequences=4, seed=1)


@pytest.fixture(scope="module")
def checkpoint(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hierarchical adapters whose nodes differ, as a checkpoint."""
    return save_model(text, tmp_path_factory.mktemp("model"), toy_text.HIER)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_text.make_text(tmp_path_factory.mktemp("text"))


def save_model(text: Path, folder: Path, arch: str) -> Path:
    options = {"tree": toy_text.write_tree(folder / "tree.json")} if arch == toy_text.HIER else {}
    return make_checkpoint(folder / "model.pt", text, arch, tokens_per_sample=toy_text.BLOCK, **options)


def scorer_of(checkpoint: Path, text: Path) -> LanguageModelScorer:
    return LanguageModelScorer.load(checkpoint, text, tokens_per_sample=toy_text.BLOCK, max_tokens=32, cpu=True)


def eval_lm(checkpoint: Path, text: Path, *extra: str) -> float:
    """The perplexity that fairseq-eval-lm finds."""
    args = options.parse_args_and_arch(options.get_eval_lm_parser(), [
        str(text), "--user-dir", toy.USER_DIR, "--cpu", "--path", str(checkpoint), "--task",
        "multi_domain_language_modeling", "--tokens-per-sample", str(toy_text.BLOCK), "--max-tokens", "32",
        "--num-workers", "0", *extra,
    ])  # fmt: skip
    return 2 ** float(fairseq_eval_lm.main(convert_namespace_to_omegaconf(args))["loss"])


@pytest.mark.parametrize(
    ("paths", "routing"),
    [(["law"], []), (["med", "sub"], ["--paths", "med,sub"]), ([], ["--paths", "none"])],
)
def test_agrees_with_fairseq_eval_lm(checkpoint: Path, text: Path, paths: list[str], routing: list[str]) -> None:
    scorer = scorer_of(checkpoint, text)
    found = scorer.score(scorer.batches("law", "test"), scorer.over(paths))[0]
    theirs = eval_lm(checkpoint, text, "--gen-subset", "test:law", *routing)
    assert math.exp(found.nats / found.tokens) == pytest.approx(theirs, rel=1e-4)


@pytest.mark.slow
def test_agrees_with_fairseq_eval_lm_where_sequences_choose(checkpoint: Path, text: Path, tmp_path: Path) -> None:
    scorer = scorer_of(checkpoint, text)
    clusters = toy_text.write_clusters(tmp_path / "clusters")
    chooser = SequencePaths.load(clusters, scorer.model, num_paths=2, num_tokens=3, padding_idx=1)
    found = scorer.score(scorer.batches("law", "test"), chooser, [0, 3])
    choice = ["--choose-paths", str(clusters), "--num-paths", "2", "--choose-tokens", "3", "--gen-subset", "test:law"]
    assert math.exp(found[0].nats / found[0].tokens) == pytest.approx(eval_lm(checkpoint, text, *choice), rel=1e-4)
    after = eval_lm(checkpoint, text, *choice, "--unscored-tokens", "3")
    assert math.exp(found[3].nats / found[3].tokens) == pytest.approx(after, rel=1e-4)


@pytest.mark.slow
def test_agrees_with_fairseq_eval_lm_without_adapters(text: Path, tmp_path: Path) -> None:
    plain = save_model(text, tmp_path, toy_text.PLAIN)
    scorer = scorer_of(plain, text)
    assert scorer.tree is None
    found = scorer.score(scorer.batches("med", "test"))[0]
    theirs = eval_lm(plain, text, "--gen-subset", "test:med")
    assert math.exp(found.nats / found.tokens) == pytest.approx(theirs, rel=1e-4)


def test_every_token_counts_once(checkpoint: Path, text: Path) -> None:
    scorer = scorer_of(checkpoint, text)
    scorer.task.load_dataset("test:law")
    found = scorer.score(scorer.batches("law", "test"), scorer.over(["law"]), [0, 3])
    sizes = scorer.task.dataset("test:law").sizes
    assert found[0].tokens == sizes.sum()
    assert found[3].tokens == (sizes - 3).clip(min=0).sum()
    assert 0 < found[3].nats < found[0].nats


def test_batches_make_no_difference(checkpoint: Path, text: Path) -> None:
    scorers = [  # the smallest has no room for a block
        LanguageModelScorer.load(checkpoint, text, tokens_per_sample=toy_text.BLOCK, max_tokens=size, cpu=True)
        for size in (3, 8, 256)
    ]
    found = [s.score(s.batches("sub", "test"), s.over(["sub"]))[0] for s in scorers]
    assert len({likelihood.tokens for likelihood in found}) == 1
    assert [likelihood.nats for likelihood in found] == pytest.approx([found[0].nats] * 3, rel=1e-5)


def test_drawn_batches_are_a_fixed_part_of_the_text(checkpoint: Path, text: Path) -> None:
    scorer = scorer_of(checkpoint, text)
    (first, count), (second, _) = (scorer.drawn_batches("law", "train", 5, seed=1) for _ in range(2))
    assert count == 5 == sum(len(batch["id"]) for batch in first)
    assert all(torch.equal(a["target"], b["target"]) for a, b in zip(first, second, strict=True))
    assert scorer.drawn_batches("law", "test", 10**6, seed=1)[1] == len(scorer.task.dataset("test:law"))


def test_too_long_blocks_are_refused(checkpoint: Path, text: Path) -> None:
    with pytest.raises(InputError, match="tokens-per-sample: 100000 is more than"):
        LanguageModelScorer.load(checkpoint, text, tokens_per_sample=100_000, cpu=True)


def test_a_run_is_measured_over_all_that_is_asked_for(checkpoint: Path, text: Path, tmp_path: Path) -> None:
    """In domain over its own path; unseen over all, each, families and chosen ones, the best of other text first."""
    unseen = toy_text.make_text(tmp_path / "unseen", ["new"], (20,), toy_text.make_dictionary())
    splits = tmp_path / "splits"
    for name in [*toy_text.DOMAINS, "new"]:
        (splits / name).mkdir(parents=True)
        (splits / name / "test.txt").write_text("two words\nand three more\n", encoding="utf-8")
    folder = tmp_path / "out"
    folder.mkdir()
    measure(folder, Places(checkpoint, text, unseen, splits), WHAT, max_tokens=64, cpu=True)
    record = json.loads((folder / "perplexity.json").read_text())
    assert sorted(path.name for path in folder.iterdir()) == ["perplexity.json"]
    assert record["nats"]["law"].keys() == {"own"}
    assert record["nats"]["new"].keys() == {
        "all", "path:law", "path:med", "path:sub", "below:science", "chosen:1", "chosen:2",
    }  # fmt: skip
    ranking, losses = record["choices"]["ranking"]["new"], record["choices"]["losses"]["new"]
    assert ranking == sorted(losses, key=losses.__getitem__)
    assert record["nats"]["new"]["chosen:1"] == record["nats"]["new"][f"path:{ranking[0]}"]
    assert record["choices"]["sequences"] == {"new": 4}
    assert record["sets"]["new"]["words"] == 5
    # The same figure as by itself.
    scorer = scorer_of(checkpoint, unseen)
    both = scorer.score(scorer.batches("new", "test"), scorer.over(["law", "med"]))[0]
    assert record["nats"]["new"]["below:science"] == pytest.approx(both.nats, rel=1e-5)
    assert record["sets"]["new"]["tokens"] == both.tokens


def test_measured_domains_are_taken_over(checkpoint: Path, text: Path, tmp_path: Path) -> None:
    splits = tmp_path / "splits"
    for name in toy_text.DOMAINS:
        (splits / name).mkdir(parents=True)
        (splits / name / "test.txt").write_text("a word\n", encoding="utf-8")
    folder = tmp_path / "out"
    (folder / "domains").mkdir(parents=True)
    part = {
        "sets": {"tokens": 1, "words": 1, "tokens_after": {}},
        "nats": {"own": 7.0},
        "nats_after": {},
        "choices": {},
    }
    (folder / "domains" / "law.json").write_text(json.dumps(part))
    measure(folder, Places(checkpoint, text, None, splits), WHAT, cpu=True)
    nats = json.loads((folder / "perplexity.json").read_text())["nats"]
    assert nats["law"] == {"own": 7.0}
    assert nats["med"]["own"] != 7.0


def test_families_are_inner_nodes_of_some_leaves() -> None:
    tree = tree_from_json(json.dumps(toy_text.TREE), "toy")
    assert families_of(tree) == {"science": ["law", "med"]}
    assert families_of(multi_tree(["a", "b"])) == families_of(single_tree(["a", "b"])) == {}


def test_single_adapters_have_each_path_and_no_choice() -> None:
    what = Measurement("single", 8, (1, 2), (), every_path=True, sequences=4, seed=1)
    found = paths_of_routings(what, single_tree(["a", "b"]), "new", [], is_unseen=True)
    assert found == {"all": ["a", "b"], "path:a": ["a"], "path:b": ["b"]}


def test_paths_are_chosen_by_votes_and_none_without() -> None:
    tree = tree_from_json(json.dumps(toy_text.TREE), "toy")
    what = Measurement("tree", 8, (1, 2), (), every_path=False, sequences=4, seed=1)
    by_votes = paths_of_routings(what, tree, "new", {"law": 3, "sub": 1}, is_unseen=True)
    assert [by_votes[f"chosen:{k}"] for k in (1, 2)] == [{"law": 3}, {"law": 3, "sub": 1}]
    assert paths_of_routings(what, tree, "new", {"law": 4}, is_unseen=True)["chosen:2"] == {"law": 4}
    ranked = paths_of_routings(what, tree, "new", ["law", "sub", "med"], is_unseen=True)
    assert ranked["chosen:2"] == ["law", "sub"]


def test_costs_are_those_of_a_path_of_mean_length(checkpoint: Path, text: Path, tmp_path: Path) -> None:
    scorer = scorer_of(checkpoint, text)
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
