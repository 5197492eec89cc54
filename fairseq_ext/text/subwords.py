"""Joint subwords: one unigram SentencePiece model for both languages and all domains.

Each domain tag is a separate symbol. The model numbers its special symbols like fairseq, so that ids of the model and
the dictionary are equal.

A base model comes with its own subwords: a dictionary for each language, one or two SentencePiece models, and possibly
language tokens.
"""

from __future__ import annotations

import heapq
import io
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, TypeVar

import sentencepiece
from pydantic import Field, model_validator
from tqdm import tqdm

from fairseq_ext.base.domain_names import DOMAINS_FILE, domain_tag, is_domain_tag, read_domain_names
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.origin import ORIGIN_FILE
from fairseq_ext.base.sections import Count, Number, Section
from fairseq_ext.text.lexicons import SHORTLIST_FILE
from fairseq_ext.text.split import SPLITS, stable_hash
from fairseq_ext.text.text_files import count_lines, stream_lines, write_lines

# SentencePiece quickly reports how many symbols a text allows, but not if hundreds of millions are requested.
_MOST_SYMBOLS = 10_000_000
MODEL_FILE = "sentencepiece.model"
DICT_FILE = "dict.txt"
# File of a data directory that says how the model receives language tokens, and the languages' names.
LANGUAGE_TOKENS_FILE = "language-tokens.txt"
# fairseq's order: <s> <pad> </s> <unk>. Reserving <pad> prevents it from being a piece of text.
_SPECIAL_IDS: dict[str, Any] = {"bos_id": 0, "pad_id": 1, "eos_id": 2, "unk_id": 3}
# Fixed, since the model depends on the number of threads: their partial sums are rounded.
_NUM_THREADS = 4
_MAX_LINE_BYTES = 1 << 15
_BLOCK_LINES = 20_000
_UNKNOWN = "<unk>"
# fairseq's special symbols. They are not pieces of the model, but it returns unknown characters as text, which can
# equal one of them.
_RESERVED = frozenset(("<s>", "<pad>", "</s>", "<mask>"))
_LIMIT = re.compile(r"value <= (\d+)")
_T = TypeVar("_T")
_REQUIRED = re.compile(r"required_chars\. \d+ vs (\d+)")


class SentencePiece(Section):
    """Options of training a SentencePiece model.

    All lines are in memory during training: 200,000 lines of 68 bytes took 0.34 GB.
    """

    vocab_size: Annotated[int, Field(ge=1, le=_MOST_SYMBOLS)] = 32000
    """Number of symbols, including domain tags."""
    character_coverage: Annotated[Number, Field(ge=0.98, le=1)] = 1.0
    """Share of the characters of the text that the model covers, from 0.98 to 1 as required by SentencePiece."""
    max_sentences: Count = 2_000_000
    """Maximum number of training lines, all languages together; of more lines, a sample is used."""


class Subwords(SentencePiece):
    """The joint SentencePiece model of both languages."""

    reuse: str | None = None
    """Folder of another experiment's subwords, used unchanged, so that models and data of both are compatible."""
    base: Annotated[str | None, Field(alias="from")] = None
    """SentencePiece model of a base model, used unchanged; it has no domain tags."""

    @model_validator(mode="after")
    def _check_source(self) -> Subwords:
        if self.reuse and self.base:
            raise ValueError("reuse and from are both set; remove one of them")
        return self


def take_subwords(folder: Path, model: Path) -> None:
    """Copy a SentencePiece model, and write fairseq's ``dict.txt`` with its pieces in the same order."""
    pieces = dictionary_pieces(load_subwords(model, "set subwords.from to a SentencePiece model"))
    shutil.copyfile(model, folder / MODEL_FILE)
    write_lines(folder / DICT_FILE, (f"{piece} 1" for piece in pieces))


def model_of(folder: Path, lang: str) -> Path:
    """Return the path of a language's SentencePiece model in a folder of subwords, data or an exported system."""
    own = folder / own_model_name(lang)
    return own if own.is_file() else folder / MODEL_FILE


def own_model_name(lang: str) -> str:
    """Return the file name of a language's SentencePiece model if the two languages have separate models."""
    return f"sentencepiece.{lang}.model"


def dictionary_of(folder: Path, lang: str) -> Path:
    """Return the path of a language's fairseq dictionary in a folder of subwords: its own or the joint one."""
    own = folder / f"dict.{lang}.txt"
    return own if own.is_file() else folder / DICT_FILE


def copy_subwords(source: Path, folder: Path, langs: tuple[str, str]) -> None:
    """Copy dictionaries and, if present, SentencePiece models, language tokens, the base's origin and its lexicon."""
    for lang in langs:
        shutil.copyfile(dictionary_of(source, lang), folder / f"dict.{lang}.txt")
    for name in (MODEL_FILE, *map(own_model_name, langs), LANGUAGE_TOKENS_FILE, ORIGIN_FILE, SHORTLIST_FILE):
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)


def train_subwords(folder: Path, splits: Path, langs: tuple[str, str], *, options: Subwords, seed: int) -> None:
    """Train on the training text of a folder of splits; see :func:`train_sentencepiece`."""
    domains = read_domain_names(splits / DOMAINS_FILE)
    files = [[splits / name / f"train.{lang}" for lang in langs] for name in domains]
    train_sentencepiece(folder, files, [domain_tag(name) for name in domains], options=options, seed=seed)


def train_sentencepiece(
    folder: Path, files: Sequence[Sequence[Path]], tags: Sequence[str], *, options: SentencePiece, seed: int
) -> None:
    """Train on the lines of files, and write ``sentencepiece.model`` and fairseq's ``dict.txt``.

    Args:
        files: groups of parallel files. Samples contain the same lines of each file of a group.
        tags: additional symbols.
        seed: seed for sampling lines and for SentencePiece.
    """
    model = _train(_training_lines(files, options, seed), tags, options, seed)
    (folder / MODEL_FILE).write_bytes(model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    write_lines(folder / DICT_FILE, (f"{piece} 1" for piece in dictionary_pieces(processor)))


def dictionary_pieces(processor: sentencepiece.SentencePieceProcessor) -> list[str]:
    """Return the model's pieces in order, without the special symbols, which fairseq adds itself."""
    return [
        processor.id_to_piece(index)
        for index in range(processor.get_piece_size())
        if not processor.is_control(index) and not processor.is_unknown(index)
    ]


def load_subwords(path: Path, remedy: str = "", data: bytes | None = None) -> sentencepiece.SentencePieceProcessor:
    """Load a SentencePiece model.

    Args:
        remedy: advice at the end of error messages.
        data: bytes of the file, if they have already been read.
    """
    try:
        return sentencepiece.SentencePieceProcessor(model_proto=path.read_bytes() if data is None else data)
    except (OSError, RuntimeError) as error:
        more = f"; {remedy}" if remedy else ""
        raise InputError(f"{path}: cannot be loaded as a SentencePiece model ({error}){more}") from None


def encode_splits(
    folder: Path, splits: Path, subwords: Path, langs: tuple[str, str], roles: Sequence[str] = SPLITS
) -> None:
    """Write sets as space-separated pieces to ``DOMAIN/SPLIT.LANG``, and write ``domains.txt``."""
    domains = read_domain_names(splits / DOMAINS_FILE)
    files = [(Path(name) / f"{role}.{lang}", lang) for name in domains for role in roles for lang in langs]
    processors = {lang: load_subwords(model_of(subwords, lang)) for lang in langs}
    tags = [piece for piece in dictionary_pieces(processors[langs[0]]) if is_domain_tag(piece)]
    for file, lang in tqdm(files, desc="encode", unit="file", disable=None):
        lines = encode_lines(processors[lang], stream_lines(splits / file))
        write_lines(folder / file, _refuse_tags(lines, tags, splits / file))
    write_lines(folder / DOMAINS_FILE, domains)


def encode_lines(processor: sentencepiece.SentencePieceProcessor, lines: Iterable[str]) -> Iterator[str]:
    """Yield each line as space-separated pieces, keeping only a block of lines in memory."""
    for pieces in encode_in_blocks(lambda block: processor.encode(block, out_type=str), lines):
        if not _RESERVED.isdisjoint(pieces):
            pieces = [_UNKNOWN if piece in _RESERVED else piece for piece in pieces]
        yield " ".join(pieces)


def encode_in_blocks(encode: Callable[[list[str]], Iterable[_T]], lines: Iterable[str]) -> Iterator[_T]:
    """Encode lines in blocks of several thousand."""
    lines = iter(lines)
    while block := list(islice(lines, _BLOCK_LINES)):
        yield from encode(block)


def _refuse_tags(lines: Iterable[str], tags: Sequence[str], where: Path) -> Iterator[str]:
    """Yield encoded lines unchanged; raise InputError if one contains a domain tag.

    Pieces are checked instead of text, since the text of a tag can be written in several ways, e.g. in full-width
    letters.
    """
    for number, line in enumerate(lines, start=1):
        for tag in tags:
            if tag in line:
                raise InputError(
                    f"{where}, line {number}: has the reserved symbol {tag}, perhaps in full-width or other "
                    "characters; remove it from the corpus"
                )
        yield line


def _training_lines(files: Sequence[Sequence[Path]], options: SentencePiece, seed: int) -> list[str]:
    """Return the sorted lines of the training sets or, if there are too many, of the rows with the smallest hashes.

    Hashes make the sample independent of the order of rows. Sampling whole rows, one sentence per language, keeps the
    share of each language. Lines are sorted, since rounding makes the model depend on their order.
    """
    num_lines = sum(map(count_lines, chain.from_iterable(files)))
    if num_lines <= options.max_sentences:
        return sorted(line for file in chain.from_iterable(files) for line in stream_lines(file))
    rows = chain.from_iterable(zip(*map(stream_lines, group), strict=True) for group in files)
    ranked = ((stable_hash(seed, *row), row) for row in rows)
    chosen = heapq.nsmallest(options.max_sentences // len(files[0]), ranked)
    lines = sorted(line for _, row in chosen for line in row)
    print(
        f"subwords: training on a sample of {len(lines)} of {num_lines} lines (subwords.max_sentences)", file=sys.stderr
    )
    return lines


def _train(lines: Sequence[str], tags: Sequence[str], options: SentencePiece, seed: int) -> bytes:
    model = io.BytesIO()
    sentencepiece.set_random_generator_seed(seed)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type="unigram",
            vocab_size=options.vocab_size,
            character_coverage=options.character_coverage,
            user_defined_symbols=list(tags),
            num_threads=_NUM_THREADS,
            max_sentence_length=_MAX_LINE_BYTES,
            minloglevel=2,
            **_SPECIAL_IDS,
        )
    except RuntimeError as error:
        raise InputError(_explain(str(error), options.vocab_size)) from None
    return model.getvalue()


def _explain(message: str, vocab_size: int) -> str:
    where = f"subwords.vocab_size: {vocab_size}"
    if limit := _LIMIT.search(message):
        return f"{where} is too large for this text; give at most {limit.group(1)}"
    if required := _REQUIRED.search(message):
        return f"{where} is too small for this text; give at least {required.group(1)}"
    return f"subwords: SentencePiece cannot train on this text ({' '.join(message.split())})"
