"""Word vectors from a file, in the order of a dictionary.

Formats are GloVe text, and word2vec text or binary, optionally compressed (.gz). The format is detected from the first
lines, not from the file name.
"""

from __future__ import annotations

import logging
import re
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fairseq_ext.base.errors import InputError
from fairseq_ext.modules.combinations import MISSING_CHOICES
from fairseq_ext.text.files import DAMAGE, damage, open_binary

if TYPE_CHECKING:
    from gensim.models import KeyedVectors

_LONGEST_LINE = 1 << 20  # bytes; a longer first line is not text
_LEAST_DIMENSION = 2  # a word with a single number is probably a count
_NUMBER_BEHIND_WORD = re.compile(rb"[^ ]* [-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?\s")
_COUNT = re.compile(rb"0*[1-9][0-9]{0,17}")
_REMEDY = "give GloVe text, or word2vec text or binary"


def vectors_for(dictionary: Any, path: Path, missing: str = MISSING_CHOICES[0], scale: float | None = None) -> Tensor:
    """Return a vector for every symbol of a dictionary; print the number of missing words to stderr.

    ``<s>``, ``</s>`` and ``<unk>`` take the file's vectors with exactly these names, or else those of missing words.
    (GloVe's ``unk`` is an ordinary word.) The vector of padding is zero.

    Args:
        dictionary: fairseq dictionary of V symbols.
        path: file of word vectors.
        missing: vector of words that the file lacks: ``zero``, or the ``mean`` of the words found.
        scale: root mean square to which the components of found vectors are scaled; None for no scaling.

    Shape:
        result: V×D, float32
    """
    vectors, _, rms = _found(dictionary, path, missing)
    return vectors if scale is None else vectors.mul_(scale / (rms or 1))


def cut_vectors(dictionary: Any, path: Path, target: Path) -> None:
    """Write the vectors of a dictionary's symbols as word2vec binary.

    For this dictionary, :func:`vectors_for` returns the same from it as from the whole file, bit for bit.
    """
    vectors, rows, _ = _found(dictionary, path)
    with target.open("wb") as out:
        out.write(f"{len(rows)} {vectors.size(1)}\n".encode())
        for row in rows:
            out.write(dictionary[row].encode() + b" " + vectors[row].numpy().astype("<f4").tobytes() + b"\n")


def _found(dictionary: Any, path: Path, missing: str = MISSING_CHOICES[0]) -> tuple[Tensor, list[int], float]:
    """Return the vectors of all symbols, V×D, the indices of symbols in the file, and the RMS of the words found."""
    file = read_word_vectors(path)
    counts = _word_counts(dictionary)
    words = [word for word in counts if word in file]
    if not words:
        raise InputError(f"{path}: has none of the dictionary's {len(counts)} words; use vectors of the same language")
    vectors = torch.zeros(len(dictionary), file.vector_size)
    if missing == "mean":
        vectors[:] = torch.tensor(file[words]).mean(dim=0)
    rows = [row for row, symbol in enumerate(dictionary.symbols) if symbol in file and row != dictionary.pad()]
    vectors[rows] = torch.tensor(file[[dictionary[row] for row in rows]])
    vectors[dictionary.pad()] = 0
    for row in (~vectors.isfinite().all(dim=1)).nonzero().flatten().tolist():
        raise InputError(f"{path}: the vector of {dictionary[row]!r} is not finite; correct or remove its line")
    rms = vectors[[dictionary.index(word) for word in words]].double().square().mean().sqrt().item()
    covered = sum(counts[word] for word in words) / sum(counts.values())
    print(
        f"{path}: {file.vector_size} dimensions; {len(words):,} words found, {len(counts) - len(words):,} missing "
        f"({100 * (1 - covered):.1f} % of the running text); RMS {rms:.3g}",
        file=sys.stderr,
    )
    return vectors, rows, rms


def read_word_vectors(path: Path) -> KeyedVectors:
    """Read all vectors of a file as a gensim table; the first vector of a repeated word is used."""
    from gensim.models import KeyedVectors

    # Silence messages about reading.
    for package in ("gensim", "smart_open"):
        logging.getLogger(package).setLevel(logging.ERROR)
    try:
        has_header, is_binary = _format_of(path)
        # No dictionary contains words that are not UTF-8.
        table = KeyedVectors.load_word2vec_format(
            str(path), binary=is_binary, no_header=not has_header, unicode_errors="replace"
        )
    except DAMAGE as error:
        raise damage(str(path), error) from None
    except (ValueError, MemoryError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: cannot be read as word vectors ({reason}); {_REMEDY}") from None
    if table.vector_size < _LEAST_DIMENSION:
        raise InputError(f"{path}: has only one number per word, so it looks like a list of counts; {_REMEDY}")
    return table


def _format_of(path: Path) -> tuple[bool, bool]:
    """Return whether a file starts with word2vec's header, ``V D``, and whether its vectors are binary."""
    with open_binary(path, "rb") as file:
        first, second = file.readline(_LONGEST_LINE), file.readline(_LONGEST_LINE)
    if not first.strip():
        raise InputError(f"{path}: the first line is empty; {_REMEDY}")
    fields = first.split()
    if len(fields) != 2 or not all(_COUNT.fullmatch(field) for field in fields):
        return False, False
    # Even a malformed line of text has a number after its word.
    return True, _NUMBER_BEHIND_WORD.match(second) is None


def _word_counts(dictionary: Any) -> dict[str, int]:
    """Return the frequency of each word, without special and padding symbols of the dictionary."""
    symbols = zip(dictionary.symbols, dictionary.count, strict=True)
    return {word: count for word, count in islice(symbols, dictionary.nspecial, None) if count > 0}
