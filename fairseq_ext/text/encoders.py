"""Subwords of language models: SentencePiece (trained on the text, or XLM-R's), RoBERTa's BPE, BERT's WordPiece, or the
tokenizer of a causal model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from fairseq_ext.base.errors import InputError
from fairseq_ext.base.jobs import Engine, fill_by_jobs
from fairseq_ext.text.byte_level_bpe import (
    DICT_FILE,
    MERGES_FILE,
    TOKENIZER_FILE,
    VOCAB_FILE,
    read_imported_bpe,
)
from fairseq_ext.text.line_split import text_path
from fairseq_ext.text.model_tokenizer import read_model_tokenizer
from fairseq_ext.text.subwords import MODEL_FILE, encode_in_blocks, encode_lines, load_subwords
from fairseq_ext.text.text_files import stream_lines, write_lines
from fairseq_ext.text.wordpiece import WORDPIECE_FILE, read_imported_wordpiece, wordpiece_encoder

# For each value of fairseq's option --bpe, its other options, and the files in a folder of subwords that they name.
_KINDS = {
    "sentencepiece": {"sentencepiece-model": MODEL_FILE},
    "wordpiece": {"wordpiece-file": WORDPIECE_FILE},
    "gpt2": {"gpt2-encoder-json": VOCAB_FILE, "gpt2-vocab-bpe": MERGES_FILE},
    "model_tokenizer": {"tokenizer-file": TOKENIZER_FILE},
}
TOKENIZER_FILES = (DICT_FILE, TOKENIZER_FILE)
Encoder = Callable[[Iterable[str]], Iterator[str]]


def encode_texts(folder: Path, texts: Path, subwords: Path, files: Sequence[tuple[str, str]], engine: Engine) -> None:
    """Encode files from ``texts`` to the same paths under ``folder``; ``files`` are pairs of domain and set."""
    job = partial(_encode_file, texts.resolve(), subwords.resolve(), files)
    fill_by_jobs(folder, job, len(files), engine, "encode")


def _encode_file(texts: Path, subwords: Path, files: Sequence[tuple[str, str]], index: int, output: Path) -> None:
    """Run the job that encodes one file as space-separated pieces."""
    lines = stream_lines(text_path(texts, *files[index]))
    write_lines(text_path(output, *files[index]), load_encoder(subwords)(lines))


def subword_files(subwords: Path) -> tuple[str, ...]:
    """Return the names of the files of a subword folder, which identify its kind."""
    return (DICT_FILE, *_KINDS[_kind_of(subwords)].values())


def fairseq_bpe_options(subwords: Path) -> dict[str, str]:
    """Return the options with which fairseq's commands encode and decode text with these subwords."""
    kind = _kind_of(subwords)
    return {"bpe": kind, **{option: str(subwords / file) for option, file in _KINDS[kind].items()}}


def load_encoder(subwords: Path) -> Encoder:
    """Return a function that encodes lines as space-separated pieces; it keeps only a block of lines in memory."""
    match _kind_of(subwords):
        case "sentencepiece":
            return partial(encode_lines, load_subwords(subwords / MODEL_FILE))
        case "wordpiece":
            return wordpiece_encoder(read_imported_wordpiece(subwords))
        case "model_tokenizer":
            return read_model_tokenizer(subwords / TOKENIZER_FILE).encode
    return partial(_encode_bpe, subwords)


def _kind_of(subwords: Path) -> str:
    for kind, files in _KINDS.items():
        if all((subwords / name).is_file() for name in (DICT_FILE, *files.values())):
            return kind
    raise InputError(
        f"{subwords}: has no subwords; expected {DICT_FILE} and {MODEL_FILE}, {WORDPIECE_FILE}, {VOCAB_FILE} or "
        f"{TOKENIZER_FILE}"
    )


def _encode_bpe(subwords: Path, lines: Iterable[str]) -> Iterator[str]:
    """Yield lines as ids of ``vocab.json``, like fairseq's ``--bpe gpt2`` but many times faster."""
    from tokenizers import Tokenizer
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel

    read_imported_bpe(subwords)
    tokenizer = Tokenizer(BPE.from_file(str(subwords / VOCAB_FILE), str(subwords / MERGES_FILE)))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    for encoding in encode_in_blocks(tokenizer.encode_batch, lines):
        yield " ".join(map(str, encoding.ids))
