"""Data directories: dictionaries, the list of domains, and one sub-directory of binarised text per domain.

Dictionary, SentencePiece model, binarised data and checkpoint must match. A mismatch would otherwise go unnoticed, as a
dictionary in another order has the same size and accepts the same indices.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairseq import utils

from fairseq_ext.base.domain_names import BASE_ROUTE, DOMAINS_FILE, read_domain_names
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.hashing import hash_file
from fairseq_ext.base.origin import ORIGIN, read_origin
from fairseq_ext.base.provenance import check_contents, read_record
from fairseq_ext.text.subwords import MODEL_FILE

_ENTRY = "vocabulary"  # key in a task's state in checkpoints


def split_directories(data: str | None) -> list[Path]:
    """Split a data option, ``DIR`` or ``DIR1:DIR2:…``, into directories."""
    directories = [Path(path) for path in utils.split_paths(data or "") if path]
    if not directories:
        raise InputError("no data directory given; give one with domains.txt and dictionaries")
    return directories


def read_domains(directories: list[Path]) -> list[str]:
    """Read the domains of directories, which must be equal."""
    domains = read_domain_names(directories[0] / DOMAINS_FILE)
    for directory in directories[1:]:
        if read_domain_names(directory / DOMAINS_FILE) != domains:
            raise InputError(f"{directory / DOMAINS_FILE}: differs from {directories[0] / DOMAINS_FILE}; make it equal")
    return domains


def check_directories(data: Path, domains: list[str]) -> None:
    """Check that all sub-directories with data belong to listed domains, or are general text, ``base``."""
    for path in sorted(data.glob("*/*.idx")):
        if path.parent.name not in (*domains, BASE_ROUTE):
            raise InputError(f"{path.parent}: not listed in {data / DOMAINS_FILE}; add the domain or remove its data")


def infer_languages(data: Path) -> tuple[str, str]:
    """Infer the language pair of a data directory from a file name like ``DOMAIN/train.en-de.en.idx``."""
    for path in sorted(data.glob("*/*.idx")):
        match = re.fullmatch(r"[^.]+\.([^.-]+)-([^.-]+)\.[^.]+\.idx", path.name)
        if match:
            return match[1], match[2]
    raise InputError(f"{data}: has no file like DOMAIN/train.en-de.en.idx; give --source-lang and --target-lang")


def check_vocabulary_files(data: Path) -> None:
    """Check that dictionaries, subword models and the list of domains are unchanged since they were written.

    Data without a record are not checked.
    """
    if record := read_record(data):
        dictionaries = sorted(path.name for path in data.glob("dict*.txt"))
        names = [name for name in (*dictionaries, *_models_in(data), DOMAINS_FILE) if name in record.hashes]
        check_contents(data, record, names)


def _models_in(data: Path) -> list[str]:
    """Return the names of the shared SentencePiece model, even if missing, and of those of single languages."""
    return [MODEL_FILE, *sorted(path.name for path in data.glob("sentencepiece.*.model"))]


def subword_options(data: Path) -> dict[str, str]:
    """Return fairseq's options for the directory's SentencePiece model; none if there is no such file."""
    model = data / MODEL_FILE
    return {"bpe": "sentencepiece", "sentencepiece_model": str(model)} if model.is_file() else {}


class VocabularyMemory:
    """Mixin of fairseq tasks that stores hashes of dictionaries and subword models in checkpoints and checks them.

    The origin of a pretrained base is stored, too. Checkpoints without hashes, from fairseq's own tasks,
    are loaded without a check.
    """

    cfg: Any

    def dictionaries(self) -> dict[str, Any]:
        """Return the task's dictionaries by file name."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Return the task's state for checkpoints."""
        origin = read_origin(split_directories(self.cfg.data)[0])
        told = {ORIGIN: dataclasses.asdict(origin)} if origin else {}
        return {**super().state_dict(), _ENTRY: self._fingerprint(), **told}  # type: ignore[misc]

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Check and load a task's state from a checkpoint."""
        self.check_vocabulary(state_dict)
        super().load_state_dict({name: value for name, value in state_dict.items() if name not in (_ENTRY, ORIGIN)})  # type: ignore[misc]

    def check_vocabulary(self, state_dict: Mapping[str, Any]) -> None:
        """Compare the data's vocabulary with the hashes in a checkpoint's task state; skip files that one lacks."""
        remembered = state_dict.get(_ENTRY)
        if not isinstance(remembered, Mapping):
            return
        data, own = split_directories(self.cfg.data)[0], self._fingerprint()
        for name in own.keys() & remembered.keys():
            if own[name] != remembered[name]:
                raise InputError(
                    f"{data / name}: not the one that the checkpoint was trained with; use the data directory of its "
                    "training, or data prepared with the same subwords"
                )

    def _fingerprint(self) -> dict[str, str]:
        """Return SHA-256 hashes of symbols and SentencePiece models by file name."""
        data = split_directories(self.cfg.data)[0]
        symbols = {name: "\n".join(dictionary.symbols) for name, dictionary in self.dictionaries().items()}
        found = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in symbols.items()}
        models = [data / name for name in _models_in(data)]
        return found | {path.name: hash_file(path) for path in models if path.is_file()}
