"""Numbers for fairseq: memory-mapped token files, one folder a domain, one dictionary for all."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_ext.domains.names import DOMAINS_FILE, read_domain_names
from fairseq_ext.engine.tasks import TASKS_DIR, Engine, remove_tasks, run_tasks, task_output
from fairseq_ext.preparation.split import SPLITS
from fairseq_ext.preparation.subwords import DICT_FILE, MODEL_FILE


@dataclass(frozen=True)
class BinariseFile:
    """The task that binarises one file with fairseq's own binariser; returns a line on what it held.

    fairseq can divide a file among processes of its own, but these outlive a parent that is killed.

    Args:
        encoded: pieces, made by :func:`~fairseq_ext.preparation.subwords.encode_splits`.
        dictionary: fairseq's dictionary.
        files: domain, set and language of each.
        langs: source and target language.
    """

    encoded: Path
    dictionary: Path
    files: Sequence[tuple[str, str, str]]
    langs: tuple[str, str]

    def __call__(self, index: int, output: Path) -> str:
        """Write the file of this number as ``DOMAIN/SPLIT.SRC-TGT.LANG.{bin,idx}`` into an empty directory."""
        # fairseq takes seconds to import; only this step pays.
        from fairseq.binarizer import FileBinarizer, VocabularyDatasetBinarizer
        from fairseq.data import Dictionary

        name, role, lang = self.files[index]
        (output / name).mkdir()
        dictionary = Dictionary.load(str(self.dictionary))
        summary = FileBinarizer.multiprocess_dataset(
            str(self.encoded / name / f"{role}.{lang}"),
            "mmap",
            VocabularyDatasetBinarizer(dictionary, append_eos=True),
            str(output / name / f"{role}.{'-'.join(self.langs)}.{lang}"),
            vocab_size=len(dictionary),
            num_workers=1,
        )
        counts = f"{summary.num_seq} sentences, {summary.num_tok} tokens"
        return f"{name}/{role}.{lang}: {counts}, {summary.replaced_percent:.3f} % <unk>"


def binarise(folder: Path, encoded: Path, subwords: Path, langs: tuple[str, str], engine: Engine) -> None:
    """Write the binarised sets, the dictionaries, the subword model and the domains.

    The share of unknown pieces goes to stderr.

    Args:
        folder: where to write; with this it is complete as ``fairseq-train``'s data directory.
        encoded: pieces, made by :func:`~fairseq_ext.preparation.subwords.encode_splits`.
        subwords: folder of the subword model.
        langs: source and target language.
        engine: where the files are binarised; makes no difference to the result.
    """
    domains = read_domain_names(encoded / DOMAINS_FILE)
    files = [(name, role, lang) for name in domains for role in SPLITS for lang in langs]
    task = BinariseFile(encoded.resolve(), (subwords / DICT_FILE).resolve(), files, langs)
    for line in sorted(run_tasks(task, folder / TASKS_DIR, len(files), engine, "binarise")):
        print(line, file=sys.stderr)
    for index, (name, _, _) in enumerate(files):
        (folder / name).mkdir(exist_ok=True)
        for path in (task_output(folder / TASKS_DIR, index) / name).iterdir():
            path.rename(folder / name / path.name)  # none is left there if an interrupted run came so far
    remove_tasks(folder / TASKS_DIR)
    for lang in langs:
        shutil.copyfile(subwords / DICT_FILE, folder / f"dict.{lang}.txt")
    shutil.copyfile(subwords / MODEL_FILE, folder / MODEL_FILE)
    shutil.copyfile(encoded / DOMAINS_FILE, folder / DOMAINS_FILE)
