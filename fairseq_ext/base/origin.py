"""Origin and licence of a pretrained base: ``base.json`` beside its subwords, in its data and in exported systems."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from fairseq_ext.base.json_file import read_typed, write_json

ORIGIN_FILE = "base.json"
ORIGIN = "base"  # key in the task state of checkpoints
_REMEDY = "prepare the data again"


@dataclass(frozen=True)
class Origin:
    """Origin and licence of a pretrained base.

    Attributes:
        model: name of its folder or file.
        origin: who made the model, as the user says.
        licence: licence of the model, as the user says.
        package: pinned package with the model.
        package_licence: licence that the package states for itself.
        sha256: SHA-256 of the package.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    model: str
    origin: str | None = None
    licence: str | None = None
    package: str | None = None
    package_licence: str | None = None
    sha256: str | None = None

    @property
    def text(self) -> str:
        """Description on one line."""
        name = f"{self.origin}: {self.model}" if self.origin else self.model
        place = f" from {self.package}" if self.package else ""
        also = f" (the package: {self.package_licence or 'not stated'})" if self.package else ""
        return f"{name}{place}; licence {self.licence or 'not stated'}{also}"

    def write(self, folder: Path) -> None:
        """Write ``base.json``."""
        write_json(folder / ORIGIN_FILE, dataclasses.asdict(self))


def read_origin(folder: Path) -> Origin | None:
    """Read ``base.json``; return None if the folder has none, because its base was trained from nothing."""
    path = folder / ORIGIN_FILE
    if not path.is_file():
        return None
    return read_typed(path, Origin, _REMEDY)
