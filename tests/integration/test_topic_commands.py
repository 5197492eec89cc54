"""fairseq's own command lines with the topic aware transformer, as a user types them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from tests import toy_text
from tests.integration.test_command_lines import TINY, run_well, weights

pytestmark = pytest.mark.slow

TEXTS = ["--task", "multi_domain_language_modeling", "--tokens-per-sample", str(toy_text.BLOCK),
         "--sample-break-mode", "eos", "--shorten-method", "truncate"]  # fmt: skip
TOPICS = ["--arch", "transformer_lm_topic_tiny", "--num-topics", "3", "--criterion", "topic_language_modeling",
          "--finetune-from-model", "base/checkpoint_best.pt"]  # fmt: skip


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_text.make_text(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def trained(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base, and topics on it after three updates of an epoch of more."""
    root = tmp_path_factory.mktemp("trained-topics")
    common = [str(text), *TEXTS, *TINY]
    run_well("train", *common, "--arch", toy_text.PLAIN, "--save-dir", "base", cwd=root)
    log = run_well("train", *common, *TOPICS, "--max-update", "3", "--save-dir", "topics", cwd=root)
    for figure in ("tdm_loss", "topic_entropy", "dead_topics", "ppl_law", "ppl_avg"):
        assert re.search(rf"valid on 'valid' .* {figure} [\d.]+", log), figure
    return root


def perplexity(text: Path, trained: Path, system: str, *extra: str) -> float:
    printed = run_well(
        "eval_lm", str(text), *TEXTS, "--path", f"{system}/checkpoint_last.pt", "--gen-subset", "train:law", "--cpu",
        "--batch-size", "3", "--num-workers", "0", *extra, cwd=trained,
    )  # fmt: skip
    match = re.search(r"Loss \(base 2\): [\d.]+, Perplexity: ([\d.]+)", printed)
    assert match is not None
    return float(match[1])


def test_training_stops_and_goes_on(text: Path, trained: Path) -> None:
    base, first = weights(trained / "base/checkpoint_best.pt"), weights(trained / "topics/checkpoint_last.pt")
    common = [str(text), *TEXTS, *TINY, *TOPICS, "--max-update", "6"]
    run_well("train", *common, "--save-dir", "whole", cwd=trained)
    run_well("train", *common, "--save-dir", "topics", cwd=trained)
    whole, last = weights(trained / "whole/checkpoint_last.pt"), weights(trained / "topics/checkpoint_last.pt")
    moved = {name for name, value in last.items() if not torch.equal(value, first[name])}
    assert moved == last.keys() - base.keys()
    assert all(torch.equal(last[name], value) for name, value in (base | whole).items())
    assert perplexity(text, trained, "topics") < perplexity(text, trained, "base")
    alone = [perplexity(text, trained, "topics", "--topic", str(topic)) for topic in (0, 3)]
    assert alone[0] != alone[1]
