"""BERT's WordPiece vocabulary as a fairseq dictionary: the same pieces in another order.

``[CLS]``, ``[PAD]``, ``[SEP]`` and ``[UNK]`` are fairseq's ``<s>``, ``<pad>``, ``</s>`` and ``<unk>``, with which its
dictionaries start. ``[MASK]`` is ``<mask>``, which its tasks append. All other pieces keep their order. Words that
cannot be segmented become ``<unk>``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from pydantic import ConfigDict, StrictBool, StrictStr, with_config

from fairseq_ext.base.errors import InputError, shown
from fairseq_ext.base.json_file import read_typed
from fairseq_ext.text.subwords import DICT_FILE, encode_in_blocks
from fairseq_ext.text.text_files import read_lines

WORDPIECE_FILE = "wordpiece.json"
PREFIX = "##"  # of pieces that do not start a word
LONGEST_WORD = 100  # characters; longer words become <unk>
_FIRST, _LAST, _UNKNOWN = ("[CLS]", "[PAD]", "[SEP]", "[UNK]"), ("[MASK]",), "[UNK]"
_FAIRSEQS_UNKNOWN = "<unk>"
_RESERVED = frozenset(("<s>", "<pad>", "</s>", "<unk>", "<mask>"))
_REMEDY = "import the model again"


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class WordPiece:
    """A vocabulary and the normalisation of text; options are named as in Hugging Face's ``BertNormalizer``.

    Attributes:
        pieces: pieces in the order of Hugging Face's ids.
        lowercase: whether to lowercase text.
        strip_accents: whether to remove accents; by default the value of ``lowercase``.
        handle_chinese_chars: whether to treat each Chinese character as a word.
    """

    pieces: list[StrictStr]
    lowercase: StrictBool = True
    strip_accents: StrictBool | None = None
    handle_chinese_chars: StrictBool = True

    def __len__(self) -> int:
        """Return the vocabulary size V, including special symbols."""
        return len(self.pieces)

    @property
    def normalisation(self) -> tuple[bool, bool, bool]:
        """Whether text is lowercased, accents are removed, and Chinese characters are words."""
        strips = self.lowercase if self.strip_accents is None else self.strip_accents
        return self.lowercase, strips, self.handle_chinese_chars

    def order(self) -> list[int]:
        """Return the Hugging Face id of each row of fairseq's embeddings, a permutation of V."""
        numbers = {piece: number for number, piece in enumerate(self.pieces)}
        first, last = ([numbers.pop(name) for name in names] for names in (_FIRST, _LAST))
        return [*first, *numbers.values(), *last]

    def dictionary_lines(self) -> list[str]:
        """Return the lines of ``dict.txt``, which omits the special symbols."""
        special = {*_FIRST, *_LAST}
        return [f"{piece} 1" for piece in self.pieces if piece not in special]


def check_wordpiece(vocabulary: WordPiece, where: Path) -> WordPiece:
    """Return the vocabulary after checking that its pieces can form a fairseq dictionary."""
    pieces = set(vocabulary.pieces)
    if missing := {*_FIRST, *_LAST} - pieces:
        raise InputError(f"{where}: {min(missing)} is missing; add it, as in every BERT")
    odd = [piece for piece in vocabulary.pieces if piece in _RESERVED or piece.split() != [piece]]
    if odd or len(pieces) < len(vocabulary):
        raise InputError(
            f"{where}: pieces are repeated, empty, contain a space or are fairseq's special symbols ({shown(odd)})"
        )
    return vocabulary


def write_wordpiece(folder: Path, vocabulary: WordPiece) -> None:
    """Write ``wordpiece.json``."""
    (folder / WORDPIECE_FILE).write_text(json.dumps(asdict(vocabulary)) + "\n", encoding="ascii")


def read_wordpiece(path: Path) -> WordPiece:
    """Read ``wordpiece.json``, as written by :func:`write_wordpiece`."""
    return check_wordpiece(read_typed(path, WordPiece, _REMEDY), path)


def read_imported_wordpiece(folder: Path) -> WordPiece:
    """Read the vocabulary of an imported model's folder."""
    vocabulary = read_wordpiece(folder / WORDPIECE_FILE)
    if read_lines(folder / DICT_FILE) != vocabulary.dictionary_lines():
        raise InputError(f"{folder / DICT_FILE}: does not match {WORDPIECE_FILE} next to it; {_REMEDY}")
    return vocabulary


def wordpiece_encoder(vocabulary: WordPiece) -> Callable[[Iterable[str]], Iterator[str]]:
    """Return a function that encodes lines as space-separated pieces; it keeps only a block of lines in memory."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    numbers = {piece: number for number, piece in enumerate(vocabulary.pieces)}
    options = {"max_input_chars_per_word": LONGEST_WORD, "continuing_subword_prefix": PREFIX}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token=_UNKNOWN, **options))
    choices = {key: value for key, value in asdict(vocabulary).items() if key != "pieces"}
    tokenizer.normalizer = normalizers.BertNormalizer(clean_text=True, **choices)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()

    def encode(lines: Iterable[str]) -> Iterator[str]:
        for encoding in encode_in_blocks(partial(tokenizer.encode_batch, add_special_tokens=False), lines):
            yield " ".join(_FAIRSEQS_UNKNOWN if piece == _UNKNOWN else piece for piece in encoding.tokens)

    return encode


def join_pieces(pieces: str) -> str:
    """Join space-separated pieces to words; normalisation is not undone."""
    return pieces.replace(f" {PREFIX}", "")
