"""What fairseq's own unit tests check, by their names, holds with the user directory as it does without."""

import subprocess
import sys
from argparse import Namespace
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq import utils
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.data import (
    BacktranslationDataset,
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
from fairseq.models.transformer import TransformerModel, base_architecture
from fairseq.modules import CharacterTokenEmbedder, SinusoidalPositionalEmbedding
from fairseq.optim.adam import FairseqAdam
from fairseq.sequence_generator import SequenceGenerator
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


def tiny(words: Dictionary) -> TransformerModel:
    args = Namespace(encoder_embed_dim=8, encoder_ffn_embed_dim=8, encoder_layers=1, encoder_attention_heads=2)
    args.decoder_layers, args.decoder_attention_heads, args.dropout = 1, 2, 0.0
    base_architecture(args)
    torch.manual_seed(1)
    return TransformerModel.build_model(args, Namespace(source_dictionary=words, target_dictionary=words)).eval()


def test_dictionary(words: Dictionary, tmp_path: Path) -> None:
    line = words.encode_line("he@@ llo new", add_if_not_exist=False)
    assert line.tolist() == [words.index("he@@"), words.index("llo"), words.unk(), words.eos()]
    assert words.string(line, bpe_symbol="@@ ") == "hello <unk>"
    words.save(str(tmp_path / "dict.txt"))
    assert Dictionary.load(str(tmp_path / "dict.txt")).symbols == words.symbols


def test_iterators() -> None:
    counting = iterators.CountingIterator(range(10))
    assert [next(counting), next(counting), counting.n] == [0, 1, 2]
    counting.skip(3)
    assert (next(counting), counting.has_next(), list(counting)) == (5, True, [6, 7, 8, 9])
    assert list(iterators.GroupedIterator(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert list(iterators.ShardedIterator(range(5), 2, 1, fill_value=-1)) == [1, 3, -1]
    assert list(iterators.BufferedIterator(2, list(range(5)))) == [0, 1, 2, 3, 4]


def test_train_resumes_an_epoch_at_its_batch(words: Dictionary) -> None:
    def batches() -> iterators.EpochBatchIterator:
        data = pairs(words, *["how are"] * 6)
        return iterators.EpochBatchIterator(data, data.collater, [[number] for number in range(6)], seed=5)

    first = batches()
    rows = first.next_epoch_itr()
    seen = [int(next(rows)["id"][0]) for _ in range(4)]
    second = batches()
    second.load_state_dict(first.state_dict())
    seen += [int(batch["id"][0]) for batch in second.next_epoch_itr()]
    assert sorted(seen) == list(range(6))
    assert seen == [int(batch["id"][0]) for batch in batches().next_epoch_itr()]


def test_label_smoothing() -> None:
    scores = torch.log(torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]))
    loss, plain = label_smoothed_nll_loss(scores, torch.tensor([0, 1]), 0.1, ignore_index=1)
    smooth = -(np.log(0.5) * 0.9 + 0.05 * np.log(0.25) * 2)
    assert (loss.item(), plain.item()) == pytest.approx((smooth, -np.log(0.5)))


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


def test_sequence_generator_and_backtranslation(words: Dictionary) -> None:
    model, lines = tiny(words), pairs(words, "how are", "he@@ llo y@@ ou")
    generator = SequenceGenerator([model], words, beam_size=3, max_len_b=8, normalize_scores=False)
    batch = lines.collater([lines[0], lines[1]])
    for found, own in zip(generator.generate([model], batch), batch["net_input"]["src_tokens"], strict=True):
        best = found[0]
        assert found == sorted(found, key=lambda each: -each["score"])
        words_before = torch.cat([best["tokens"].new_tensor([words.eos()]), best["tokens"][:-1]])[None]
        alone = utils.strip_pad(own, words.pad())[None]
        scores = model.get_normalized_probs(model(alone, torch.tensor([alone.size(1)]), words_before), log_probs=True)
        forced = scores[0].gather(1, best["tokens"][:, None])[:, 0]
        torch.testing.assert_close(forced, best["positional_scores"], rtol=0, atol=1e-4)
    texts = ListDataset([line["target"] for line in lines], [3, 5])
    back = BacktranslationDataset(
        LanguagePairDataset(texts, texts.sizes, words),
        words,
        backtranslation_fn=lambda own: generator.generate([model], own),
        output_collater=lines.collater,
        cuda=False,
    )
    assert sorted(back.collater([back[0], back[1]])["target"].shape) == [2, 5]


def test_positions_skip_padding() -> None:
    assert utils.make_positions(torch.tensor([[9, 8, 1], [1, 9, 8]]), 1).tolist() == [[2, 3, 1], [1, 2, 3]]
    found = SinusoidalPositionalEmbedding(6, 1, 10)(torch.tensor([[9, 8, 1]]))
    assert not found[0, 2].any()
    assert found[0, 0].any()


def test_inference_drops_nothing_and_optimisers_step(words: Dictionary) -> None:
    model = tiny(words)
    batch = pairs(words, "how are").collater([pairs(words, "how are")[0]])["net_input"]
    before = model(**batch)[0]
    assert torch.equal(model(**batch)[0], before)
    options = Namespace(
        lr=[0.1],
        adam_betas="(0.9, 0.98)",
        adam_eps=1e-8,
        weight_decay=0.0,
        use_old_adam=True,
        fp16_adam_stats=False,
        tpu=False,
    )
    optimizer = FairseqAdam(options, [each for each in model.parameters() if each.requires_grad])
    optimizer.backward(before.sum())
    optimizer.step()
    assert not torch.equal(model(**batch)[0], before)


def test_all_pass_without_the_user_directory() -> None:
    if "multi_domain_translation" in TASK_REGISTRY:
        command = [sys.executable, "-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", __file__]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == 0, done.stdout[-2000:]
