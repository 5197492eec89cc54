"""States of a language model, averaged without padding; scores that are fairseq-eval-lm's, and sums by hand."""

import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq import options
from fairseq.data import data_utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli import eval_lm as fairseq_eval_lm

from fairseq_ext.base.errors import InputError
from fairseq_ext.experiments.scoring import LanguageModel, LanguageModelScorer
from tests import toy, toy_text
from tests.experiments.small_lm import BLOCK, make_checkpoint, make_data


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("small-lm") / "data")


@pytest.fixture(scope="module")
def model(data: Path) -> LanguageModel:
    return LanguageModel.load(make_checkpoint(data.parent / "lm.pt", data), data, cpu=True)


def test_states_are_the_decoders_last_averaged_without_padding(data: Path, model: LanguageModel) -> None:
    assert model.tokens_per_sample == BLOCK
    blocks = model.draw_blocks(data / "law/train", BLOCK, count=7, seed=1, domain="law")
    with torch.no_grad():
        features = model.model.decoder(blocks, features_only=True)[0]
    padded = blocks.clone()
    padded[:, 5:] = model.dictionary.pad()
    # The states of the first tokens do not depend on those after them.
    for given, length in ((blocks, BLOCK), (padded, 5)):
        expected = features[:, :length].mean(1).numpy()
        np.testing.assert_allclose(model.encode(given), expected, rtol=1e-5, atol=1e-6)


def test_blocks_are_stretches_of_one_domain_and_drawn_once(data: Path, model: LanguageModel) -> None:
    lines = data_utils.load_indexed_dataset(str(data / "tax" / "train"), model.dictionary)
    text = torch.cat([lines[row] for row in range(len(lines))])
    draw = partial(model.draw_blocks, data / "tax/train", length=8, domain="tax")
    every, some = draw(count=len(text) // 8, seed=1), draw(count=9, seed=1)
    assert torch.equal(every.flatten(), text[: every.numel()])
    rows = [int((every == block).all(1).nonzero()[0]) for block in some]
    assert rows == sorted(set(rows))
    assert not torch.equal(some, draw(count=9, seed=2))
    assert torch.equal(draw(count=10**6, seed=1, takes_fewer=True), every)


def test_unfit_data_and_checkpoints_are_refused(data: Path, model: LanguageModel, tmp_path: Path) -> None:
    checkpoint = data.parent / "lm.pt"
    for split, length, takes_fewer in (("train", 8, False), ("train", 100_000, True), ("test", 8, False)):
        with pytest.raises(InputError, match=f"tax/{split}"):
            model.draw_blocks(data / "tax" / split, length, 10_000, 1, domain="tax", takes_fewer=takes_fewer)
    assert (model.block_length(0), model.block_length(5)) == (BLOCK, 5)
    with pytest.raises(InputError, match=f"--tokens: {BLOCK + 1}"):
        model.block_length(BLOCK + 1)
    (tmp_path / "dict.txt").write_text((data / "dict.txt").read_text() + "more 1\n")
    with pytest.raises(InputError, match=r"lm\.pt: has 44 symbols, but .*dict\.txt has 45"):
        LanguageModel.load(checkpoint, tmp_path, cpu=True)
    state = torch.load(checkpoint, weights_only=True)
    torch.save({**state, "model": {"encoder.x": torch.ones(1), "decoder.x": torch.ones(1)}}, tmp_path / "mt.pt")
    with pytest.raises(InputError, match=r"mt\.pt"):
        LanguageModel.load(tmp_path / "mt.pt", data, cpu=True)


TEXTS = ["w1 w2 w3", "", "w4", "w1 w2 w3 unknown w5 w6", "w4", "w9 w8"]


def by_hand(lm: LanguageModel, text: str) -> float:
    """One word after another, each from all that is before it."""
    numbers = [lm.dictionary.eos(), *(lm.dictionary.index(word) for word in text.split()), lm.dictionary.eos()]
    total = 0.0
    for end in range(1, len(numbers)):
        logits = lm.model(torch.tensor([numbers[:end]]))[0][0, -1]
        total += torch.log_softmax(logits.double(), -1)[numbers[end]].item()
    return total


@pytest.mark.parametrize("max_tokens", [1, 12, 4096])
def test_score_is_the_sum_over_words_and_end(data: Path, max_tokens: int) -> None:
    checkpoint = make_checkpoint(data.parent / "gru.pt", data, "dagru_lm_tiny", combination="none")
    lm = LanguageModel.load(checkpoint, data, cpu=True)
    with torch.inference_mode():
        expected = [by_hand(lm, text) for text in TEXTS]
    assert lm.score_lines(TEXTS, max_tokens).tolist() == pytest.approx(expected, rel=1e-5)


@pytest.fixture(scope="module")
def models(text: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A plain model, and one with hierarchical adapters whose nodes differ, as checkpoints."""
    folder, size = tmp_path_factory.mktemp("models"), {"tokens_per_sample": toy_text.BLOCK}
    tree = toy_text.write_tree(folder / "tree.json")
    return {
        "plain": make_checkpoint(folder / "plain.pt", text, toy_text.PLAIN, **size),
        "tree": make_checkpoint(folder / "tree.pt", text, toy_text.HIER, tree=tree, **size),
    }


load_scorer = partial(LanguageModelScorer.load, tokens_per_sample=toy_text.BLOCK, cpu=True)


def eval_lm(checkpoint: Path, text: Path, *extra: str) -> float:
    """The perplexity that fairseq-eval-lm finds."""
    args = options.parse_args_and_arch(options.get_eval_lm_parser(), [
        str(text), "--user-dir", toy.USER_DIR, "--cpu", "--path", str(checkpoint), "--task",
        "multi_domain_language_modeling", "--tokens-per-sample", str(toy_text.BLOCK), "--max-tokens", "32",
        "--num-workers", "0", *extra,
    ])  # fmt: skip
    return 2 ** float(fairseq_eval_lm.main(convert_namespace_to_omegaconf(args))["loss"])


@pytest.mark.parametrize(
    ("model", "paths", "routing"),
    [("tree", ["law"], []), ("tree", ["med", "sub"], ["--paths", "med,sub"]), ("plain", [], [])],
)
def test_agrees_with_fairseq_eval_lm(
    models: dict[str, Path], text: Path, model: str, paths: list[str], routing: list[str]
) -> None:
    scorer = load_scorer(models[model], text, max_tokens=32)
    found = scorer.score(scorer.batches("law", "test"), paths)
    theirs = eval_lm(models[model], text, "--gen-subset", "test:law", *routing)
    assert math.exp(found.nats / found.tokens) == pytest.approx(theirs, rel=1e-4)


def test_every_token_counts_once_in_batches_of_any_size(models: dict[str, Path], text: Path) -> None:
    results = []
    for size in (3, 256):  # the smaller has no room for a block
        scorer = load_scorer(models["tree"], text, max_tokens=size)
        results.append(scorer.score(scorer.batches("law", "test"), ["law"]))
    small, large = results
    sizes = scorer.task.dataset("test:law").sizes
    assert small.tokens == large.tokens == sizes.sum()
    assert small.nats == pytest.approx(large.nats, rel=1e-5)
    with pytest.raises(InputError, match="tokens-per-sample: 100000 is too long"):
        load_scorer(models["tree"], text, tokens_per_sample=100_000)
