"""BERT's WordPiece as fairseq's dictionary: the same pieces in another order, none added, none lost.

``[CLS]``, ``[PAD]``, ``[SEP]`` and ``[UNK]`` are fairseq's ``<s>``, ``<pad>``, ``</s>`` and ``<unk>``, with which its
dictionaries open, and ``[MASK]`` is the ``<mask>`` that its tasks add behind all others. All further rows are the
pieces in their own order. A word that cannot be cut is ``<unk>``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from pydantic import ConfigDict, StrictBool, StrictStr, TypeAdapter, ValidationError, with_config

from fairseq_ext.corpora.subwords import DICT_FILE, encode_in_blocks
from fairseq_ext.corpora.text_files import read_lines
from fairseq_ext.inputs.errors import InputError, shown
from fairseq_ext.inputs.json_file import read_json

WORDPIECE_FILE = "wordpiece.json"
PREFIX = "##"  # of a piece that does not begin a word
LONGEST_WORD = 100  # characters; a longer one is not cut
_FIRST, _LAST, _UNKNOWN = ("[CLS]", "[PAD]", "[SEP]", "[UNK]"), ("[MASK]",), "[UNK]"
_FAIRSEQS_UNKNOWN = "<unk>"
_RESERVED = frozenset(("<s>", "<pad>", "</s>", "<unk>", "<mask>"))
_REMEDY = "import the model again"


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class WordPiece:
    """A vocabulary, and what is done to a text before it is cut; names as in Hugging Face's ``BertNormalizer``.

    Attributes:
        pieces: by Hugging Face's number.
        lowercase: whether capitals become small letters.
        strip_accents: whether accents are taken off; None for: where ``lowercase`` is true.
        handle_chinese_chars: whether every Chinese character is a word.
    """

    pieces: list[StrictStr]
    lowercase: StrictBool = True
    strip_accents: StrictBool | None = None
    handle_chinese_chars: StrictBool = True

    def __len__(self) -> int:
        """V, the special symbols included."""
        return len(self.pieces)

    def order(self) -> list[int]:
        """By row of fairseq's embeddings, Hugging Face's number of the symbol (a permutation of V)."""
        numbers = {piece: number for number, piece in enumerate(self.pieces)}
        first, last = ([numbers.pop(name) for name in names] for names in (_FIRST, _LAST))
        return [*first, *numbers.values(), *last]

    def dictionary_lines(self) -> list[str]:
        """The lines of ``dict.txt``, which leaves the symbols with a role out."""
        special = {*_FIRST, *_LAST}
        return [f"{piece} 1" for piece in self.pieces if piece not in special]


def check_wordpiece(vocabulary: WordPiece, where: Path) -> WordPiece:
    """Check that the pieces can be a dictionary of fairseq's."""
    pieces = set(vocabulary.pieces)
    if missing := {*_FIRST, *_LAST} - pieces:
        raise InputError(f"{where}: {min(missing)} is missing; every BERT has it")
    odd = [piece for piece in vocabulary.pieces if piece in _RESERVED or piece.split() != [piece]]
    if odd or len(pieces) < len(vocabulary):
        raise InputError(f"{where}: a piece is there twice, empty, has a blank or is fairseq's own ({shown(odd)})")
    return vocabulary


def write_wordpiece(folder: Path, vocabulary: WordPiece) -> None:
    """Write ``wordpiece.json``."""
    (folder / WORDPIECE_FILE).write_text(json.dumps(asdict(vocabulary)) + "\n", encoding="ascii")


def read_wordpiece(path: Path) -> WordPiece:
    """Read what :func:`write_wordpiece` wrote."""
    try:
        vocabulary = TypeAdapter(WordPiece).validate_python(read_json(path, _REMEDY))
    except ValidationError as error:
        place = ": ".join(map(str, error.errors()[0]["loc"]))
        raise InputError(f"{path}: {place}: is no WordPiece vocabulary of an imported BERT; {_REMEDY}") from None
    return check_wordpiece(vocabulary, path)


def read_imported_wordpiece(folder: Path) -> WordPiece:
    """Read the vocabulary of an imported model's folder."""
    vocabulary = read_wordpiece(folder / WORDPIECE_FILE)
    if read_lines(folder / DICT_FILE) != vocabulary.dictionary_lines():
        raise InputError(f"{folder / DICT_FILE}: is not the dictionary of {WORDPIECE_FILE} beside it; {_REMEDY}")
    return vocabulary


def wordpiece_encoder(vocabulary: WordPiece) -> Callable[[Iterable[str]], Iterator[str]]:
    """The function that yields each line as pieces joined by single spaces; only a block of lines is in memory."""
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
    """The words that pieces joined by spaces make up; what normalisation changed stays changed."""
    return pieces.replace(f" {PREFIX}", "")
