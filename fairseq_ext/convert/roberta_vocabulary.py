"""RoBERTa's subwords, a byte-level BPE, XLM-R's, a SentencePiece model, or BERT's, in both libraries' files.

fairseq's folder has ``dict.txt`` with ``vocab.json`` and ``merges.txt``, with ``sentencepiece.model``, or with
``wordpiece.json``. ``<mask>`` is not in ``dict.txt``: fairseq's tasks add it behind all others, where it is in most of
Hugging Face's models, too. The symbols of a BPE are written as their numbers in ``vocab.json``, those of SentencePiece
and WordPiece as the pieces, which is what ``--bpe gpt2``, ``sentencepiece`` and ``wordpiece`` make of a text with these
files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fairseq_ext.convert.bert_vocabulary import (
    TOKENIZER_CONFIG_FILE,
    VOCAB_TEXT_FILE,
    is_wordpiece,
    read_bert_vocabulary,
)
from fairseq_ext.convert.config_file import read_json
from fairseq_ext.convert.roberta_unigram import XLMR_FILE, Unigram, read_unigram, unigram_of_tokenizer
from fairseq_ext.corpora.text_files import read_lines, write_lines
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.text.byte_level_bpe import (
    DICT_FILE,
    MERGES_FILE,
    ROBERTA,
    TOKENIZER_FILE,
    VOCAB_FILE,
    ByteLevelBpe,
    read_bpe,
    read_imported_bpe,
    write_bpe,
)
from fairseq_ext.text.subwords import MODEL_FILE as PIECES_FILE
from fairseq_ext.text.wordpiece import WORDPIECE_FILE, WordPiece, write_wordpiece

# All that a Hugging Face directory may have of subwords.
SOURCE_FILES = (VOCAB_FILE, MERGES_FILE, XLMR_FILE, VOCAB_TEXT_FILE, TOKENIZER_FILE, TOKENIZER_CONFIG_FILE)
Vocabulary = ByteLevelBpe | Unigram | WordPiece


def read_vocabulary(source: Path) -> Vocabulary:
    """Read the subwords of a Hugging Face directory; which kind they are is told by its files.

    Raises:
        InputError: naming the file that is missing, damaged or holds what fairseq cannot do.
    """
    tokenizer = source / TOKENIZER_FILE
    if (source / XLMR_FILE).is_file():
        return _read_xlmr(source / XLMR_FILE)
    if not (source / VOCAB_FILE).is_file():
        if (source / VOCAB_TEXT_FILE).is_file():
            return read_bert_vocabulary(source)
        if not tokenizer.is_file():
            raise InputError(
                f"{source}: holds no subwords; RoBERTa has {VOCAB_FILE} and {MERGES_FILE}, XLM-R {XLMR_FILE}, and "
                f"either may have {TOKENIZER_FILE}"
            )
        content = read_json(tokenizer)
        if _is_unigram(content):
            return unigram_of_tokenizer(content, tokenizer)
        if is_wordpiece(content):
            return read_bert_vocabulary(source)
    return _read_roberta(source)


def read_imported(folder: Path) -> ByteLevelBpe | Unigram:
    """Read the subwords of fairseq's folder.

    Raises:
        InputError: as :func:`read_vocabulary`; also if ``dict.txt`` is not that of the subwords, or if it is a BERT's.
    """
    if (folder / WORDPIECE_FILE).is_file():
        raise InputError(f"{folder / WORDPIECE_FILE}: is a BERT's, which has no way back to Hugging Face's files")
    path = folder / PIECES_FILE
    if not path.is_file():
        return read_imported_bpe(folder, ROBERTA)
    unigram = read_unigram(path)
    if read_lines(folder / DICT_FILE) != unigram.dictionary_lines():
        raise InputError(f"{folder / DICT_FILE}: is not the dictionary of {PIECES_FILE} beside it, in the same order")
    return unigram


def write_subwords(folder: Path, vocabulary: Vocabulary) -> None:
    """Write what fairseq needs to read text, ``dict.txt`` included."""
    if isinstance(vocabulary, Unigram):
        (folder / PIECES_FILE).write_bytes(vocabulary.model)
    elif isinstance(vocabulary, WordPiece):
        write_wordpiece(folder, vocabulary)
    else:
        write_bpe(folder, vocabulary)
    write_lines(folder / DICT_FILE, vocabulary.dictionary_lines())


def write_tokenizer(folder: Path, vocabulary: ByteLevelBpe | Unigram, max_positions: int) -> None:
    """Write what Hugging Face needs to read text.

    Args:
        folder: where to write.
        vocabulary: the subwords.
        max_positions: the tokens of the longest text, special ones included.
    """
    if isinstance(vocabulary, Unigram):
        (folder / XLMR_FILE).write_bytes(vocabulary.in_xlmr_layout())
    else:
        write_bpe(folder, vocabulary)
    content = {"model_max_length": max_positions}
    (folder / TOKENIZER_CONFIG_FILE).write_text(json.dumps(content) + "\n", encoding="utf-8")


def _read_xlmr(path: Path) -> Unigram:
    unigram = read_unigram(path)
    if not unigram.has_xlmr_layout():
        raise InputError(f"{path}: XLM-R's first three pieces are special and no others; this is another model's file")
    return unigram


def _read_roberta(source: Path) -> ByteLevelBpe:
    config = source / TOKENIZER_CONFIG_FILE
    if config.is_file() and read_json(config).get("add_prefix_space"):
        raise InputError(
            f"{config}: add_prefix_space is true, which fairseq does not do; set it to false if texts may be split "
            "without a space in front"
        )
    bpe = read_bpe(source, ROBERTA)
    if bpe.order()[: len(ROBERTA.first)] != list(range(len(ROBERTA.first))):
        raise InputError(f"{source}: the numbers of {', '.join(ROBERTA.first)} are not 0 to 3, as in every RoBERTa")
    return bpe


def _is_unigram(content: dict[str, Any]) -> bool:
    model = content.get("model")
    return isinstance(model, dict) and model.get("type") == "Unigram"
