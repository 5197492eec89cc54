"""GPT-2's vocabulary as fairseq's dictionary: the same symbols in another order, none added, none lost.

fairseq's dictionaries open with ``<s>``, ``<pad>``, ``</s>`` and ``<unk>``. Rows of their own would take part in the
softmax, so four symbols of GPT-2's play these roles: ``<|endoftext|>`` is ``</s>``, and the symbols of the bytes
0xFF, 0xFE and 0xFD, which no UTF-8 text contains, are the other three. All further rows follow GPT-2's numbers and
are written as these, which is what fairseq's ``--bpe gpt2`` makes of a text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_ext.corpora.text_files import read_lines, write_lines
from fairseq_ext.errors import InputError

VOCAB_FILE, MERGES_FILE, TOKENIZER_FILE, DICT_FILE = "vocab.json", "merges.txt", "tokenizer.json", "dict.txt"
END_OF_TEXT = "<|endoftext|>"
# The bytes that play <s>, <pad> and <unk>; a decoder would have to be told that they mean nothing, were they in use.
_BOS_BYTE, _PAD_BYTE, _UNK_BYTE = 0xFF, 0xFE, 0xFD
_NUM_SPECIAL = 4


@dataclass(frozen=True)
class Vocabulary:
    """A byte-level BPE.

    Args:
        ids: GPT-2's number of every symbol, 0 to V-1.
        merges: pairs of symbols, joined by a space, in order.
    """

    ids: Mapping[str, int]
    merges: Sequence[str]

    def __len__(self) -> int:
        """V."""
        return len(self.ids)

    def order(self) -> list[int]:
        """By row of fairseq's dictionary, GPT-2's number of the symbol.

        Shape:
            result: V, a permutation
        """
        symbols = byte_symbols()
        names = (symbols[_BOS_BYTE], symbols[_PAD_BYTE], END_OF_TEXT, symbols[_UNK_BYTE])
        special = [self.ids[name] for name in names]
        return [*special, *(number for number in range(len(self)) if number not in special)]

    def dictionary_lines(self) -> list[str]:
        """The lines of ``dict.txt``, which leaves the four special symbols out."""
        return [f"{number} 1" for number in self.order()[_NUM_SPECIAL:]]


def byte_symbols() -> list[str]:
    """The character that stands for each byte (Radford et al. 2019, their published encoder).

    Printable bytes stand for themselves, the others for the characters from U+0100 on, so that no symbol is white
    space or a control character.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(0x100)]


def read_vocabulary(folder: Path) -> Vocabulary:
    """Read ``vocab.json`` and ``merges.txt``, or ``tokenizer.json`` where these are not given.

    Raises:
        InputError: naming the file, and what makes it no byte-level BPE of GPT-2's kind.
    """
    if (folder / VOCAB_FILE).is_file() or not (folder / TOKENIZER_FILE).is_file():
        where = folder / VOCAB_FILE
        vocabulary = Vocabulary(read_json(where), _merge_lines(folder / MERGES_FILE))
    else:
        where = folder / TOKENIZER_FILE
        vocabulary = _from_tokenizer(read_json(where), where)
    _check_ids(vocabulary.ids, where)
    _check_merges(vocabulary, folder / MERGES_FILE if where.name == VOCAB_FILE else where)
    return vocabulary


def write_vocabulary(folder: Path, vocabulary: Vocabulary) -> None:
    """Write ``vocab.json`` and ``merges.txt`` as both fairseq and Hugging Face read them."""
    by_number = dict(sorted(vocabulary.ids.items(), key=lambda item: item[1]))
    # In ASCII, since fairseq reads it in whatever encoding the machine prefers.
    (folder / VOCAB_FILE).write_text(json.dumps(by_number) + "\n", encoding="ascii")
    write_lines(folder / MERGES_FILE, ["#version: 0.2", *vocabulary.merges])


def read_imported(folder: Path) -> Vocabulary:
    """Read the vocabulary of a folder that ``scripts/import_gpt2.py`` made.

    Raises:
        InputError: as :func:`read_vocabulary`; also if ``dict.txt`` is not that of the vocabulary.
    """
    vocabulary = read_vocabulary(folder)
    if read_lines(folder / DICT_FILE) != vocabulary.dictionary_lines():
        raise InputError(
            f"{folder / DICT_FILE}: is not the dictionary of {VOCAB_FILE} beside it; import the model again "
            "(scripts/import_gpt2.py)"
        )
    return vocabulary


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file whose top level is an object.

    Raises:
        InputError: if it is missing, damaged or of another kind.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: not found; give a folder that holds a GPT-2 model of Hugging Face's") from None
    # A hostile file may nest deeper than Python goes, or spell a number of a million digits.
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: is no JSON, or cut off ({error})") from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected an object of names and values, got {type(content).__name__}")
    return content


def _merge_lines(path: Path) -> list[str]:
    lines = read_lines(path)
    return [line for line in lines[lines[0].startswith("#version") :] if line]


def _from_tokenizer(content: Mapping[str, Any], where: Path) -> Vocabulary:
    try:
        model, added = content["model"], content.get("added_tokens", [])
        ids = {**model["vocab"], **{token["content"]: token["id"] for token in added}}
        merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    except (KeyError, TypeError):
        raise InputError(f"{where}: holds no BPE, which has 'vocab' and 'merges' under 'model'") from None
    return Vocabulary(ids, merges)


def _check_ids(ids: Mapping[str, Any], where: Path) -> None:
    wrong = next((symbol for symbol, number in ids.items() if type(number) is not int), None)
    if wrong is not None:
        raise InputError(f"{where}: the number of {wrong!r} is {ids[wrong]!r}, which is no whole number")
    if sorted(ids.values()) != list(range(len(ids))):
        raise InputError(f"{where}: the {len(ids)} symbols are not numbered 0 to {len(ids) - 1}, each once")
    missing = [name for name in (END_OF_TEXT, *byte_symbols()) if name not in ids]
    if missing:
        raise InputError(
            f"{where}: {_some(missing)} missing; a byte-level BPE of GPT-2's kind has {END_OF_TEXT} and a symbol for "
            "each of the 256 bytes"
        )


def _check_merges(vocabulary: Vocabulary, where: Path) -> None:
    characters = set(byte_symbols())
    for number, merge in enumerate(vocabulary.merges, start=1):
        parts = merge.split(" ")
        symbols = {*parts, "".join(parts)}
        if len(parts) != 2 or not symbols <= vocabulary.ids.keys() or not characters.issuperset("".join(parts)):
            raise InputError(f"{where}: merge {number} ({merge!r}) is no pair of symbols that make a third")


def _some(names: Iterable[str], limit: int = 3) -> str:
    names = [repr(name) for name in names]
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more are" if len(names) > limit else " is")
