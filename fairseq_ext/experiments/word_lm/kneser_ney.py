"""n-gram models with modified Kneser-Ney smoothing: trained by varikn, queried by kenlm.

All n-grams of the text are kept, and interpolated (Chen & Goodman, 1999). The three discounts of an order are those
that suit a held-out text best; without one, varikn's leave-one-out estimates, which limit the discount of what occurs
once to 0.8 and give the highest order those of the order below.

Perplexity is counted as for neural models: over every word and one ``</s>`` a line, from ``<s>``. ``<unk>`` is a word
like any other where the text has it. Both packages take it for a word that they do not know, so it has another name in
the model, as has ``<UNK>``.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from fairseq_ext.corpora.text_files import stream_lines, write_lines
from fairseq_ext.engine.children import run_child
from fairseq_ext.engine.steps import atomic_write
from fairseq_ext.inputs.errors import InputError, run_command
from fairseq_ext.reranking.sentence_scores import load_kenlm

ORDERS = range(2, 7)  # kenlm's
_NAMES = {"<unk>": "‹unk›", "<UNK>": "‹UNK›"}
_RESERVED = ("<s>", "</s>")
_SECTION = re.compile(r"\\(\d+)-grams:")
_COUNT = re.compile(r"ngram \d+=(\d+)")
_LOG_FILE, _ARPA_FILE = "varikn.log", "model.arpa"
_LAST_WORDS = 300  # of varikn, when it fails


def train_kneser_ney(text: Path, arpa: Path, *, order: int = 5, held_out: Path | None = None) -> None:
    """Train a model and write it as ARPA, such that kenlm can read it.

    Args:
        text: words separated by blanks, one sentence a line.
        arpa: the file to write.
        order: n, one of ``ORDERS``.
        held_out: text that the discounts are fitted to.

    Raises:
        InputError: if a text cannot be read or has words that stand for its ends, or varikn fails.
        ValueError: if the order is none of them.
    """
    if order not in ORDERS:
        raise ValueError(f"order must be {ORDERS[0]} to {ORDERS[-1]}, got {order}")
    with tempfile.TemporaryDirectory() as folder:
        given, result = {"text": text, "held-out": held_out}, Path(folder) / _ARPA_FILE
        files = {name: _copy_with_ends(path, Path(folder) / name) for name, path in given.items() if path}
        _run_varikn([files["text"], str(result), str(order), files.get("held-out", "")], Path(folder))
        with atomic_write(arpa) as temporary:
            write_lines(temporary, with_tabs(stream_lines(result)))


def with_tabs(arpa: Iterable[str]) -> Iterator[str]:
    """The lines of an ARPA file with tabs between probability, n-gram and back-off, which kenlm insists on."""
    order = 0
    for line in arpa:
        section = _SECTION.match(line)
        fields = line.split(" ")
        if section or len(fields) <= order or not order:
            order = int(section[1]) if section else order
            yield line
        else:
            yield "\t".join([fields[0], " ".join(fields[1 : 1 + order]), *fields[1 + order :]])


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line of ``scripts/train_ngrams.py``."""
    parser = argparse.ArgumentParser(
        description="Train an n-gram language model with modified Kneser-Ney smoothing, as an ARPA file for kenlm."
    )
    parser.add_argument("text", type=Path, help="text of words separated by blanks, one sentence a line")
    parser.add_argument("arpa", type=Path, help="the model to write")
    parser.add_argument("--order", type=int, default=5, choices=ORDERS, help="n (default: 5)")
    parser.add_argument("--held-out", type=Path, help="text that the discounts are fitted to (default: leave one out)")
    parser.add_argument("--test", type=Path, nargs="*", default=[], help="print the perplexity of these texts")
    options = parser.parse_args(arguments)
    train_kneser_ney(options.text, options.arpa, order=options.order, held_out=options.held_out)
    for path in options.test:
        nats, tokens = likelihood(options.arpa, path)
        print(f"{path}: perplexity {math.exp(nats / tokens):.2f} over {tokens:,} tokens")


def likelihood(arpa: Path, text: Path) -> tuple[float, int]:
    """Negative log-likelihood of a text in nats, and the number of tokens that it is over.

    Raises:
        InputError: if either file cannot be read.
    """
    lines = [line.split() for line in stream_lines(text)]
    scores = load_kenlm(arpa, None)([" ".join(map(_named, words)) for words in lines])
    return -float(scores.sum()), sum(len(words) + 1 for words in lines)


def count_ngrams(arpa: Path) -> int:
    """How many n-grams of all orders a model has."""
    counts = (_COUNT.fullmatch(line) for line in islice(stream_lines(arpa), 1 + len(ORDERS) + 1))
    return sum(int(count[1]) for count in counts if count)


def _copy_with_ends(text: Path, copy: Path) -> str:
    write_lines(copy, _with_ends(text))
    return str(copy)


def _with_ends(text: Path) -> Iterator[str]:
    for number, line in enumerate(stream_lines(text), start=1):
        words = line.split()
        for word in _RESERVED:
            if word in words:
                raise InputError(f"{text}, line {number}: holds {word!r}, which marks the ends of lines; take it out")
        yield " ".join(["<s>", *map(_named, words), "</s>"])


def _named(word: str) -> str:
    return _NAMES.get(word, word)


def _run_varikn(arguments: Sequence[str], folder: Path) -> None:
    log = folder / _LOG_FILE
    with log.open("wb") as messages:
        command = [sys.executable, "-m", f"{__package__}.varikn_worker", *arguments]
        status = run_child(command, stdout=messages, stderr=messages).returncode
    if status != 0:
        said = " ".join(log.read_text(encoding="utf-8", errors="replace").split())[-_LAST_WORDS:]
        raise InputError(f"varikn ended with status {status}: … {said}")


if __name__ == "__main__":
    run_command(main)
