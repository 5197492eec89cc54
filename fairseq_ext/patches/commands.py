"""fairseq's commands start no programs, unpack archives safely, and end with one line where the input is at fault."""

from __future__ import annotations

import os
import struct
import sys
import tarfile
import traceback
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, NoReturn

from fairseq import file_utils
from fairseq.data import indexed_dataset
from fairseq.data.fasta_dataset import FastaDataset, fasta_file_path
from fairseq.data.indexed_dataset import MMapIndexedDataset
from fairseq.distributed import utils as distributed_utils
from torch.multiprocessing.spawn import ProcessRaisedException

from fairseq_ext.inputs.errors import InputError, input_error_in, line_of
from fairseq_ext.patches import Patch

_AS_TEXT = f"{InputError.__module__}.{InputError.__name__}: "


def _ending(call_main: Callable[..., Any]) -> Callable[..., Any]:
    """Most commands pass ``call_main``, which Hydra would otherwise give a traceback of its own."""

    def call_and_end(*args: Any, **kwargs: Any) -> Any:
        try:
            return call_main(*args, **kwargs)
        except Exception as error:
            if (line := _line_in(error)) is None:
                raise
            raise SystemExit(line) from None

    return call_and_end


def _explaining(hook: Callable[..., Any]) -> Callable[..., Any]:
    """``fairseq-generate``, and whatever fails before, ends in the interpreter's hook."""

    def explain(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        line = _line_in(error) if _is_of_a_command(trace) else None
        if line is None:
            hook(kind, error, trace)
        else:
            print(line, file=sys.stderr)

    return explain


def _line_in(error: BaseException) -> str | None:
    """The line of the input error that ended the program; None if it was something else."""
    if isinstance(error, ProcessRaisedException):  # one of several processes; its traceback comes as text
        lines = [line for line in str(error).splitlines() if line.startswith(_AS_TEXT)]
        return lines[-1].removeprefix(_AS_TEXT) if lines else None
    if isinstance(error, UnicodeDecodeError):
        return f"the input is not UTF-8 ({error.reason} at byte {error.start} of its part); convert it, e.g. with iconv"
    found = input_error_in(error)  # fairseq wraps errors about checkpoints in exceptions of its own
    return None if found is None else line_of(found)


def _is_of_a_command(trace: TracebackType | None) -> bool:
    return any(
        frame.f_code.co_name == "cli_main" and Path(frame.f_code.co_filename).parent.name == "fairseq_cli"
        for frame, _ in traceback.walk_tb(trace)
    )


def _refuse_fasta(dataset: Any, path: str) -> NoReturn:
    """fairseq counts the sequences by a shell command; a file ``train.fasta`` is enough to choose this reader."""
    raise InputError(f"{fasta_file_path(path)}: data in FASTA files is not read; binarise text with fairseq-preprocess")


class ContainedTarFile(tarfile.TarFile):
    """Writes nothing outside the folder that it is unpacked into, no links that lead out, no devices."""

    extraction_filter = staticmethod(tarfile.data_filter)


def _sparing_files(load: Callable[[str], str | None]) -> Callable[[str], str | None]:
    """fairseq would unpack a file of the user's, delete it, and put a folder in its place."""

    def load_archive_file(archive_file: str) -> str | None:
        if os.path.isfile(archive_file):
            raise InputError(f"{archive_file}: is a file; unpack it, and give the folder that holds the model")
        try:
            return load(archive_file)
        except (tarfile.TarError, OSError) as error:
            raise InputError(f"{archive_file}: is no archive of a model ({error})") from None

    return load_archive_file


def _naming_file(make_dataset: Callable[..., Any]) -> Callable[..., Any]:
    """Name a binarised file that is damaged, in one line."""

    def make_or_explain(path: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return make_dataset(path, *args, **kwargs)
        except (struct.error, ValueError, EOFError, OverflowError, AssertionError, KeyError) as error:
            raise InputError(f"{path}.idx: damaged ({error}); binarise the text again") from error

    return make_or_explain


def _close(dataset: Any) -> None:
    """Close the file of a dataset, if it has come to open one."""
    buffer = getattr(dataset, "_bin_buffer_mmap", None)
    if buffer is not None:
        buffer._mmap.close()


PATCHES: list[Patch] = [
    (distributed_utils, "call_main", _ending),
    (sys, "excepthook", _explaining),
    (FastaDataset, "_build_index", lambda _: _refuse_fasta),
    (file_utils, "load_archive_file", _sparing_files),
    (indexed_dataset, "make_dataset", _naming_file),
    (MMapIndexedDataset, "__del__", lambda _: _close),
    (MMapIndexedDataset.Index, "__del__", lambda _: _close),
]
file_utils.tarfile = SimpleNamespace(open=ContainedTarFile.open)
