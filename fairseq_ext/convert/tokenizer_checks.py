"""Checks that imported subwords split text as the tokenizer of the Hugging Face folder does."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from fairseq_ext.base.errors import InputError, shown
from fairseq_ext.modules.pretrained import CONFIG_FILE, read_json
from fairseq_ext.text.text_files import read_lines

TOKENIZER_FILE, TOKENIZER_CONFIG_FILE = "tokenizer.json", "tokenizer_config.json"
# Classes that do what tokenizer.json says; others have their own normalisation.
PLAIN_CLASSES = ("PreTrainedTokenizer", "TokenizersBackend")
_FILES = ("vocab.json", "target_vocab.json", "added_tokens.json", TOKENIZER_CONFIG_FILE, TOKENIZER_FILE)
_UNKNOWN = ("<unk>", "[UNK]")
# Cases, accents, digits, punctuation and scripts, without characters that some versions of a tokenizer normalise.
_PROBES = (
    "The Quick brown Fox isn't here: it cost 12,345.6 % (or more).",
    "Ça, ÉCOLE à Łódź und Straße; Привет, мир! Ελλάδα",
    '中文和日本語 with lower-case words_and/symbols <b> & "quotes" #1 @x',
)


def tokenizer_config(folder: Path) -> dict[str, Any]:
    """Return ``tokenizer_config.json``, empty if there is none."""
    path = folder / TOKENIZER_CONFIG_FILE
    return read_json(path) if path.is_file() else {}


def tokenizer_class(folder: Path) -> str | None:
    """Return the class of the tokenizer without ``Fast``; None if no file names one."""
    contents = (tokenizer_config(folder), read_json(folder / CONFIG_FILE) if (folder / CONFIG_FILE).is_file() else {})
    named = next((content["tokenizer_class"] for content in contents if content.get("tokenizer_class")), None)
    return None if named is None else str(named).removesuffix("Fast")


def check_class(folder: Path, allowed: Sequence[str]) -> None:
    """Refuse a tokenizer whose class may split text in another way than the usual one for its files."""
    named = tokenizer_class(folder)
    if named is not None and named not in allowed:
        raise InputError(
            f"{folder}: tokenizer_class is {shown(named)}, which is not supported; give a model with the class "
            f"{' or '.join(allowed)}"
        )


def check_same_pieces(folder: Path, encode: Callable[[Iterable[str]], Iterable[str]], is_numbered: bool) -> None:
    """Compare the imported subwords with ``tokenizer.json``, if there is one, on a few sentences.

    Args:
        encode: returns lines as space-separated pieces.
        is_numbered: whether the pieces are written as their numbers in the tokenizer.
    """
    path = folder / TOKENIZER_FILE
    if not path.is_file():
        return
    theirs = _load(path)
    unknown = next((number for name in _UNKNOWN if (number := theirs.token_to_id(name)) is not None), None)

    def number_of(piece: str) -> int | None:
        number = int(piece) if is_numbered else theirs.token_to_id(piece)
        return unknown if number is None else number

    for text, line in zip(_PROBES, encode(_PROBES), strict=True):
        expected = theirs.encode(text, add_special_tokens=False).ids
        # Some tokenizers join unknown characters.
        one, other = ([*groupby(numbers)] for numbers in (expected, map(number_of, line.split())))
        if [number for number, _ in one] != [number for number, _ in other]:
            raise InputError(
                f"{path}: splits {text!r} differently from the subwords that fairseq supports; give a model with the "
                "usual tokenizer of its kind"
            )


def _load(path: Path) -> Any:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    # The library has no class of its own for its errors.
    except Exception as error:
        raise InputError(f"{path}: is not a tokenizer ({error}); give the file of this model") from None
    # Files of sentence-transformers may ask for both.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def refuse_added_tokens(folder: Path, known: Collection[str]) -> None:
    """Refuse a tokenizer with tokens added to its vocabulary: the imported subwords would cut them.

    Args:
        known: special tokens of such models.
    """
    files: dict[str, Any] = {name: read_json(folder / name) for name in _FILES if (folder / name).is_file()}
    model = files.get("tokenizer.json", {}).get("model")
    vocab = model.get("vocab") if isinstance(model, dict) else None
    symbols = {*known, *files.get("vocab.json", ()), *files.get("target_vocab.json", ())}
    pieces = (str(entry[0]) for entry in _listed(vocab) if isinstance(entry, list) and entry)
    symbols.update(vocab if isinstance(vocab, dict) else pieces)
    if (folder / "vocab.txt").is_file():
        symbols.update(read_lines(folder / "vocab.txt"))
    added = [*files.get("added_tokens.json", ())]
    for content in (files.get(name, {}) for name in ("tokenizer_config.json", "tokenizer.json")):
        entries = _listed(content.get("added_tokens", content.get("added_tokens_decoder")))
        added += [str(item.get("content")) for item in entries if isinstance(item, dict)]
    for token in added:
        if token not in symbols:
            raise InputError(
                f"{folder}: the token {shown(token)} was added to the tokenizer, which is not supported; import a "
                "model without added tokens"
            )


def _listed(value: Any) -> list[Any]:
    """Return the values of an object or an array of JSON; none of anything else."""
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
