"""Archives of models: fairseq unpacks those it fetches within their folder, and leaves the user's own alone."""

from __future__ import annotations

import functools
import os
import tarfile
from collections.abc import Callable
from types import SimpleNamespace

from fairseq import file_utils

from fairseq_ext.inputs.errors import InputError


class ContainedTarFile(tarfile.TarFile):
    """Writes nothing outside the folder that it is unpacked into, no links that lead out, no devices."""

    extraction_filter = staticmethod(tarfile.data_filter)


def unpack_archives_safely() -> None:
    """Unpack with :class:`ContainedTarFile`, and refuse archives that are the user's files.

    fairseq would unpack such a file anywhere its entries say, delete it, and put a folder in its place.
    """
    if not hasattr(file_utils.load_archive_file, "__wrapped__"):
        file_utils.tarfile = SimpleNamespace(open=ContainedTarFile.open)
        file_utils.load_archive_file = _sparing_files(file_utils.load_archive_file)


def _sparing_files(load: Callable[[str], str | None]) -> Callable[[str], str | None]:
    @functools.wraps(load)
    def load_archive_file(archive_file: str) -> str | None:
        if os.path.isfile(archive_file):
            raise InputError(f"{archive_file}: is a file; unpack it, and give the folder that holds the model")
        try:
            return load(archive_file)
        except (tarfile.TarError, OSError) as error:
            raise InputError(f"{archive_file}: is no archive of a model ({error})") from None

    return load_archive_file
