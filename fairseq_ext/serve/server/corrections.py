"""Corrections of translations, sent by users and kept in a folder, one file for each domain."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from fairseq_ext.base.errors import InputError
from fairseq_ext.serve.server.refusals import RefusedError

GENERAL = "general"  # name of the file of corrections without a domain
_MOST_BYTES = 64 << 20  # of each file


class Corrections:
    """A folder of corrections, ``DOMAIN.jsonl``: objects with ``source`` and ``target``.

    Raises:
        InputError: if the folder cannot be created.
    """

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--corrections {folder}: cannot be created ({error}); choose another folder") from None
        self._folder, self._lock = folder, threading.Lock()

    def add(self, domain: str | None, source: str, target: str) -> None:
        """Append a correction."""
        line = json.dumps({"source": source, "target": target}, ensure_ascii=False) + "\n"
        path = self._folder / f"{domain or GENERAL}.jsonl"
        with self._lock, path.open("ab") as file:
            if file.tell() > _MOST_BYTES:
                raise RefusedError(503, f"{path.name} is full; move it away")
            file.write(line.encode("utf-8"))
