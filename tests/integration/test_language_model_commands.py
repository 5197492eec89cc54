"""fairseq's own command lines with language models of several domains, as a user types them."""

import re
from pathlib import Path

import pytest
import torch

from tests import toy_text
from tests.integration.test_command_lines import TINY, run_well, weights

pytestmark = pytest.mark.slow

BLOCKS = ["--task", "multi_domain_language_modeling", "--tokens-per-sample", str(toy_text.BLOCK)]


@pytest.fixture(scope="module")
def trained(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base, and the hierarchical adapters on it."""
    root = tmp_path_factory.mktemp("trained-lm")
    tree = toy_text.write_tree(root / "tree.json")
    common = [str(text), *BLOCKS, *TINY]
    run_well("train", *common, "--arch", toy_text.PLAIN, "--save-dir", "base", cwd=root)
    start = ["--arch", toy_text.HIER, "--finetune-from-model", "base/checkpoint_best.pt", "--update-freq", "2"]
    log = run_well("train", *common, *start, "--tree", str(tree), "--save-dir", "hier", cwd=root)
    assert all(
        re.search(rf"valid on 'valid' .* {kind}_{name} ", log) for kind in ("loss", "ppl") for name in ("law", "avg")
    )
    tree.unlink()  # the checkpoint has it
    return root


def test_processes_with_other_nodes_each_train_as_one_and_go_on(text: Path, trained: Path, tmp_path: Path) -> None:
    """Batches are of one domain each, so that a step of two processes has nodes that only one of them reached."""
    tree = toy_text.write_tree(tmp_path / "tree.json")
    common = [
        str(text), *BLOCKS, *TINY, "--arch", toy_text.HIER, "--tree", str(tree), "--single-domain-batches",
        "--finetune-from-model", str(trained / "base/checkpoint_best.pt"), "--batch-size", "3", "--clip-norm", "1",
        "--weight-decay", "0.1", "--dropout", "0",
    ]  # fmt: skip
    run_well("train", *common, "--update-freq", "2", "--save-dir", "one", cwd=tmp_path)
    both = [*common, "--cpu-processes", "2"]
    log = run_well("train", *both, "--save-dir", "two", cwd=tmp_path)
    assert log.count("begin training epoch 1") == 1
    run_well("train", *both, "--save-dir", "parts", "--max-update", "3", cwd=tmp_path)
    run_well("train", *both, "--save-dir", "parts", cwd=tmp_path)
    one, whole, parts = (weights(tmp_path / name / "checkpoint_last.pt") for name in ("one", "two", "parts"))
    assert all(torch.equal(parts[name], value) for name, value in whole.items())
    for name, value in one.items():
        torch.testing.assert_close(whole[name], value, atol=2e-4, rtol=1e-3)


def test_training_left_the_base_as_it_was(trained: Path) -> None:
    base, adapted = weights(trained / "base/checkpoint_best.pt"), weights(trained / "hier/checkpoint_last.pt")
    assert all(torch.equal(adapted[name], value) for name, value in base.items())
    changed = adapted["decoder.layers.0.adapter.bank.up_weight"]
    assert changed.flatten(1).abs().amax(1).gt(0).all()  # every node has learnt something


def test_evaluation_over_own_and_no_paths(text: Path, trained: Path) -> None:
    def loss(system: str, *extra: str) -> float:
        printed = run_well(
            "eval_lm", str(text), *BLOCKS, "--path", f"{system}/checkpoint_best.pt", "--gen-subset", "test", "--cpu",
            "--batch-size", "3", "--num-workers", "0", *extra, cwd=trained,
        )  # fmt: skip
        [found] = re.findall(r"Loss \(base 2\): ([\d.]+), Perplexity: ", printed)
        return float(found)

    base = loss("base")
    assert loss("hier") < base  # it learnt more of the same text
    assert loss("hier", "--paths", "none") == base
