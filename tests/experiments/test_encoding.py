"""States of a language model: averages without padding, of the base, of blocks drawn at random."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq.data import data_utils

from fairseq_ext.base.errors import InputError
from fairseq_ext.experiments.encoding import LanguageModel
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
