"""RoBERTa's byte-level BPE vocabulary as a fairseq dictionary: the same symbols in another order.

fairseq's dictionaries start with ``<s>``, ``<pad>``, ``</s>`` and ``<unk>``, and its task for masked language models
appends ``<mask>``. All other rows are in the order of the model's token ids and are written as ids, as in the output of
fairseq's ``--bpe gpt2``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.json_file import read_json
from fairseq_ext.text.text_files import read_lines, write_lines

VOCAB_FILE, MERGES_FILE, TOKENIZER_FILE, DICT_FILE = "vocab.json", "merges.txt", "tokenizer.json", "dict.txt"
FIRST, LAST = ("<s>", "<pad>", "</s>", "<unk>"), ("<mask>",)  # RoBERTa's symbols with fairseq's roles
_REMEDY = "give the folder of a Hugging Face model"


@dataclass(frozen=True)
class ByteLevelBpe:
    """A vocabulary: the Hugging Face id of each symbol, 0 to V-1, and the ordered merges, pairs joined by a space."""

    ids: Mapping[str, int]
    merges: Sequence[str]

    def __len__(self) -> int:
        """Return the vocabulary size V."""
        return len(self.ids)

    def order(self) -> list[int]:
        """Return the Hugging Face id of each row of fairseq's embeddings, a permutation of V."""
        first, last = ([self.ids[name] for name in names] for names in (FIRST, LAST))
        special = {*first, *last}
        return [*first, *(number for number in range(len(self)) if number not in special), *last]

    def dictionary_lines(self) -> list[str]:
        """Return the lines of ``dict.txt``, which omits the special symbols."""
        rows = slice(len(FIRST), len(self) - len(LAST))
        return [f"{number} 1" for number in self.order()[rows]]


def byte_symbols() -> list[str]:
    """Return the character that represents each byte (Radford et al. 2019, their published encoder).

    Printable bytes represent themselves. All other bytes are represented by characters from U+0100 on, so that no
    symbol is white space or a control character.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(0x100)]


def read_bpe(folder: Path) -> ByteLevelBpe:
    """Read ``vocab.json`` and ``merges.txt`` or, without ``vocab.json``, ``tokenizer.json``."""
    where = folder / VOCAB_FILE
    if where.is_file() or not (folder / TOKENIZER_FILE).is_file():
        ids, lines = read_json(where, _REMEDY), read_lines(folder / MERGES_FILE)
        has_header = lines[0].startswith("#version")
        bpe = ByteLevelBpe(ids, [line for line in lines[has_header:] if line])
    else:
        where = folder / TOKENIZER_FILE
        bpe = _from_tokenizer(read_json(where, _REMEDY), where)
    _check_ids(bpe, where)
    return bpe


def write_bpe(folder: Path, bpe: ByteLevelBpe) -> None:
    """Write ``vocab.json`` and ``merges.txt`` in the format of fairseq and Hugging Face."""
    by_number = dict(sorted(bpe.ids.items(), key=lambda item: item[1]))
    # ASCII, since fairseq reads it in the locale's encoding.
    (folder / VOCAB_FILE).write_text(json.dumps(by_number) + "\n", encoding="ascii")
    write_lines(folder / MERGES_FILE, ["#version: 0.2", *bpe.merges])


def read_imported_bpe(folder: Path) -> ByteLevelBpe:
    """Read the vocabulary of an imported model's folder."""
    bpe = read_bpe(folder)
    if read_lines(folder / DICT_FILE) != bpe.dictionary_lines():
        raise InputError(f"{folder / DICT_FILE}: does not match {VOCAB_FILE} next to it; import the RoBERTa again")
    return bpe


def _from_tokenizer(content: Mapping[str, Any], where: Path) -> ByteLevelBpe:
    try:
        model, added = content["model"], content.get("added_tokens", [])
        ids = {**model["vocab"], **{token["content"]: token["id"] for token in added}}
        merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    except (KeyError, TypeError):
        raise InputError(f"{where}: is not a BPE, which has 'vocab' and 'merges' under 'model'") from None
    _check_way_of_text(content, where)
    return ByteLevelBpe(ids, merges)


def _check_way_of_text(content: Mapping[str, Any], where: Path) -> None:
    """Check that tokenisation uses only bytes and merges: fairseq supports nothing else."""
    way = content.get("pre_tokenizer")
    is_plain = isinstance(way, dict) and way.get("type") == "ByteLevel" and not way.get("add_prefix_space")
    if content.get("normalizer") is not None or not is_plain:
        raise InputError(
            f"{where}: changes text before splitting (normalizer, add_prefix_space or another pre_tokenizer); "
            "only a plain byte-level BPE can be converted"
        )


def _check_ids(bpe: ByteLevelBpe, where: Path) -> None:
    if {*bpe.ids.values()} != {*range(len(bpe))}:
        raise InputError(f"{where}: the {len(bpe)} symbols must have the ids 0 to {len(bpe) - 1}, each once")
    for name in (*FIRST, *LAST, *byte_symbols()):
        if name not in bpe.ids:
            raise InputError(
                f"{where}: {name!r} is missing; a RoBERTa vocabulary needs it, and a symbol for each of the 256 bytes"
            )
