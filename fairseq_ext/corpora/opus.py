"""Fetching corpora from OPUS (Tiedemann, 2012), the collection of parallel texts at opus.nlpl.eu.

An entry ``opus:CORPUS/VERSION`` stands for the corpus's zip in Moses format, for the two languages at hand.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import urlopen

from tqdm import tqdm

from fairseq_ext.corpora.files import DAMAGE
from fairseq_ext.inputs.errors import InputError

_API = "https://opus.nlpl.eu/opusapi/"
# Another address, for tests and mirrors.
_API_VARIABLE = "OPUS_API"
_ENTRY = re.compile(r"opus:(?P<corpus>[A-Za-z0-9][\w.-]*)/(?P<version>[A-Za-z0-9][\w.-]*)", re.ASCII)
_TIMEOUT_SECONDS = 60
_NETWORK_ERRORS = (OSError, http.client.HTTPException, ValueError, KeyError, TypeError)


def is_opus(entry: str) -> bool:
    """Whether an entry is meant for OPUS, well-formed or not."""
    return entry.startswith("opus:")


def check_opus(entry: str) -> tuple[str, str]:
    """Return an entry's corpus and version."""
    match = _ENTRY.fullmatch(entry)
    if match is None or match["version"] == "latest":
        raise InputError(
            f"{entry!r}: name corpus and version, as in opus:Books/v1, since the latest version changes with time; "
            "https://opus.nlpl.eu lists them"
        )
    return match["corpus"], match["version"]


def fetch_opus(entries: Sequence[str], langs: tuple[str, str], folder: Path) -> dict[str, Path]:
    """Return every entry's zip, fetching into ``folder`` those it does not hold; the languages may be in any order."""
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
    try:
        urls = _look_up(entry, langs)
        if len(urls) != 1 or not urls[0].startswith(("https://", "http://")):
            given = f"{' and '.join(langs)} in Moses format; https://opus.nlpl.eu lists what there is"
            raise InputError(f"{entry}: OPUS has {len(urls) or 'no'} such corpora for {given}")
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=path.parent) as temporary:
            fetched = Path(temporary) / path.name
            _download(urls[0], fetched, entry)
            with zipfile.ZipFile(fetched):
                pass
            shutil.move(fetched, path)
    except (*_NETWORK_ERRORS, *DAMAGE) as error:
        raise InputError(
            f"{entry}: cannot be fetched ({type(error).__name__}: {error}); check the network, or fetch the zip "
            "yourself and give its path"
        ) from None


def _look_up(entry: str, langs: tuple[str, str]) -> list[str]:
    """Ask OPUS for the addresses of the files that the entry stands for."""
    corpus, version = check_opus(entry)
    source, target = sorted(langs)
    query = {"corpus": corpus, "version": version, "source": source, "target": target, "preprocessing": "moses"}
    address = f"{os.environ.get(_API_VARIABLE, _API)}?{urlencode(query)}"
    with urlopen(address, timeout=_TIMEOUT_SECONDS) as answer:
        return [str(corpus["url"]) for corpus in json.load(answer)["corpora"]]


def _download(url: str, path: Path, label: str) -> None:
    with urlopen(url, timeout=_TIMEOUT_SECONDS) as answer:
        size = int(answer.headers.get("Content-Length") or 0)
        with tqdm.wrapattr(answer, "read", size or None, desc=label, disable=None) as body, path.open("wb") as file:
            shutil.copyfileobj(body, file, 1 << 18)
    if size and path.stat().st_size != size:
        raise EOFError(f"{url} ended after {path.stat().st_size} of {size} bytes")
