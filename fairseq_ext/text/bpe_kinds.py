"""The byte-level BPE of GPT-2 and of RoBERTa: which of their symbols have a role in fairseq.

In GPT-2's, rows of their own for fairseq's special symbols would take part in the softmax, so four symbols of GPT-2's
play their roles: ``<|endoftext|>`` is ``</s>``, and the symbols of the bytes 0xFF, 0xFE and 0xFD, which no UTF-8 text
contains, are ``<s>``, ``<pad>`` and ``<unk>``.
"""

from __future__ import annotations

from fairseq_ext.text.byte_level_bpe import BpeKind, byte_symbols

END_OF_TEXT = "<|endoftext|>"
# The bytes that play <s>, <pad> and <unk>; a decoder would have to be told that they mean nothing, were they in use.
_BOS_BYTE, _PAD_BYTE, _UNK_BYTE = 0xFF, 0xFE, 0xFD
_BYTES = byte_symbols()
GPT2 = BpeKind("GPT-2", first=(_BYTES[_BOS_BYTE], _BYTES[_PAD_BYTE], END_OF_TEXT, _BYTES[_UNK_BYTE]))
ROBERTA = BpeKind("RoBERTa", first=("<s>", "<pad>", "</s>", "<unk>"), last=("<mask>",))
