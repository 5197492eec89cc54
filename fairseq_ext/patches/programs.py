"""Programs that fairseq would start with text from a path or from an option: they are refused."""

from __future__ import annotations

from typing import Any, NoReturn

from fairseq.data.fasta_dataset import FastaDataset, fasta_file_path
from fairseq.tasks.audio_pretraining import AudioPretrainingTask

from fairseq_ext.inputs.errors import InputError


def refuse_programs() -> None:
    """Let neither the name of a data directory reach a shell, nor an option of an experiment file name a program.

    fairseq counts the sequences of FASTA files by a shell command; a file ``train.fasta`` is enough to choose that
    reader. Its task for speech runs what ``--post-save-script`` says.
    """
    FastaDataset._build_index = _refuse_fasta
    AudioPretrainingTask.post_save = _refuse_script


def _refuse_fasta(dataset: Any, path: str) -> NoReturn:
    raise InputError(f"{fasta_file_path(path)}: data in FASTA files is not read; binarise text with fairseq-preprocess")


def _refuse_script(task: Any, cp_path: str, num_updates: int) -> None:
    if task.cfg.post_save_script is not None:
        raise InputError(f"--post-save-script {task.cfg.post_save_script!r}: no programs are run; leave the option out")
