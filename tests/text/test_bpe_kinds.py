"""GPT-2's symbols in fairseq's order, and text through both libraries' encoders."""

import random
from pathlib import Path

import pytest
from fairseq.data import Dictionary
from fairseq.data.encoders.gpt2_bpe_utils import bytes_to_unicode
from tokenizers.implementations import ByteLevelBPETokenizer

from fairseq_ext.text.bpe_kinds import END_OF_TEXT, GPT2
from fairseq_ext.text.byte_level_bpe import ByteLevelBpe, byte_symbols, read_imported_bpe
from tests.hugging_face.tiny_gpt2 import make_imported_bpe
from tests.text.odd_texts import ODD_TEXTS, fairseq_bpe


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_imported_bpe(tmp_path_factory.mktemp("bpe"))


def test_dictionary_is_the_vocabulary_in_another_order(imported: Path) -> None:
    vocabulary, dictionary = read_imported_bpe(imported, GPT2), Dictionary.load(str(imported / "dict.txt"))
    order = vocabulary.order()
    assert sorted(order) == list(range(len(vocabulary)))
    assert len(dictionary) == len(vocabulary)
    assert [dictionary[row] for row in range(4, len(order))] == [str(number) for number in order[4:]]
    assert order[4:] == sorted(order[4:])
    assert order[dictionary.eos()] == vocabulary.ids[END_OF_TEXT]
    symbols = {number: symbol for symbol, number in vocabulary.ids.items()}
    for row, byte in ((dictionary.bos(), 0xFF), (dictionary.pad(), 0xFE), (dictionary.unk(), 0xFD)):
        assert symbols[order[row]] == bytes_to_unicode()[byte]


def test_text_is_encoded_as_by_hugging_face_and_comes_back(imported: Path) -> None:
    rng = random.Random(1)
    texts = ODD_TEXTS + ["".join(rng.choices("aé 🙂\n\r\t'st1½。<|>", k=20)) for _ in range(200)]
    ours, dictionary = fairseq_bpe(imported), Dictionary.load(str(imported / "dict.txt"))
    theirs = ByteLevelBPETokenizer.from_file(str(imported / "vocab.json"), str(imported / "merges.txt"))
    for text in texts:
        encoded = ours.encode(text)
        assert encoded.split() == [str(number) for number in theirs.encode(text).ids]
        rows = dictionary.encode_line(encoded, add_if_not_exist=False)
        # No text uses the rows that stand for special symbols, but for the one that ends it.
        assert [int(row) for row in rows if row < 4] == [dictionary.eos()]
        assert ours.decode(dictionary.string(rows)) == text


def test_order_by_hand() -> None:
    ids = {**{symbol: 2 + n for n, symbol in enumerate(byte_symbols())}, "ab": 0, END_OF_TEXT: 1}
    vocabulary = ByteLevelBpe(ids, ["a b"], GPT2)
    assert vocabulary.order() == [257, 256, 1, 255, 0, *range(2, 255)]
    assert vocabulary.dictionary_lines()[:2] == ["0 1", "2 1"]
