"""Make fairseq's commands start no programs, unpack archives safely, and report input errors in one line."""

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

import numpy as np
from fairseq import file_utils
from fairseq.data import TokenBlockDataset, indexed_dataset
from fairseq.data.fasta_dataset import FastaDataset, fasta_file_path
from fairseq.data.indexed_dataset import MMapIndexedDataset
from fairseq.distributed import utils as distributed_utils
from torch.multiprocessing.spawn import ProcessRaisedException

from fairseq_ext.base.errors import InputError, input_error_in, is_environment, line_of
from fairseq_ext.patches import Patch, around
from fairseq_ext.patches.options import read_values_as_literals

_AS_TEXT = f"{InputError.__module__}.{InputError.__name__}: "


def _call(call_main: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """End commands that use ``call_main`` with one line; Hydra would print a traceback."""
    read_values_as_literals()  # also in the command, which may have been imported after the changes
    try:
        return call_main(*args, **kwargs)
    except Exception as error:
        if (line := _line_in(error)) is None:
            raise
        raise SystemExit(line) from None


def _explain(
    hook: Callable[..., Any], kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print one line for errors outside ``call_main``, such as in ``fairseq-generate``, by the interpreter's hook."""
    line = _line_in(error) if _is_of_a_command(trace) else None
    if line is None:
        hook(kind, error, trace)
    else:
        print(line, file=sys.stderr)


def _line_in(error: BaseException) -> str | None:
    """Return the line of the input error that ended the program; None for other errors."""
    if isinstance(error, ProcessRaisedException):  # an error of a child process; its traceback is text
        lines = [line for line in str(error).splitlines() if line.startswith(_AS_TEXT)]
        return lines[-1].removeprefix(_AS_TEXT) if lines else None
    if isinstance(error, UnicodeDecodeError):
        return f"the input is not UTF-8 ({error.reason} at byte {error.start} of its part); convert it with iconv"
    if isinstance(error, OSError) and is_environment(error) and input_error_in(error) is None:
        return line_of(InputError(f"{error}; correct this and run the same command again"))
    found = input_error_in(error)  # fairseq wraps errors about checkpoints in other exceptions
    return None if found is None else line_of(found)


def _is_of_a_command(trace: TracebackType | None) -> bool:
    return any(
        frame.f_code.co_name == "cli_main" and Path(frame.f_code.co_filename).parent.name == "fairseq_cli"
        for frame, _ in traceback.walk_tb(trace)
    )


def _refuse_fasta(dataset: Any, path: str) -> NoReturn:
    """Refuse FASTA files: fairseq counts their sequences with a shell command.

    A file named ``train.fasta`` would select this reader.
    """
    raise InputError(f"{fasta_file_path(path)}: FASTA files are not supported; binarise text with fairseq-preprocess")


class ContainedTarFile(tarfile.TarFile):
    """Archive that extracts no files outside the target folder, no links that lead out of it, and no devices."""

    extraction_filter = staticmethod(tarfile.data_filter)


def _load_archive(load: Callable[[str], str | None], archive_file: str) -> str | None:
    """Refuse archive files: fairseq would unpack the user's file, delete it, and replace it with a folder."""
    if os.path.isfile(archive_file):
        raise InputError(f"{archive_file}: is a file; unpack it, and give the folder of the model")
    try:
        return load(archive_file)
    except (tarfile.TarError, OSError) as error:
        raise InputError(f"{archive_file}: not a readable archive of a model ({error})") from None


def _make_dataset(make_dataset: Callable[..., Any], path: str, *args: Any, **kwargs: Any) -> Any:
    """Report a damaged binarised file in one line, with its name."""
    try:
        return make_dataset(path, *args, **kwargs)
    except (struct.error, ValueError, EOFError, OverflowError, AssertionError, KeyError) as error:
        raise InputError(f"{path}.idx: damaged ({error}); binarise the text again") from error


def _cut(cut: Callable[..., Any], sizes: Any, break_mode: Any, document_sep_len: int, block_size: int | None) -> Any:
    """Make fairseq's blocks of one sentence (``--sample-break-mode eos``, typed lines) work with numpy ≥ 2.3.

    fairseq uses a name that numpy has removed.
    """
    if break_mode != "eos":
        return cut(sizes, break_mode, document_sep_len, block_size)
    lengths = np.asarray(sizes, dtype=np.int64)
    ends = lengths.cumsum()
    numbers = np.arange(len(lengths))
    block_to_sentence = np.stack([numbers, np.zeros_like(numbers), numbers], 1)  # first, offset in it, last
    return lengths, block_to_sentence, np.stack([ends - lengths, ends], 1)


def _close(dataset: Any) -> None:
    """Close the file of a dataset if it was opened."""
    buffer = getattr(dataset, "_bin_buffer_mmap", None)
    if buffer is not None:
        buffer._mmap.close()


PATCHES: list[Patch] = [
    (distributed_utils, "call_main", around(_call)),
    (sys, "excepthook", around(_explain)),
    (FastaDataset, "_build_index", lambda _: _refuse_fasta),
    (file_utils, "load_archive_file", around(_load_archive)),
    (file_utils, "tarfile", lambda _: SimpleNamespace(open=ContainedTarFile.open)),
    (indexed_dataset, "make_dataset", around(_make_dataset)),
    (TokenBlockDataset, "_build_slice_indices", around(_cut)),
    (MMapIndexedDataset, "__del__", lambda _: _close),
    (MMapIndexedDataset.Index, "__del__", lambda _: _close),
]
