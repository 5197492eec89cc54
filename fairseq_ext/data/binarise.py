"""Binarisation for fairseq: memory-mapped token files, one folder per domain, with a shared dictionary."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from fairseq_ext.base.domain_names import DOMAINS_FILE, read_domain_names
from fairseq_ext.base.fairseq_cli import quieten_fairseq
from fairseq_ext.base.jobs import Engine, fill_by_jobs
from fairseq_ext.text.split import SPLITS
from fairseq_ext.text.subwords import copy_subwords, dictionary_of


def binarise(
    folder: Path,
    encoded: Path,
    subwords: Path,
    langs: tuple[str, str],
    engine: Engine,
    roles: Sequence[str] = SPLITS,
) -> str:
    """Write a data directory: the binarised sets, the dictionaries, the subword model and the domains.

    ``encoded`` contains pieces from :func:`~fairseq_ext.text.subwords.encode_splits`. Returns a message about the
    rate of unknown pieces.
    """
    domains = read_domain_names(encoded / DOMAINS_FILE)
    pair = "-".join(langs)
    files = [
        (f"{name}/{role}.{lang}", f"{name}/{role}.{pair}.{lang}")
        for name in domains
        for role in roles
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
    """Binarise files below ``folder`` with fairseq's binariser; return a message about the rate of unknown pieces.

    Args:
        dictionaries: one for each file, or one for all.
        files: pairs of a file of pieces below ``encoded`` and an output path without extension.
    """
    each = [path.resolve() for path in dictionaries] * (len(files) if len(dictionaries) == 1 else 1)
    unknown = fill_by_jobs(
        folder, partial(_binarise_file, encoded.resolve(), each, files), len(files), engine, "binarise"
    )
    most, worst = max(unknown, default=(0.0, ""))  # an interrupted run may have binarised all
    return f"at most {most:.3f} % of pieces are unknown, in {worst}" if most else "no unknown pieces"


def _binarise_file(
    encoded: Path, dictionaries: Sequence[Path], files: Sequence[tuple[str, str]], index: int, output: Path
) -> tuple[float, str]:
    """Run the job that binarises one file; return the percentage of unknown pieces and the file's name.

    fairseq could split a file among several processes, but these survive if the parent is killed.
    """
    quieten_fairseq()
    # Imported here because fairseq takes seconds to import.
    from fairseq.binarizer import FileBinarizer, VocabularyDatasetBinarizer
    from fairseq.data import Dictionary

    source, target = files[index]
    (output / target).parent.mkdir(exist_ok=True)
    dictionary = Dictionary.load(str(dictionaries[index]))
    binarizer = VocabularyDatasetBinarizer(dictionary, append_eos=True)
    summary = FileBinarizer.multiprocess_dataset(
        str(encoded / source), "mmap", binarizer, str(output / target), vocab_size=len(dictionary), num_workers=1
    )
    return round(summary.replaced_percent, 3), source
