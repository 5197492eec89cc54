"""Numbers for fairseq: memory-mapped token files, one folder a domain, one dictionary for all."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_ext.corpora.split import SPLITS
from fairseq_ext.corpora.subwords import copy_subwords, dictionary_of
from fairseq_ext.engine.fairseq_cli import quieten_fairseq
from fairseq_ext.engine.tasks import TASKS_DIR, Engine, move_outputs, run_tasks
from fairseq_ext.inputs.domain_names import DOMAINS_FILE, read_domain_names


@dataclass(frozen=True)
class BinariseFile:
    """The task that binarises one file with fairseq's own binariser; returns its name and how much of it is unknown.

    ``files`` name pieces below ``encoded``, and what is made of them less its endings, in a folder or none. fairseq can
    divide a file among processes of its own, but these outlive a parent that is killed.
    """

    encoded: Path
    dictionaries: Sequence[Path]
    files: Sequence[tuple[str, str]]

    def __call__(self, index: int, output: Path) -> tuple[str, float]:
        """Write the file of this number as ``NAME.{bin,idx}`` into an empty directory."""
        quieten_fairseq()
        # fairseq takes seconds to import; only this step pays.
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
    """Write the binarised sets, the dictionaries, the subword model and the domains: a data directory of fairseq's.

    ``encoded`` are pieces, made by :func:`~fairseq_ext.corpora.subwords.encode_splits`. Returns how many are unknown.
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
    """Binarise files below ``folder``, as :class:`BinariseFile` does; returns in words how many pieces are unknown.

    ``dictionaries`` are one for each file, or one for all.
    """
    each = [path.resolve() for path in dictionaries] * (len(files) if len(dictionaries) == 1 else 1)
    task = BinariseFile(encoded.resolve(), each, files)
    unknown = dict(run_tasks(task, folder / TASKS_DIR, len(files), engine, "binarise"))
    move_outputs(folder / TASKS_DIR, len(files), folder)
    most, worst = max((percent, name) for name, percent in unknown.items())
    return f"at most {most:.3f} % of pieces unknown, in {worst}" if most else "no unknown pieces"
