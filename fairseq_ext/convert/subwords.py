"""Subwords of RoBERTa (byte-level BPE), XLM-R (SentencePiece) and BERT (WordPiece), in both libraries' files.

fairseq's folder has ``dict.txt`` with ``vocab.json`` and ``merges.txt``, with ``sentencepiece.model``, or with
``wordpiece.json``. ``<mask>`` is not in ``dict.txt``: fairseq's tasks append it. BPE symbols are written as their
numbers in ``vocab.json``, SentencePiece and WordPiece symbols as pieces; this matches the output of ``--bpe gpt2``,
``sentencepiece`` and ``wordpiece``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairseq_ext.base.errors import InputError
from fairseq_ext.convert.hugging_face import check_fixed
from fairseq_ext.convert.sentencepiece_models import XLMR_FILE, Unigram, read_xlmr, unigram_of_tokenizer
from fairseq_ext.convert.tokenizer_checks import (
    PLAIN_CLASSES,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    check_class,
    refuse_added_tokens,
    tokenizer_class,
    tokenizer_config,
)
from fairseq_ext.modules.pretrained import read_json
from fairseq_ext.text.byte_level_bpe import DICT_FILE, MERGES_FILE, VOCAB_FILE, ByteLevelBpe, read_bpe, write_bpe
from fairseq_ext.text.subwords import MODEL_FILE as PIECES_FILE
from fairseq_ext.text.text_files import read_lines, write_lines
from fairseq_ext.text.wordpiece import (
    LONGEST_WORD,
    PREFIX,
    WordPiece,
    check_wordpiece,
    write_wordpiece,
)

VOCAB_TEXT_FILE = "vocab.txt"
# All possible subword files of a Hugging Face directory.
TEXT_FILES = (VOCAB_FILE, MERGES_FILE, XLMR_FILE, VOCAB_TEXT_FILE, TOKENIZER_FILE, TOKENIZER_CONFIG_FILE)
Vocabulary = ByteLevelBpe | Unigram | WordPiece

# Expected parts of a BERT's tokenizer.json.
_BERT: Mapping[str, Mapping[str, Any]] = {
    "model": {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": PREFIX,
        "max_input_chars_per_word": LONGEST_WORD,
    },
    "normalizer": {"type": "BertNormalizer", "clean_text": True},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
}
# Options in a BERT's tokenizer_config.json with Hugging Face's defaults.
_CHOICES = {"do_lower_case": True, "strip_accents": None, "tokenize_chinese_chars": True}
# Classes of tokenizers without tokenizer.json, by file.
_CLASSES = {
    XLMR_FILE: ("XLMRobertaTokenizer",),
    VOCAB_FILE: ("RobertaTokenizer",),
    VOCAB_TEXT_FILE: ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer"),
}
_NORMALIZER_CHOICES = ("lowercase", "strip_accents", "handle_chinese_chars")


def read_vocabulary(source: Path) -> Vocabulary:
    """Read the subwords of a Hugging Face directory; the existing files determine their kind."""
    refuse_added_tokens(source, ("<s>", "<pad>", "</s>", "<unk>", "<mask>"))
    tokenizer = source / TOKENIZER_FILE
    named = next((name for name in _CLASSES if (source / name).is_file()), None)
    if named is not None and not tokenizer.is_file():
        check_class(source, _CLASSES[named])
    if (source / XLMR_FILE).is_file():
        return read_xlmr(source / XLMR_FILE)
    if (source / VOCAB_FILE).is_file():
        return _read_roberta(source)
    content = read_json(tokenizer) if tokenizer.is_file() else {}
    model = content.get("model")
    kind = model.get("type") if isinstance(model, dict) else None
    if kind == _BERT["model"]["type"]:
        return _check_choices(check_wordpiece(_wordpiece_of_tokenizer(content, tokenizer), tokenizer), source)
    if (source / VOCAB_TEXT_FILE).is_file():
        return _read_wordpiece(source)
    if not content:
        raise InputError(
            f"{source}: has no subwords; RoBERTa has {VOCAB_FILE} and {MERGES_FILE}, XLM-R {XLMR_FILE}, BERT "
            f"{VOCAB_TEXT_FILE}, and each may have {TOKENIZER_FILE} instead"
        )
    return unigram_of_tokenizer(content, tokenizer) if kind == "Unigram" else _read_roberta(source)


def write_subwords(folder: Path, vocabulary: Vocabulary) -> None:
    """Write the files that fairseq needs to read text, including ``dict.txt``."""
    if isinstance(vocabulary, Unigram):
        (folder / PIECES_FILE).write_bytes(vocabulary.model)
    elif isinstance(vocabulary, WordPiece):
        write_wordpiece(folder, vocabulary)
    else:
        write_bpe(folder, vocabulary)
    write_lines(folder / DICT_FILE, vocabulary.dictionary_lines())


def _read_roberta(source: Path) -> ByteLevelBpe:
    if tokenizer_config(source).get("add_prefix_space"):
        raise InputError(
            f"{source / TOKENIZER_CONFIG_FILE}: add_prefix_space is true, which fairseq does not support; set it to "
            "false to split texts without a leading space"
        )
    return read_bpe(source)


def _read_wordpiece(source: Path) -> WordPiece:
    path = source / VOCAB_TEXT_FILE
    return check_wordpiece(WordPiece(list(read_lines(path)), *_configured(source)), path)


def _configured(source: Path) -> list[Any]:
    """Return the normalisation that ``tokenizer_config.json`` chooses."""
    given = tokenizer_config(source)
    return [given.get(key, value) for key, value in _CHOICES.items()]


def _check_choices(vocabulary: WordPiece, source: Path) -> WordPiece:
    """Check that ``tokenizer_config.json``, which Hugging Face's BertTokenizer prefers, agrees with the vocabulary."""
    if tokenizer_class(source) in PLAIN_CLASSES:
        return vocabulary
    if vocabulary.normalisation != WordPiece([], *_configured(source)).normalisation:
        raise InputError(
            f"{source / TOKENIZER_CONFIG_FILE}: {', '.join(_CHOICES)} differ from the normalizer of {TOKENIZER_FILE} "
            "next to it; write the model's own values into both"
        )
    return vocabulary


def _wordpiece_of_tokenizer(content: Mapping[str, Any], where: Path) -> WordPiece:
    for key, fixed in _BERT.items():
        part = content.get(key)
        if not isinstance(part, dict):
            raise InputError(f"{where}: has no {key} of the type {fixed['type']}; expected the tokeniser of a BERT")
        check_fixed(part, fixed, where)
    numbers = content["model"].get("vocab")
    if not isinstance(numbers, dict) or {*numbers.values()} != {*range(len(numbers))}:
        raise InputError(f"{where}: the numbers of its pieces are not 0, 1, 2 and so on; the file is damaged")
    given = content["normalizer"]
    choices = [given.get(key, default) for key, default in zip(_NORMALIZER_CHOICES, _CHOICES.values(), strict=True)]
    return WordPiece(sorted(numbers, key=numbers.__getitem__), *choices)
