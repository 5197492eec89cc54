"""GPT-2's symbols in fairseq's order, and text through both libraries' encoders."""

import json
import random
from pathlib import Path

import pytest
from fairseq.data import Dictionary
from fairseq.data.encoders.gpt2_bpe import GPT2BPE, GPT2BPEConfig
from fairseq.data.encoders.gpt2_bpe_utils import bytes_to_unicode
from tokenizers.implementations import ByteLevelBPETokenizer

from fairseq_ext.corpora.text_files import write_lines
from fairseq_ext.errors import InputError
from fairseq_ext.gpt2.vocabulary import (
    DICT_FILE,
    Vocabulary,
    byte_symbols,
    read_imported,
    read_vocabulary,
    write_vocabulary,
)
from tests.gpt2.tiny_gpt2 import END_OF_TEXT, make_bpe

ODD_TEXTS = [
    "plain text", " leading and trailing ", "two  spaces\tand a tab", "CRLF\r\nline\rend\n\n", "it's we'll I'd 'S",
    "🙂👍🏽 family 👨‍👩‍👧", "é vs e\u0301, \u00ad\u200b\ufeff", "\u2028\x1c\x00", "12,345.6 % ½ ²",
    "ÿþý are letters here", "<|endoftext|> as text", "<s> <unk> </s>", "العربية 中文 ไทย", "", " ",
]  # fmt: skip


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The vocabulary files that an import writes."""
    folder = tmp_path_factory.mktemp("bpe")
    make_bpe(folder / "source")
    vocabulary = read_vocabulary(folder / "source")
    write_vocabulary(folder, vocabulary)
    write_lines(folder / DICT_FILE, vocabulary.dictionary_lines())
    return folder


def fairseq_bpe(folder: Path) -> GPT2BPE:
    files = {"gpt2_encoder_json": folder / "vocab.json", "gpt2_vocab_bpe": folder / "merges.txt"}
    return GPT2BPE(GPT2BPEConfig(**{key: str(path) for key, path in files.items()}))


def test_bytes_are_written_as_fairseq_writes_them() -> None:
    assert byte_symbols() == [bytes_to_unicode()[byte] for byte in range(256)]


def test_dictionary_is_the_vocabulary_in_another_order(imported: Path) -> None:
    vocabulary, dictionary = read_imported(imported), Dictionary.load(str(imported / DICT_FILE))
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
    ours, dictionary = fairseq_bpe(imported), Dictionary.load(str(imported / DICT_FILE))
    theirs = ByteLevelBPETokenizer.from_file(str(imported / "vocab.json"), str(imported / "merges.txt"))
    for text in texts:
        encoded = ours.encode(text)
        assert encoded.split() == [str(number) for number in theirs.encode(text).ids]
        rows = dictionary.encode_line(encoded, add_if_not_exist=False)
        # No text uses the rows that stand for special symbols, but for the one that ends it.
        assert [int(row) for row in rows if row < 4] == [dictionary.eos()]
        assert ours.decode(dictionary.string(rows)) == text


def test_tokenizer_json_is_read_too(imported: Path, tmp_path: Path) -> None:
    theirs = ByteLevelBPETokenizer.from_file(str(imported / "vocab.json"), str(imported / "merges.txt"))
    theirs.save(str(tmp_path / "tokenizer.json"))
    assert read_vocabulary(tmp_path).ids == read_vocabulary(imported).ids
    assert list(read_vocabulary(tmp_path).merges) == list(read_vocabulary(imported).merges)


def test_written_files_do_not_depend_on_the_form_read(imported: Path, tmp_path: Path) -> None:
    write_vocabulary(tmp_path, read_vocabulary(imported.joinpath("source")))
    for name in ("vocab.json", "merges.txt"):
        assert (tmp_path / name).read_bytes() == (imported / name).read_bytes()
    # fairseq reads it in the machine's encoding.
    assert (tmp_path / "vocab.json").read_bytes().isascii()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda ids: ids.pop("ÿ"), r"vocab\.json: the \d+ symbols are not numbered"),
        (lambda ids: ids.update({"a": ids["b"]}), r"not numbered 0 to \d+, each once"),
        (lambda ids: ids.update({"a": "7"}), r"vocab\.json: the number of 'a' is '7', which is no whole number"),
        (lambda ids: ids.update({"a": True}), r"the number of 'a' is True"),
        (lambda ids: ids.update({"endoftext": ids.pop(END_OF_TEXT)}), r"'<\|endoftext\|>' is missing; a byte-level"),
        (lambda ids: ids.update({"yy": ids.pop("ÿ")}), r"vocab\.json: 'ÿ' is missing"),
    ],
)
def test_other_vocabularies_are_refused(imported: Path, tmp_path: Path, spoil: object, message: str) -> None:
    ids = json.loads((imported / "vocab.json").read_text())
    spoil(ids)  # type: ignore[operator]
    (tmp_path / "vocab.json").write_text(json.dumps(ids))
    (tmp_path / "merges.txt").write_bytes((imported / "merges.txt").read_bytes())
    with pytest.raises(InputError, match=message) as caught:
        read_vocabulary(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("merges.txt", "#version: 0.2\na b c\n", r"merges\.txt: merge 1 \('a b c'\) is no pair"),
        ("merges.txt", "#version: 0.2\nq zzz\n", r"merge 1 \('q zzz'\) is no pair"),
        ("merges.txt", "", r"merges\.txt: is empty"),
        ("vocab.json", '{"a": 1', r"vocab\.json: is no JSON, or cut off"),
        ("vocab.json", "[]", r"vocab\.json: expected an object of names and values, got list"),
        ("vocab.json", "[" * 100_000, r"vocab\.json: is no JSON"),
        ("vocab.json", '{"a": ' + "9" * 10_000 + "}", r"vocab\.json: is no JSON"),
    ],
)
def test_damaged_files_are_one_clear_line(
    imported: Path, tmp_path: Path, name: str, content: str, message: str
) -> None:
    for file in ("vocab.json", "merges.txt"):
        (tmp_path / file).write_bytes((imported / file).read_bytes())
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        read_vocabulary(tmp_path)
    assert "\n" not in str(caught.value)


def test_missing_and_foreign_files_are_named(imported: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"vocab\.json: not found; give a folder"):
        read_vocabulary(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "WordLevel", "vocab": {}}}')
    with pytest.raises(InputError, match=r"tokenizer\.json: holds no BPE"):
        read_vocabulary(tmp_path)
    for name in ("vocab.json", "merges.txt", DICT_FILE):
        (tmp_path / name).write_bytes((imported / name).read_bytes())
    lines = (imported / DICT_FILE).read_text().splitlines()
    write_lines(tmp_path / DICT_FILE, [*lines[1:], lines[0]])
    with pytest.raises(InputError, match=r"dict\.txt: is not the dictionary of vocab\.json beside it"):
        read_imported(tmp_path)


def test_order_of_a_vocabulary_by_hand() -> None:
    symbols = byte_symbols()
    vocabulary = Vocabulary({**{symbol: 2 + n for n, symbol in enumerate(symbols)}, "ab": 0, END_OF_TEXT: 1}, ["a b"])
    assert vocabulary.order() == [257, 256, 1, 255, 0, *range(2, 255)]
    assert vocabulary.dictionary_lines()[:2] == ["0 1", "2 1"]
