"""Numbers for fairseq: memory-mapped token files, one folder a domain, one dictionary for all."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_ext.domains.names import DOMAINS_FILE, read_domain_names
from fairseq_ext.engine.tasks import TASKS_DIR, Engine, move_outputs, run_tasks
from fairseq_ext.text.split import SPLITS
from fairseq_ext.text.subwords import DICT_FILE, MODEL_FILE, check_pieces

_WITHOUT_UNKNOWN = ", 0.000 % <unk>"


@dataclass(frozen=True)
class BinariseFile:
    """The task that binarises one file with fairseq's own binariser; returns a line on what it held.

    fairseq can divide a file among processes of its own, but these outlive a parent that is killed.

    Args:
        encoded: folder of the pieces.
        dictionary: fairseq's dictionary.
        files: the file of pieces in ``encoded``, and what is made of it less its endings, in a folder or none.
    """

    encoded: Path
    dictionary: Path
    files: Sequence[tuple[str, str]]

    def __call__(self, index: int, output: Path) -> str:
        """Write the file of this number as ``NAME.{bin,idx}`` into an empty directory."""
        # fairseq takes seconds to import; only this step pays.
        from fairseq.binarizer import FileBinarizer, VocabularyDatasetBinarizer
        from fairseq.data import Dictionary

        source, target = self.files[index]
        (output / target).parent.mkdir(exist_ok=True)
        dictionary = Dictionary.load(str(self.dictionary))
        summary = FileBinarizer.multiprocess_dataset(
            str(self.encoded / source),
            "mmap",
            VocabularyDatasetBinarizer(dictionary, append_eos=True),
            str(output / target),
            vocab_size=len(dictionary),
            num_workers=1,
        )
        counts = f"{summary.num_seq} sentences, {summary.num_tok} tokens"
        return f"{source}: {counts}, {summary.replaced_percent:.3f} % <unk>"


def binarise(folder: Path, encoded: Path, subwords: Path, langs: tuple[str, str], engine: Engine) -> None:
    """Write the binarised sets, the dictionaries, the subword model and the domains.

    The share of unknown pieces goes to stderr.

    Args:
        folder: where to write; with this it is complete as ``fairseq-train``'s data directory.
        encoded: pieces, made by :func:`~fairseq_ext.text.subwords.encode_splits`.
        subwords: folder of the subword model.
        langs: source and target language.
        engine: where the files are binarised; makes no difference to the result.
    """
    domains = read_domain_names(encoded / DOMAINS_FILE)
    pair = "-".join(langs)
    files = [
        (f"{name}/{role}.{lang}", f"{name}/{role}.{pair}.{lang}")
        for name in domains
        for role in SPLITS
        for lang in langs
    ]
    check_pieces(subwords / MODEL_FILE, subwords / DICT_FILE)
    binarise_files(folder, encoded, subwords / DICT_FILE, files, engine)
    for lang in langs:
        shutil.copyfile(subwords / DICT_FILE, folder / f"dict.{lang}.txt")
    shutil.copyfile(subwords / MODEL_FILE, folder / MODEL_FILE)
    shutil.copyfile(encoded / DOMAINS_FILE, folder / DOMAINS_FILE)


def binarise_files(
    folder: Path, encoded: Path, dictionary: Path, files: Sequence[tuple[str, str]], engine: Engine
) -> None:
    """Binarise files below ``folder``, and say on stderr which had unknown pieces; see :class:`BinariseFile`."""
    task = BinariseFile(encoded.resolve(), dictionary.resolve(), files)
    for line in summary_of(run_tasks(task, folder / TASKS_DIR, len(files), engine, "binarise")):
        print(line, file=sys.stderr)
    move_outputs(folder / TASKS_DIR, len(files), folder)


def summary_of(told: Iterable[str]) -> list[str]:
    """What :class:`BinariseFile` told of files with unknown pieces, and how many others there are."""
    lines = sorted(told)
    unknown = [line for line in lines if not line.endswith(_WITHOUT_UNKNOWN)]
    return [*unknown, f"{len(lines)} files, {len(lines) - len(unknown)} of them without unknown pieces"]
