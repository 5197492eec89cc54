"""What fairseq's own unit tests check, by their names, holds with the user directory as it does without.

Dictionaries, losses, positions, search and resumed epochs are compared to the last digit by ``test_fairseq_tasks.py``.
"""

import subprocess
import sys
from argparse import Namespace
from collections import OrderedDict

import pytest
import torch
from fairseq.data import (
    ConcatDataset,
    Dictionary,
    LanguagePairDataset,
    ListDataset,
    TokenBlockDataset,
    data_utils,
    iterators,
    noising,
)
from fairseq.data.multi_corpus_sampled_dataset import MultiCorpusSampledDataset
from fairseq.models.lstm import LSTMModel
from fairseq.modules import CharacterTokenEmbedder
from fairseq.tasks import TASK_REGISTRY

pytestmark = pytest.mark.slow


@pytest.fixture
def words() -> Dictionary:
    found = Dictionary()
    for word in ("he@@", "llo", "how", "are", "y@@", "ou"):
        found.add_symbol(word)
    found.finalize(padding_factor=1)
    return found


def pairs(words: Dictionary, *lines: str) -> LanguagePairDataset:
    texts = [words.encode_line(line, add_if_not_exist=False).long() for line in lines]
    data = ListDataset(texts, [len(text) for text in texts])
    return LanguagePairDataset(data, data.sizes, words, data, data.sizes, words, left_pad_source=False)


def test_iterators() -> None:
    counting = iterators.CountingIterator(range(10))
    assert [next(counting), next(counting), counting.n] == [0, 1, 2]
    counting.skip(3)
    assert (next(counting), counting.has_next(), list(counting)) == (5, True, [6, 7, 8, 9])
    assert list(iterators.GroupedIterator(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert list(iterators.ShardedIterator(range(5), 2, 1, fill_value=-1)) == [1, 3, -1]
    assert list(iterators.BufferedIterator(2, list(range(5)))) == [0, 1, 2, 3, 4]


def test_character_token_embedder() -> None:
    vocabulary = Dictionary()
    for word in ("hello", "there"):
        vocabulary.add_symbol(word)
    embedder = CharacterTokenEmbedder(vocabulary, [(2, 16), (3, 16)], 8, 5, 2)
    rows = embedder(torch.tensor([[vocabulary.index("hello"), vocabulary.index("there")], [vocabulary.pad()] * 2]))
    assert rows.shape == (2, 2, 5)
    assert not rows[1].any()
    torch.testing.assert_close(embedder(torch.tensor([[vocabulary.index("there")]]))[0, 0], rows[0, 1])


def test_lstm_jitable(words: Dictionary) -> None:
    model = LSTMModel.build_model(
        Namespace(
            encoder_embed_dim=8, encoder_hidden_size=8, encoder_layers=1, encoder_bidirectional=False, dropout=0.0,
            decoder_embed_dim=8, decoder_hidden_size=8, decoder_layers=1, decoder_out_embed_dim=8,
            decoder_attention=True, adaptive_softmax_cutoff=None, criterion="cross_entropy",
        ),
        Namespace(source_dictionary=words, target_dictionary=words),
    ).eval()  # fmt: skip
    batch = pairs(words, "how are y@@ ou", "he@@ llo").collater([pairs(words, "how are")[0]])["net_input"]
    scripted = torch.jit.script(model)
    torch.testing.assert_close(scripted(**batch)[0], model(**batch)[0])


def test_noising(words: Dictionary) -> None:
    text, lengths = data_utils.collate_tokens([words.encode_line("he@@ llo how are y@@ ou").long()], words.pad()), [7]
    column, size = text.t(), torch.tensor(lengths)
    with data_utils.numpy_seed(1234):
        kept, left = noising.WordDropout(words).noising(column, size, 0.0)
        assert torch.equal(kept, column)
        dropped, left = noising.WordDropout(words).noising(column, size, 0.5)
        shuffled, _ = noising.WordShuffle(words).noising(column, size, 3)
    assert left.item() == (dropped != words.pad()).sum() < 7
    tokens = shuffled[:, 0].tolist()
    assert sorted(tokens) == sorted(column[:, 0].tolist())
    assert tokens.index(words.index("llo")) == tokens.index(words.index("he@@")) + 1  # words stay whole


def test_token_block_dataset() -> None:
    lines = [torch.tensor([5, 4, 3, 2, 1]), torch.tensor([8, 7, 6, 1]), torch.tensor([9, 1])]
    for mode, found in (
        ("none", [[5, 4, 3, 2], [1, 8, 7, 6], [1, 9, 1]]),
        ("complete", [[5, 4, 3, 2, 1], [8, 7, 6, 1, 9, 1]]),
    ):
        blocks = TokenBlockDataset(lines, [5, 4, 2], 4 if mode == "none" else 6, pad=0, eos=1, break_mode=mode)
        assert [block.tolist() for block in blocks] == found


def test_datasets_join_and_take_turns(words: Dictionary) -> None:
    data = [pairs(words, "how are"), pairs(words, "he@@ llo", "y@@ ou")]
    assert len(ConcatDataset(data, [2, 1])) == 4
    both = MultiCorpusSampledDataset(OrderedDict(enumerate(data)), sampling_func=max)
    both.ordered_indices()
    assert both.collater([both[0]])["nsentences"] == 1
    assert both[0][1]["source"].tolist() in [line["source"].tolist() for line in data[1]]


def test_all_pass_without_the_user_directory() -> None:
    if "multi_domain_translation" in TASK_REGISTRY:
        command = [sys.executable, "-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", __file__]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == 0, done.stdout[-2000:]
