"""Fetching corpora from OPUS (Tiedemann, 2012), the collection of parallel texts at opus.nlpl.eu.

An entry ``opus:CORPUS/VERSION`` stands for the corpus's zip in Moses format, for the two languages at
hand. OpusTools asks OPUS where it lies and fetches it.
"""

from __future__ import annotations

import http.client
import io
import os
import re
import shutil
import socket
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from tqdm import tqdm

from fairseq_ext.corpora.compressed import DAMAGE
from fairseq_ext.inputs.errors import InputError

_ENTRY = re.compile(r"opus:(?P<corpus>[A-Za-z0-9][\w.-]*)/(?P<version>[A-Za-z0-9][\w.-]*)", re.ASCII)
_API_VARIABLE = "OPUS_API"
_TIMEOUT_SECONDS = 60


def is_opus(entry: str) -> bool:
    """Whether an entry is meant for OPUS, well-formed or not."""
    return entry.startswith("opus:")


def check_opus(entry: str) -> tuple[str, str]:
    """Return an entry's corpus and version.

    Raises:
        InputError: if it has no version or cannot be read.
    """
    match = _ENTRY.fullmatch(entry)
    if match is None or match["version"] == "latest":
        corpus = entry.removeprefix("opus:").split("/")[0] or "CORPUS"
        raise InputError(
            f"{entry!r}: name corpus and version, as in opus:{corpus}/v1, since the latest version changes with "
            f"time; which one it is now says: opus_get -d {corpus} -s SRC -t TGT -p moses -l"
        )
    return match["corpus"], match["version"]


def fetch_opus(entries: Sequence[str], langs: tuple[str, str], folder: Path) -> dict[str, Path]:
    """Return every entry's zip, fetching into ``folder`` those it does not hold.

    Args:
        entries: as ``opus:CORPUS/VERSION``.
        langs: the two languages, in any order.
        folder: where zips are kept, by the names they have at OPUS.

    Raises:
        InputError: naming the entry that cannot be fetched.
    """
    zips = {}
    for number, entry in enumerate(entries, start=1):
        corpus, version = check_opus(entry)
        path = folder / f"OPUS-{corpus}" / version / "moses" / f"{'-'.join(sorted(langs))}.txt.zip"
        if not path.is_file():
            print(f"fetching {entry} ({number} of {len(entries)})", file=sys.stderr, flush=True)
            _fetch(entry, langs, path)
        zips[entry] = path
    return zips


def _fetch(entry: str, langs: tuple[str, str], path: Path) -> None:
    """Download into a temporary folder and move the whole zip, so that a kill leaves no torn one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=path.parent) as temporary, _timeout():
        getter = _getter(entry, langs, temporary)
        corpora = _look_up(entry, langs, getter)
        fetched = Path(getter.make_file_name(corpora[0]))
        said = io.StringIO()
        try:
            with redirect_stdout(said), tqdm(desc=entry, unit="B", unit_scale=True, disable=None) as progress:
                getter.progress_status = lambda count, size, total: _show(progress, count * size, total)
                getter.download(corpora, "")
        except (OSError, http.client.HTTPException, ValueError, TypeError) as error:
            said.write(f"{error}\n")
        if reason := said.getvalue().strip():
            raise _cannot_be_fetched(entry, reason.splitlines()[-1])
        try:
            with zipfile.ZipFile(fetched) as archive:
                archive.infolist()
        except DAMAGE as error:
            raise _cannot_be_fetched(entry, f"{corpora[0]['url']}: {error}") from None
        shutil.move(fetched, path)


def _getter(entry: str, langs: tuple[str, str], folder: str) -> Any:
    try:
        from opustools import OpusGet
    except ImportError:
        raise InputError(f"{entry}: needs OpusTools: pip install -r requirements.txt") from None
    corpus, version = check_opus(entry)
    source, target = sorted(langs)
    getter = OpusGet(source, target, corpus, version, "moses", download_dir=folder, suppress_prompts=True)
    if api := os.environ.get(_API_VARIABLE):
        getter.url = api + getter.url[getter.url.index("?") :]
    return getter


def _look_up(entry: str, langs: tuple[str, str], getter: Any) -> list[dict[str, Any]]:
    """Ask OPUS for the one file that the entry stands for."""
    try:
        corpora, _ = getter.get_corpora_data()
        urls = [corpus["url"] for corpus in corpora]
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _cannot_be_fetched(entry, f"{getter.url.split('?')[0]}: {type(error).__name__}: {error}") from None
    if len(urls) != 1 or not urls[0].startswith(("https://", "http://")):
        raise InputError(
            f"{entry}: OPUS has {len(urls) or 'no'} such corpora for {' and '.join(langs)} in Moses format; "
            f"which it has says: opus_get -lc -s {langs[0]} -t {langs[1]}"
        )
    return corpora


def _show(progress: tqdm, fetched: int, total: int) -> None:
    progress.total = max(total, 0) or None
    progress.update(min(fetched, progress.total or fetched) - progress.n)


@contextmanager
def _timeout() -> Iterator[None]:
    """OpusTools would wait for a silent server for ever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_TIMEOUT_SECONDS)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def _cannot_be_fetched(entry: str, reason: str) -> InputError:
    return InputError(
        f"{entry}: cannot be fetched ({reason}); check the network, or fetch the zip yourself and give its path"
    )
