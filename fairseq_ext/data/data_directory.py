"""A data directory: dictionaries, the list of domains, and one sub-directory of binarised text per domain.

Dictionary, SentencePiece model, binarised data and checkpoint belong together. Nothing else would notice: a dictionary
in another order has the same size, and any numbers can be looked up in it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairseq import utils

from fairseq_ext.corpora.subwords import MODEL_FILE
from fairseq_ext.engine.hashing import hash_file
from fairseq_ext.engine.provenance import check_contents, read_record
from fairseq_ext.inputs.domain_names import DOMAINS_FILE, read_domain_names
from fairseq_ext.inputs.errors import InputError

_ENTRY = "vocabulary"  # of a task's state in checkpoints


def split_directories(data: str | None) -> list[Path]:
    """The directories of a data option, ``DIR`` or ``DIR1:DIR2:…``."""
    directories = [Path(path) for path in utils.split_paths(data or "") if path]
    if not directories:
        raise InputError("no data directory; give one with domains.txt and dictionaries")
    return directories


def read_domains(directories: list[Path]) -> list[str]:
    """The domains of all of these directories."""
    domains = read_domain_names(directories[0] / DOMAINS_FILE)
    for directory in directories[1:]:
        if read_domain_names(directory / DOMAINS_FILE) != domains:
            raise InputError(f"{directory / DOMAINS_FILE}: differs from {directories[0] / DOMAINS_FILE}; make it equal")
    return domains


def check_directories(data: Path, domains: list[str]) -> None:
    """Check that all sub-directories with data are of listed domains."""
    for path in sorted(data.glob("*/*.idx")):
        if path.parent.name not in domains:
            raise InputError(f"{path.parent}: not listed in {data / DOMAINS_FILE}; add the domain or remove its data")


def infer_languages(data: Path) -> tuple[str, str]:
    """The language pair of a data directory, from the name of a file like ``DOMAIN/train.en-de.en.idx``."""
    for path in sorted(data.glob("*/*.idx")):
        match = re.fullmatch(r"[^.]+\.([^.-]+)-([^.-]+)\.[^.]+\.idx", path.name)
        if match:
            return match[1], match[2]
    raise InputError(f"{data}: no file like DOMAIN/train.en-de.en.idx; give --source-lang and --target-lang")


def check_vocabulary_files(data: Path) -> None:
    """Check that the files of a data directory that give its numbers their meaning are as its step wrote them.

    Data without a record, or with one of an earlier version, which knows no contents, are taken as they are.
    """
    if record := read_record(data):
        dictionaries = sorted(path.name for path in data.glob("dict*.txt"))
        names = [name for name in (*dictionaries, *_models_in(data), DOMAINS_FILE) if name in record.hashes]
        check_contents(data, record, names)


def _models_in(data: Path) -> list[str]:
    """SentencePiece's own, and a language's where it has one; the first must be there if the record names it."""
    return [MODEL_FILE, *sorted(path.name for path in data.glob("sentencepiece.*.model"))]


class VocabularyMemory:
    """Mixed into a task of fairseq's: its state in checkpoints tells dictionaries and subwords, and is compared.

    Checkpoints without that, of fairseq's own tasks and of earlier versions, load as they are.
    """

    cfg: Any

    def dictionaries(self) -> dict[str, Any]:
        """The dictionaries that numbers are looked up in, by file name."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """What checkpoints keep of the task."""
        return {**super().state_dict(), _ENTRY: self._fingerprint()}  # type: ignore[misc]

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take what a checkpoint kept of a task."""
        self.check_vocabulary(state_dict)
        super().load_state_dict({name: value for name, value in state_dict.items() if name != _ENTRY})  # type: ignore[misc]

    def check_vocabulary(self, state_dict: Mapping[str, Any]) -> None:
        """Compare the data's vocabulary with what a checkpoint kept of its task; what only one has is left alone."""
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
        """SHA-256 of symbols and SentencePiece models, by file name."""
        data = split_directories(self.cfg.data)[0]
        symbols = {name: "\n".join(dictionary.symbols) for name, dictionary in self.dictionaries().items()}
        found = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in symbols.items()}
        models = [data / name for name in _models_in(data)]
        return found | {path.name: hash_file(path) for path in models if path.is_file()}
