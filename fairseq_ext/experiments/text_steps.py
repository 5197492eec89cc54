"""Steps from text by domain to subwords, shared by recipes with language models and masked language models.

In the directory of an experiment, ``corpora`` has the texts, ``splits`` their training, validation and test sets,
``subwords`` the subword model, and ``encoded`` the sets in subwords.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from fairseq_ext.base.domain_names import check_domain_names
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.jobs import Engine, fill_by_jobs
from fairseq_ext.base.sections import File, Section
from fairseq_ext.base.steps import Step, versions
from fairseq_ext.text.encoders import encode_texts
from fairseq_ext.text.entries import domain_files
from fairseq_ext.text.folded_text import BLANK
from fairseq_ext.text.line_split import LanguageModelSplit, write_text_splits
from fairseq_ext.text.raw_text import stream_canonical_lines
from fairseq_ext.text.subwords import SentencePiece, train_sentencepiece
from fairseq_ext.text.text_files import write_lines

_ENDING = "txt"


class TextFolder(Section):
    """Text, by domain."""

    folder: File
    """Folder with a file DOMAIN.txt for each domain."""
    on_bad_utf8: Literal["fail", "drop", "replace"] = "fail"
    """For a line that is not valid UTF-8: fail, drop it, or replace its invalid bytes with U+FFFD."""


def import_text(files: Mapping[str, Path], on_bad_utf8: str, index: int, output: Path) -> Counter[str]:
    """Write the text of the domain with this index, canonical and without blank lines. Return counts of lines."""
    name, path = sorted(files.items())[index]
    tally: Counter[str] = Counter()

    def lines() -> Iterator[str]:
        for line in stream_canonical_lines(path, on_bad_utf8, tally):
            kind = "bad_utf8_dropped" if line is None else "blank" if BLANK.fullmatch(line) else "lines"
            tally[kind] += 1
            if line is not None and kind == "lines":
                yield line

    write_lines(output / f"{name}.{_ENDING}", lines())
    if not tally["lines"]:
        raise InputError(f"{path}: has no text; write the text of the domain into it, line by line")
    return tally


def text_files(folder: Path) -> dict[str, Path]:
    """Return the ``DOMAIN.txt`` files of a folder, which may be compressed, by domain."""
    if not folder.is_dir():
        raise InputError(f"{folder}: not found; give a folder with a file DOMAIN.{_ENDING} for each domain")
    suffixes = domain_files(folder, _ENDING)
    if not suffixes:
        raise InputError(f"{folder}: contains no files DOMAIN.{_ENDING}; add one for each domain")
    names = check_domain_names(sorted(suffixes), str(folder))
    return {name: folder / f"{name}.{_ENDING}{suffixes[name]}" for name in names}


def copy_files(files: Iterable[Path], folder: Path) -> None:
    """Copy files to a folder."""
    for file in files:
        shutil.copyfile(file, folder / file.name)


def import_text_step(work_dir: Path, files: Mapping[str, Path], on_bad_utf8: str, engine: Engine) -> Step:
    """Return the step ``corpora``: the canonical text of each domain; see :func:`import_text`."""
    task = partial(import_text, {name: path.resolve() for name, path in files.items()}, on_bad_utf8)

    def build(folder: Path) -> str:
        tally = sum(fill_by_jobs(folder, task, len(files), engine, "import"), Counter[str]())
        counts = ", ".join(f"{count:,} {key.replace('_', ' ')}" for key, count in tally.items() if count)
        return f"{counts or 'text'}, of {len(files)} domains"

    options = {"files": sorted(path.name for path in files.values()), "on_bad_utf8": on_bad_utf8}
    return Step(work_dir / "corpora", [path for _, path in sorted(files.items())], options, build, resumable=True)


def split_step(
    work_dir: Path,
    names: Iterable[str],
    options: LanguageModelSplit,
    seed: int,
    held_out: Sequence[Path] = (),
    elsewhere: Callable[[], set[str]] = set,
) -> Step:
    """Return the step ``splits``: training, validation and test sets of each domain.

    ``elsewhere`` reads the lines of other held-out sets from the folders ``held_out``. They are left out here.
    """
    texts = {name: work_dir / "corpora" / f"{name}.{_ENDING}" for name in sorted(names)}
    recorded = {**options.model_dump(), "seed": seed, "domains": list(texts)}

    def build(folder: Path) -> str:
        return write_text_splits(folder, texts, options=options, seed=seed, elsewhere=elsewhere())

    return Step(work_dir / "splits", [*texts.values(), *held_out], recorded, build)


def sentencepiece_step(output: Path, texts: Sequence[Path], options: SentencePiece, seed: int) -> Step:
    """Return the step that trains a SentencePiece model on the lines of texts."""
    counted = options.model_dump(include={"vocab_size", "character_coverage", "max_sentences"})
    recorded = {**counted, "seed": seed, "with": versions("sentencepiece")}
    train = partial(train_sentencepiece, files=[[path] for path in texts], tags=[], options=options, seed=seed)
    return Step(output, texts, recorded, train)


def encode_step(work_dir: Path, files: Sequence[tuple[str, str]], engine: Engine) -> Step:
    """Return the step ``encoded``: texts in subwords. ``files`` are pairs of a domain and a set."""
    splits, subwords = work_dir / "splits", work_dir / "subwords"
    options = {"with": versions("sentencepiece", "tokenizers")}
    encode = partial(encode_texts, texts=splits, subwords=subwords, files=files, engine=engine)
    return Step(work_dir / "encoded", [splits, subwords], options, encode, resumable=True)
