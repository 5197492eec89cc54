"""A byte-level BPE as fairseq's dictionary: the same symbols in another order, none added, none lost.

fairseq's dictionaries open with ``<s>``, ``<pad>``, ``</s>`` and ``<unk>``, and some of its tasks add symbols behind
all others. Which symbols play these roles depends on the model (:class:`BpeKind`). All further rows follow the
model's own numbers and are written as these, which is what fairseq's ``--bpe gpt2`` makes of a text.

In GPT-2's, rows of their own for fairseq's special symbols would take part in the softmax, so four symbols of GPT-2's
play their roles: ``<|endoftext|>`` is ``</s>``, and the symbols of the bytes 0xFF, 0xFE and 0xFD, which no UTF-8 text
contains, are ``<s>``, ``<pad>`` and ``<unk>``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_ext.corpora.text_files import read_lines, write_lines
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.inputs.json_file import read_json

VOCAB_FILE, MERGES_FILE, TOKENIZER_FILE, DICT_FILE = "vocab.json", "merges.txt", "tokenizer.json", "dict.txt"


@dataclass(frozen=True)
class BpeKind:
    """Which symbols of a model are fairseq's ``<s>``, ``<pad>``, ``</s>``, ``<unk>``, and which its tasks add last."""

    model: str
    first: tuple[str, ...]
    last: tuple[str, ...] = ()


@dataclass(frozen=True)
class ByteLevelBpe:
    """A vocabulary: Hugging Face's number of every symbol, 0 to V-1; and merges, pairs joined by a space, in order."""

    ids: Mapping[str, int]
    merges: Sequence[str]
    kind: BpeKind

    def __len__(self) -> int:
        """V."""
        return len(self.ids)

    def order(self) -> list[int]:
        """By row of fairseq's embeddings, Hugging Face's number of the symbol (a permutation of V)."""
        first, last = ([self.ids[name] for name in names] for names in (self.kind.first, self.kind.last))
        special = {*first, *last}
        return [*first, *(number for number in range(len(self)) if number not in special), *last]

    def dictionary_lines(self) -> list[str]:
        """The lines of ``dict.txt``, which leaves the symbols with a role out."""
        rows = slice(len(self.kind.first), len(self) - len(self.kind.last))
        return [f"{number} 1" for number in self.order()[rows]]


def byte_symbols() -> list[str]:
    """The character that stands for each byte (Radford et al. 2019, their published encoder).

    Printable bytes stand for themselves, the others for the characters from U+0100 on, so that no symbol is white
    space or a control character.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(0x100)]


def _read(path: Path) -> dict[str, Any]:
    return read_json(path, "give a folder that holds a model of Hugging Face's")


def read_spellings(path: Path) -> dict[str, str]:
    """What the symbols of a ``vocab.json`` spell, by what stands for them in text, their numbers.

    Bytes that are no whole character are U+FFFD.
    """
    numbers = _read(path)
    bytes_ = {character: byte for byte, character in enumerate(byte_symbols())}
    return {
        str(number): bytes(bytes_[c] for c in symbol if c in bytes_).decode("utf-8", "replace")
        for symbol, number in numbers.items()
    }


def read_bpe(folder: Path, kind: BpeKind) -> ByteLevelBpe:
    """Read ``vocab.json`` and ``merges.txt``, or ``tokenizer.json`` where these are not given."""
    where = folder / VOCAB_FILE
    if where.is_file() or not (folder / TOKENIZER_FILE).is_file():
        ids, lines = _read(where), read_lines(folder / MERGES_FILE)
        has_header = lines[0].startswith("#version")
        bpe = ByteLevelBpe(ids, [line for line in lines[has_header:] if line], kind)
    else:
        where = folder / TOKENIZER_FILE
        bpe = _from_tokenizer(_read(where), where, kind)
    _check_ids(bpe, where)
    return bpe


def write_bpe(folder: Path, bpe: ByteLevelBpe) -> None:
    """Write ``vocab.json`` and ``merges.txt`` as both fairseq and Hugging Face read them."""
    by_number = dict(sorted(bpe.ids.items(), key=lambda item: item[1]))
    # In ASCII, since fairseq reads it in whatever encoding the machine prefers.
    (folder / VOCAB_FILE).write_text(json.dumps(by_number) + "\n", encoding="ascii")
    write_lines(folder / MERGES_FILE, ["#version: 0.2", *bpe.merges])


def read_imported_bpe(folder: Path, kind: BpeKind) -> ByteLevelBpe:
    """Read the vocabulary of an imported model's folder."""
    bpe = read_bpe(folder, kind)
    if read_lines(folder / DICT_FILE) != bpe.dictionary_lines():
        raise InputError(
            f"{folder / DICT_FILE}: is not the dictionary of {VOCAB_FILE} beside it; import the {kind.model} again"
        )
    return bpe


def _from_tokenizer(content: Mapping[str, Any], where: Path, kind: BpeKind) -> ByteLevelBpe:
    try:
        model, added = content["model"], content.get("added_tokens", [])
        ids = {**model["vocab"], **{token["content"]: token["id"] for token in added}}
        merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    except (KeyError, TypeError):
        raise InputError(f"{where}: holds no BPE, which has 'vocab' and 'merges' under 'model'") from None
    _check_way_of_text(content, where)
    return ByteLevelBpe(ids, merges, kind)


def _check_way_of_text(content: Mapping[str, Any], where: Path) -> None:
    """Check that nothing but bytes and merges makes symbols of a text: fairseq knows no more."""
    way = content.get("pre_tokenizer")
    is_plain = isinstance(way, dict) and way.get("type") == "ByteLevel" and not way.get("add_prefix_space")
    if content.get("normalizer") is not None or not is_plain:
        raise InputError(
            f"{where}: changes text before it is split, by a normalizer, add_prefix_space or another pre_tokenizer; "
            "only a plain byte-level BPE can be converted"
        )


def _check_ids(bpe: ByteLevelBpe, where: Path) -> None:
    if {*bpe.ids.values()} != {*range(len(bpe))}:
        raise InputError(f"{where}: the {len(bpe)} symbols are not numbered 0 to {len(bpe) - 1}, each once")
    for name in (*bpe.kind.first, *bpe.kind.last, *byte_symbols()):
        if name not in bpe.ids:
            raise InputError(
                f"{where}: {name!r} is missing; a byte-level BPE of {bpe.kind.model}'s kind has it, and a symbol for "
                "each of the 256 bytes"
            )


END_OF_TEXT = "<|endoftext|>"
# The bytes that play <s>, <pad> and <unk>; a decoder would have to be told that they mean nothing, were they in use.
_BOS, _PAD, _UNK = (byte_symbols()[byte] for byte in (0xFF, 0xFE, 0xFD))
GPT2 = BpeKind("GPT-2", first=(_BOS, _PAD, END_OF_TEXT, _UNK))
ROBERTA = BpeKind("RoBERTa", first=("<s>", "<pad>", "</s>", "<unk>"), last=("<mask>",))
