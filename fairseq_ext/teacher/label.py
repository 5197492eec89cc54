"""Labelling new text with a trained teacher."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairseq_ext.corpora.text_files import count_lines
from fairseq_ext.data.teacher_labels import read_teacher_record
from fairseq_ext.engine.hashing import hash_path
from fairseq_ext.engine.staging import Staging, locked
from fairseq_ext.engine.tasks import Engine, run_tasks
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.teacher.classifier import MODEL_FOLDER
from fairseq_ext.teacher.labelling import (
    BLOCK_SENTENCES,
    TextFiles,
    cut,
    engine_for,
    read_block,
    write_block,
    write_rows,
)

_THIS_MACHINE = Engine()


@dataclass(frozen=True)
class _LabelBlock:
    """The task that labels one block of a text; paths are absolute."""

    model: Path
    backend: str
    text: TextFiles
    block_sentences: int

    def __call__(self, number: int, output: Path) -> None:
        block = cut(self.text.counts[0], self.block_sentences)[number]
        write_block(output, self.model, self.backend, self.text.read(np.arange(*block)))


def label_file(
    teacher_dir: Path,
    input_path: Path,
    output_path: Path,
    engine: Engine = _THIS_MACHINE,
    block_sentences: int = BLOCK_SENTENCES,
) -> None:
    """Write P(domain | sentence) of every line as float16 N×D, columns as in ``teacher.json``.

    Blocks that an interrupted run of the same job finished are taken over.
    """
    record, model = read_teacher_record(teacher_dir), (teacher_dir / MODEL_FOLDER).resolve()
    text = TextFiles((input_path.resolve(),), (count_lines(input_path),))
    if not model.is_dir():
        raise InputError(f"{model}: not found; train the teacher again")
    hashes = [hash_path(model), hash_path(input_path), str(block_sentences)]
    fingerprint, staging = hashlib.sha256(json.dumps(hashes).encode()).hexdigest(), Staging(output_path)
    blocks = cut(text.counts[0], block_sentences)
    task = _LabelBlock(model, record["backend"], text, block_sentences)
    output_path.parent.mkdir(parents=True, exist_ok=True)
    with locked(output_path):
        folder = staging.unfinished if staging.is_begun(fingerprint) else staging.start(fingerprint)
        sizes = [stop - start for start, stop in blocks]
        run_tasks(task, folder, len(blocks), engine_for(record["backend"], engine), "label", sizes, unit="sentence")
        num_domains = len(record["domains"])
        parts = ((slice(*block), read_block(folder, number, num_domains)) for number, block in enumerate(blocks))
        write_rows(output_path, (text.counts[0], num_domains), parts)
        staging.clear()
