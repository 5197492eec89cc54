"""A task's sets as fairseq reads them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from fairseq_ext.classifiers.task_data import TASK_FILE, read_task_facts
from fairseq_ext.classifiers.task_split import LABEL, set_path
from fairseq_ext.corpora.encoders import encode_texts
from fairseq_ext.corpora.subwords import DICT_FILE
from fairseq_ext.corpora.text_files import stream_lines, write_lines
from fairseq_ext.data.binarise import binarise_files
from fairseq_ext.engine.tasks import THIS_MACHINE

_PIECES = ".pieces"  # encoded text, while it is binarised


def binarise_task(folder: Path, texts: Path, subwords: Path, splits: Sequence[str]) -> None:
    """Make a data directory of fairseq's ``sentence_prediction`` of a task's sets."""
    facts = read_task_facts(texts)
    pieces, dictionary = folder / _PIECES, subwords / DICT_FILE
    encode_texts(pieces, texts, subwords, [(part, role) for part in facts.inputs for role in splits], THIS_MACHINE)
    for part in facts.inputs:
        _binarise_part(folder, part, pieces, dictionary, splits)
    shutil.rmtree(pieces)
    if facts.labels:
        write_lines(folder / LABEL / DICT_FILE, (f"{label} 1" for label in facts.labels))
        _binarise_part(folder, LABEL, texts, folder / LABEL / DICT_FILE, splits)
    else:
        for role in splits:
            write_lines(folder / LABEL / f"{role}.label", stream_lines(set_path(texts, LABEL, role)))
    shutil.copyfile(texts / TASK_FILE, folder / TASK_FILE)


def _binarise_part(folder: Path, part: str, texts: Path, dictionary: Path, splits: Sequence[str]) -> None:
    files = [(f"{part}/{role}.txt", f"{part}/{role}") for role in splits]
    binarise_files(folder, texts, [dictionary], files, THIS_MACHINE)
    target = folder / part / DICT_FILE
    if target != dictionary:
        shutil.copyfile(dictionary, target)
