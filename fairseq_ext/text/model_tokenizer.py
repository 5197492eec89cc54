"""The tokenizer of a Hugging Face language model as subwords: ``tokenizer.json``, and its tokens as ``dict.txt``.

Tokens are written as their ids. fairseq's dictionaries begin with ``<s>``, ``<pad>``, ``</s>`` and ``<unk>``. Rows of
their own would take part in the softmax, so four tokens of the model take their roles: its line break is ``</s>``, with
which fairseq ends every line, and three that no text contains are the others (special tokens, bytes that never occur in
UTF-8, ids without a token). All other tokens follow in the order of their ids.

The end of text would not do as ``</s>``: models do not expect it between the lines of a text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from fairseq_ext.base.errors import InputError
from fairseq_ext.text.byte_level_bpe import DICT_FILE, TOKENIZER_FILE, byte_symbols
from fairseq_ext.text.subwords import encode_in_blocks
from fairseq_ext.text.text_files import write_lines

_END_OF_TEXT = "<|endoftext|>"
_SPECIAL = 4  # <s>, <pad>, </s>, <unk>
_NEVER_IN_UTF8 = (0xFF, 0xFE, 0xFD)


class ModelTokenizer:
    """A tokenizer of the ``tokenizers`` library. Special tokens in texts are text.

    Args:
        text: content of a ``tokenizer.json``.
        where: its place, for messages.
    """

    def __init__(self, text: str, where: Path):
        from tokenizers import Tokenizer

        self._text, self._where = text, where
        try:
            self._content = json.loads(text)
            self._tokenizer = Tokenizer.from_str(text)
        except Exception as error:  # the library raises it as such
            raise InputError(f"{where}: is not the tokenizer of a Hugging Face model ({error})") from None
        self._tokenizer.encode_special_tokens = True
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def encode(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield each line as space-separated ids."""
        start = "\n" if self._before else ""

        def encode(block: list[str]) -> Any:
            return self._tokenizer.encode_batch([start + line for line in block], add_special_tokens=False)

        for encoding in encode_in_blocks(encode, lines):
            yield " ".join(map(str, encoding.ids[len(self._before) :]))

    def decode(self, ids: str) -> str:
        """Return the text of space-separated ids; other symbols are left out."""
        numbers = [*self._before, *(int(symbol) for symbol in ids.split() if symbol.isdecimal())]
        text = str(self._tokenizer.decode(numbers, skip_special_tokens=False))
        return text.removeprefix("\n") if self._before else text

    @cached_property
    def _before(self) -> list[int]:
        """The tokens of a line break, if lines are other tokens behind one than at the start of a text, or else none.

        Tokenizers like Llama 2's put a space before a text, but not before each of its lines.
        """
        at_start, broken, behind = (self._ids_of(text) for text in ("a", "\n", "\na"))
        is_kept = bool(broken) and self._tokenizer.id_to_token(broken[-1]) in self._line_breaks
        is_other = behind[: len(broken)] == broken and behind[len(broken) :] != at_start
        return broken if is_kept and is_other else []

    def _ids_of(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def spellings(self) -> dict[str, str]:
        """Map the ids, as strings, to the text of their tokens. Incomplete characters become U+FFFD."""
        bytes_ = {character: byte for byte, character in enumerate(byte_symbols())}
        ids = self._tokenizer.get_vocab()
        if not self._is_byte_level:
            return {str(number): token.replace("\u2581", " ") for token, number in ids.items()}
        return {
            str(number): bytes(bytes_[c] for c in token if c in bytes_).decode("utf-8", "replace")
            for token, number in ids.items()
        }

    def order(self, num_tokens: int, eos: int | None) -> list[int]:
        """Return the model's id of each symbol of fairseq's dictionary, a permutation.

        Args:
            num_tokens: V, number of tokens of the model.
            eos: the model's end of text, for tokenizers without a line break.
        """
        ids = self._tokenizer.get_vocab()
        if max(ids.values()) >= num_tokens:
            raise InputError(
                f"{self._where}: has the id {max(ids.values())}, but the model only {num_tokens} tokens; give the "
                "tokenizer of this model"
            )
        breaks = (ids[name] for name in self._line_breaks if name in ids)
        end = next(breaks, ids.get(_END_OF_TEXT, eos))
        if end is None or not 0 <= end < num_tokens:
            raise InputError(f"{self._where}: no end of text; set eos_token_id in the model's config.json")
        own = ids.get(self._content["model"].get("unk_token") or "", end)
        spare = [number for number in dict.fromkeys(self._unused(ids, num_tokens)) if number not in (end, own)]
        if len(spare) < _SPECIAL - 1:
            raise InputError(f"{self._where}: does not fit: it needs three tokens that no text contains")
        first = [spare[0], spare[1], end, spare[2] if own == end else own]
        return [*first, *sorted({*range(num_tokens)} - {*first})]

    @property
    def _is_byte_level(self) -> bool:
        parts = json.dumps([self._content.get(key) for key in ("pre_tokenizer", "decoder")])
        return '"ByteLevel"' in parts

    @property
    def _line_breaks(self) -> tuple[str, ...]:
        return (byte_symbols()[ord("\n")],) if self._is_byte_level else ("\n", "<0x0A>")

    def _unused(self, ids: dict[str, int], num_tokens: int) -> Iterator[int]:
        """Yield ids of tokens that no text contains."""
        yield from (token["id"] for token in self._content.get("added_tokens") or [] if token["special"])
        symbols = byte_symbols()
        for byte in _NEVER_IN_UTF8:
            name = symbols[byte] if self._is_byte_level else f"<0x{byte:02X}>"
            if name in ids:
                yield ids[name]
        yield from sorted({*range(num_tokens)} - {*ids.values()})

    def write(self, folder: Path, order: Sequence[int]) -> None:
        """Write ``tokenizer.json`` and ``dict.txt``."""
        (folder / TOKENIZER_FILE).write_text(self._text, encoding="utf-8")
        write_lines(folder / DICT_FILE, (f"{number} 1" for number in order[_SPECIAL:]))


def read_model_tokenizer(path: Path) -> ModelTokenizer:
    """Read a ``tokenizer.json``."""
    try:
        return ModelTokenizer(path.read_text(encoding="utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); give the tokenizer.json of a model") from None
