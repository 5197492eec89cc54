"""Numbers for fairseq: memory-mapped token files, one folder a domain, one dictionary for all."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from tqdm import tqdm

from fairseq_ext.domains.names import DOMAINS_FILE, read_domain_names
from fairseq_ext.preparation.split import SPLITS
from fairseq_ext.preparation.subwords import DICT_FILE, MODEL_FILE


def binarise(folder: Path, encoded: Path, subwords: Path, langs: tuple[str, str], *, workers: int = 1) -> None:
    """Write ``DOMAIN/SPLIT.SRC-TGT.LANG.{bin,idx}``, the dictionaries, the subword model and the domains.

    fairseq's own binariser runs in this process. The share of unknown pieces goes to stderr.

    Args:
        folder: where to write; with this it is complete as ``fairseq-train``'s data directory.
        encoded: pieces, made by :func:`~fairseq_ext.preparation.subwords.encode_splits`.
        subwords: folder of the subword model.
        langs: source and target language.
        workers: processes to use.
    """
    # fairseq takes seconds to import; only this step pays.
    from fairseq.data import Dictionary

    dictionary = Dictionary.load(str(subwords / DICT_FILE))
    domains = read_domain_names(encoded / DOMAINS_FILE)
    files = [(name, role, lang) for name in domains for role in SPLITS for lang in langs]
    for name, role, lang in tqdm(files, desc="binarise", unit="file", disable=None):
        source = encoded / name / f"{role}.{lang}"
        prefix = folder / name / f"{role}.{'-'.join(langs)}.{lang}"
        _report(source, _binarise_file(source, prefix, dictionary, workers))
    for lang in langs:
        shutil.copyfile(subwords / DICT_FILE, folder / f"dict.{lang}.txt")
    shutil.copyfile(subwords / MODEL_FILE, folder / MODEL_FILE)
    shutil.copyfile(encoded / DOMAINS_FILE, folder / DOMAINS_FILE)


def _binarise_file(source: Path, prefix: Path, dictionary: Any, workers: int) -> Any:
    from fairseq.binarizer import FileBinarizer, VocabularyDatasetBinarizer

    prefix.parent.mkdir(parents=True, exist_ok=True)
    binarizer = VocabularyDatasetBinarizer(dictionary, append_eos=True)
    return FileBinarizer.multiprocess_dataset(
        str(source), "mmap", binarizer, str(prefix), vocab_size=len(dictionary), num_workers=workers
    )


def _report(source: Path, summary: Any) -> None:
    name = "/".join(source.parts[-2:])
    counts = f"{summary.num_seq} sentences, {summary.num_tok} tokens"
    tqdm.write(f"{name}: {counts}, {summary.replaced_percent:.3f} % <unk>", file=sys.stderr)
