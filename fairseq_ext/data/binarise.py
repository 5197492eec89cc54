"""Binarisation for fairseq: memory-mapped token files, one folder per domain, with a shared dictionary."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_ext.base.domain_names import DOMAINS_FILE, read_domain_names
from fairseq_ext.base.fairseq_cli import quieten_fairseq
from fairseq_ext.base.jobs import JOBS_DIR, Engine, move_outputs, run_jobs
from fairseq_ext.text.split import SPLITS
from fairseq_ext.text.subwords import copy_subwords, dictionary_of


@dataclass(frozen=True)
class BinariseFile:
    """A task that binarises one file with fairseq's binariser; returns its name and the percentage of unknown pieces.

    ``files`` are pairs of a file of pieces below ``encoded`` and an output path without extension. fairseq could split
    a file among several processes, but these survive if the parent is killed.
    """

    encoded: Path
    dictionaries: Sequence[Path]
    files: Sequence[tuple[str, str]]

    def __call__(self, index: int, output: Path) -> tuple[str, float]:
        """Binarise the file with this index as ``NAME.{bin,idx}`` into an empty directory."""
        quieten_fairseq()
        # Imported here because fairseq takes seconds to import.
        from fairseq.binarizer import FileBinarizer, VocabularyDatasetBinarizer
        from fairseq.data import Dictionary

        source, target = self.files[index]
        (output / target).parent.mkdir(exist_ok=True)
        dictionary = Dictionary.load(str(self.dictionaries[index]))
        summary = FileBinarizer.multiprocess_dataset(
            str(self.encoded / source),
            "mmap",
            VocabularyDatasetBinarizer(dictionary, append_eos=True),
            str(output / target),
            vocab_size=len(dictionary),
            num_workers=1,
        )
        return source, round(summary.replaced_percent, 3)


def binarise(folder: Path, encoded: Path, subwords: Path, langs: tuple[str, str], engine: Engine) -> str:
    """Write a data directory: the binarised splits, the dictionaries, the subword model and the domains.

    ``encoded`` contains pieces from :func:`~fairseq_ext.text.subwords.encode_splits`. Returns a message about the
    rate of unknown pieces.
    """
    domains = read_domain_names(encoded / DOMAINS_FILE)
    pair = "-".join(langs)
    files = [
        (f"{name}/{role}.{lang}", f"{name}/{role}.{pair}.{lang}")
        for name in domains
        for role in SPLITS
        for lang in langs
    ]
    dictionaries = [dictionary_of(subwords, lang) for lang in langs] * (len(files) // len(langs))
    unknown = binarise_files(folder, encoded, dictionaries, files, engine)
    copy_subwords(subwords, folder, langs)
    shutil.copyfile(encoded / DOMAINS_FILE, folder / DOMAINS_FILE)
    return unknown


def binarise_files(
    folder: Path, encoded: Path, dictionaries: Sequence[Path], files: Sequence[tuple[str, str]], engine: Engine
) -> str:
    """Binarise files below ``folder`` with :class:`BinariseFile`; return a message about the rate of unknown pieces.

    ``dictionaries`` has one entry per file, or one for all.
    """
    each = [path.resolve() for path in dictionaries] * (len(files) if len(dictionaries) == 1 else 1)
    task = BinariseFile(encoded.resolve(), each, files)
    unknown = dict(run_jobs(task, folder / JOBS_DIR, len(files), engine, "binarise"))
    move_outputs(folder / JOBS_DIR, len(files), folder)
    most, worst = max((percent, name) for name, percent in unknown.items())
    return f"at most {most:.3f} % of pieces are unknown, in {worst}" if most else "no unknown pieces"
