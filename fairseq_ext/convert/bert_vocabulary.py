"""BERT's WordPiece in Hugging Face's files: ``tokenizer.json``, or ``vocab.txt`` with ``tokenizer_config.json``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairseq_ext.convert.config_file import check_fixed, read_json
from fairseq_ext.corpora.text_files import read_lines
from fairseq_ext.inputs.errors import InputError, shown
from fairseq_ext.text.byte_level_bpe import TOKENIZER_FILE
from fairseq_ext.text.wordpiece import LONGEST_WORD, PREFIX, WordPiece, check_wordpiece

VOCAB_TEXT_FILE, TOKENIZER_CONFIG_FILE = "vocab.txt", "tokenizer_config.json"
_MODEL = {
    "type": "WordPiece",
    "unk_token": "[UNK]",
    "continuing_subword_prefix": PREFIX,
    "max_input_chars_per_word": LONGEST_WORD,
}
_NORMALISER = {"type": "BertNormalizer", "clean_text": True}
# By what each is called in tokenizer_config.json; the values are Hugging Face's own.
_CHOICES = {"do_lower_case": True, "strip_accents": None, "tokenize_chinese_chars": True}


def read_bert_vocabulary(source: Path) -> WordPiece:
    """Read the pieces of a Hugging Face directory.

    Raises:
        InputError: naming the file that is missing, damaged, or cuts text in another way than BERT.
    """
    path = source / TOKENIZER_FILE
    if path.is_file():
        return check_wordpiece(_of_tokenizer(read_json(path), path), path)
    path = source / VOCAB_TEXT_FILE
    if not path.is_file():
        raise InputError(f"{source}: holds no subwords; BERT has {TOKENIZER_FILE}, or {VOCAB_TEXT_FILE}")
    config = source / TOKENIZER_CONFIG_FILE
    given = read_json(config) if config.is_file() else {}
    choices = [given.get(key, value) for key, value in _CHOICES.items()]
    return check_wordpiece(_with_choices(read_lines(path), choices, config), path)


def is_wordpiece(content: Mapping[str, Any]) -> bool:
    """Whether a ``tokenizer.json`` has a WordPiece model."""
    model = content.get("model")
    return isinstance(model, dict) and model.get("type") == _MODEL["type"]


def _of_tokenizer(content: Mapping[str, Any], where: Path) -> WordPiece:
    model, normaliser = _part(content, "model", _MODEL, where), _part(content, "normalizer", _NORMALISER, where)
    _part(content, "pre_tokenizer", {"type": "BertPreTokenizer"}, where)
    numbers = model.get("vocab")
    if not isinstance(numbers, dict) or {*numbers.values()} != {*range(len(numbers))}:
        raise InputError(f"{where}: its pieces are not numbered from 0 on, each once")
    keys = ("lowercase", "strip_accents", "handle_chinese_chars")
    choices = [normaliser.get(key, value) for key, value in zip(keys, _CHOICES.values(), strict=True)]
    return _with_choices(sorted(numbers, key=numbers.__getitem__), choices, where)


def _part(content: Mapping[str, Any], key: str, fixed: Mapping[str, Any], where: Path) -> Mapping[str, Any]:
    part = content.get(key)
    if not isinstance(part, dict):
        raise InputError(f"{where}: is no tokeniser of BERT's kind, which has a {key} of the type {fixed['type']}")
    check_fixed(part, fixed, where)
    return part


def _with_choices(pieces: list[str], choices: list[Any], where: Path) -> WordPiece:
    for key, value in zip(_CHOICES, choices, strict=True):
        if not (isinstance(value, bool) or (value is None and key == "strip_accents")):
            raise InputError(f"{where}: {key}: expected true or false, got {shown(value)}")
    return WordPiece(pieces, *choices)
