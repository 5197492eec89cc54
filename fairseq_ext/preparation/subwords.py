"""Joint subwords: one unigram SentencePiece model for both languages and all domains.

Every domain's tag is a symbol of its own. The model numbers its special symbols like fairseq, so a
piece's number in the model is its number in the dictionary.
"""

from __future__ import annotations

import heapq
import io
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import sentencepiece
from tqdm import tqdm

from fairseq_ext.corpora.text_files import stream_lines, write_lines
from fairseq_ext.domains.names import DOMAINS_FILE, domain_tag, read_domain_names
from fairseq_ext.errors import InputError
from fairseq_ext.experiment.config import SentencePiece, Subwords
from fairseq_ext.preparation.split import SPLITS, stable_hash

MODEL_FILE = "sentencepiece.model"
DICT_FILE = "dict.txt"
# fairseq's order: <s> <pad> </s> <unk>. With <pad> reserved here, text cannot yield it as a piece.
_SPECIAL_IDS: dict[str, Any] = {"bos_id": 0, "pad_id": 1, "eos_id": 2, "unk_id": 3}
# The threads' partial sums are floating-point numbers: another number of threads, another model.
_NUM_THREADS = 4
_MAX_LINE_BYTES = 1 << 15
_BLOCK_LINES = 20_000
_LIMIT = re.compile(r"value <= (\d+)")
_REQUIRED = re.compile(r"required_chars\. \d+ vs (\d+)")


def train_subwords(folder: Path, splits: Path, langs: tuple[str, str], *, options: Subwords, seed: int) -> None:
    """Train on the training text, and write ``sentencepiece.model`` and fairseq's ``dict.txt``.

    Args:
        folder: where to write.
        splits: folder made by :func:`~fairseq_ext.preparation.split.write_splits`.
        langs: source and target language.
        options: size of the vocabulary (four specials and the domain tags included), the share of the
            characters that get a symbol (the others become ``<unk>``), and the number of lines of both
            languages beyond which a sample of so many is trained on.
        seed: of the sample and of SentencePiece's generator, which this kind of training hardly uses.

    Raises:
        InputError: if the vocabulary is too large or too small for the text.
    """
    domains = read_domain_names(splits / DOMAINS_FILE)
    files = [[splits / name / f"train.{lang}" for lang in langs] for name in domains]
    train_sentencepiece(folder, files, [domain_tag(name) for name in domains], options=options, seed=seed)


def train_sentencepiece(
    folder: Path, files: Sequence[Sequence[Path]], tags: Sequence[str], *, options: SentencePiece, seed: int
) -> None:
    """Train on the lines of files, and write ``sentencepiece.model`` and fairseq's ``dict.txt``.

    Args:
        folder: where to write.
        files: the training text; files that are grouped together have the same number of lines, and of a sample they
            contribute the same ones.
        tags: symbols of their own besides.
        options: see :func:`train_subwords`.
        seed: see :func:`train_subwords`.

    Raises:
        InputError: if the vocabulary is too large or too small for the text.
    """
    model = _train(_training_lines(files, options, seed), tags, options, seed)
    (folder / MODEL_FILE).write_bytes(model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    write_lines(folder / DICT_FILE, (f"{piece} 1" for piece in dictionary_pieces(processor)))


def dictionary_pieces(processor: sentencepiece.SentencePieceProcessor) -> list[str]:
    """The model's pieces in order, without the special ones, which fairseq adds itself."""
    return [
        processor.id_to_piece(index)
        for index in range(processor.get_piece_size())
        if not processor.is_control(index) and not processor.is_unknown(index)
    ]


def load_subwords(path: Path) -> sentencepiece.SentencePieceProcessor:
    """Load a SentencePiece model.

    Raises:
        InputError: if the file is missing or no model.
    """
    try:
        return sentencepiece.SentencePieceProcessor(model_proto=path.read_bytes())
    except (OSError, RuntimeError) as error:
        raise InputError(f"{path}: cannot be loaded as a SentencePiece model ({error})") from None


def encode_splits(folder: Path, splits: Path, subwords: Path, langs: tuple[str, str]) -> None:
    """Write every set as space-separated pieces to ``DOMAIN/SPLIT.LANG``, and ``domains.txt``.

    Raises:
        InputError: if a sentence holds a domain tag, naming file and line.
    """
    processor = load_subwords(subwords / MODEL_FILE)
    domains = read_domain_names(splits / DOMAINS_FILE)
    tags = [domain_tag(name) for name in domains]
    files = [Path(name) / f"{role}.{lang}" for name in domains for role in SPLITS for lang in langs]
    for file in tqdm(files, desc="encode", unit="file", disable=None):
        lines = refuse_tags(stream_lines(splits / file), tags, splits / file)
        write_lines(folder / file, encode_lines(processor, lines))
    write_lines(folder / DOMAINS_FILE, domains)


def encode_lines(processor: sentencepiece.SentencePieceProcessor, lines: Iterable[str]) -> Iterator[str]:
    """Yield each line as pieces joined by single spaces; only a block of lines is in memory."""
    lines = iter(lines)
    while block := list(islice(lines, _BLOCK_LINES)):
        yield from (" ".join(pieces) for pieces in processor.encode(block, out_type=str))


def refuse_tags(lines: Iterable[str], tags: Sequence[str], where: Path) -> Iterator[str]:
    """Pass the lines on; one with a domain tag in it would be read as the symbol that only the program sets.

    Raises:
        InputError: naming the file and the line that holds a tag.
    """
    for number, line in enumerate(lines, start=1):
        for tag in tags:
            if tag in line:
                raise InputError(f"{where}, line {number}: holds {tag}, a reserved symbol; remove it from the corpus")
        yield line


def _training_lines(files: Sequence[Sequence[Path]], options: SentencePiece, seed: int) -> list[str]:
    """All lines of the training sets or, if they are too many, those of the rows of smallest hash.

    Hashes depend on no order, and whole rows, being a sentence in each language, keep the share of each language.
    Sorted, since floating-point sums, hence the model, follow the order of the lines.
    """
    num_lines = sum(1 for file in chain.from_iterable(files) for _ in stream_lines(file))
    if num_lines <= options.max_sentences:
        return sorted(line for file in chain.from_iterable(files) for line in stream_lines(file))
    rows = chain.from_iterable(zip(*map(stream_lines, group), strict=True) for group in files)
    ranked = ((stable_hash(seed, *row), row) for row in rows)
    chosen = heapq.nsmallest(options.max_sentences // len(files[0]), ranked)
    lines = sorted(line for _, row in chosen for line in row)
    print(f"subwords: {len(lines)} of {num_lines} lines are trained on (subwords.max_sentences)", file=sys.stderr)
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
