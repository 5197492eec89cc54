"""Archives made to harm, or holding what is no file, end in one line; so do files that are none."""

import io
import os
import re
import socket
import tarfile
import zipfile
import zlib
from collections import Counter
from pathlib import Path

import pytest

from fairseq_ext.corpora import archives
from fairseq_ext.corpora.archives import is_tar, open_zip, read_file, read_members
from fairseq_ext.corpora.parallel_files import read_moses_zip
from fairseq_ext.inputs.errors import InputError

WANTED = re.compile(r"(?:.*/)?de\.po")
PO = b'msgid "one"\nmsgstr "eins"\n'


def write_tar(path: Path, *members: tarfile.TarInfo, data: bytes = PO) -> Path:
    with tarfile.open(path, "w") as tar:
        for member in members:
            member.size = len(data) if member.isreg() else 0
            tar.addfile(member, io.BytesIO(data) if member.isreg() else None)
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
@pytest.mark.parametrize("link", ["nowhere.po", "de.po", "/etc/hostname", "../de.po"])
def test_link_that_leads_to_no_file_of_the_archive_is_named(tmp_path: Path, kind: bytes, link: str) -> None:
    path = write_tar(tmp_path / "x.tar", member("de.po", kind, link))
    with pytest.raises(InputError, match=rf"x\.tar/de\.po: is a link to '{link}', which the archive lacks"):
        read_members(path, WANTED)


def test_link_to_a_file_of_the_archive_is_followed(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "x.tar", member("de_AT.po"), member("de.po", tarfile.SYMTYPE, "de_AT.po"))
    assert read_members(path, WANTED) == {"de.po": PO}


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_device_in_a_tar_is_no_file(tmp_path: Path, kind: bytes) -> None:
    with pytest.raises(InputError, match=r"x\.tar/de\.po: is no file"):
        read_members(write_tar(tmp_path / "x.tar", member("de.po", kind)), WANTED)


def test_paths_out_of_an_archive_lead_nowhere(tmp_path: Path) -> None:
    names = ["/de.po", "../../de.po", "a/../de.po"]
    path = write_tar(tmp_path / "x.tar", *map(member, names))
    assert read_members(path, WANTED) == dict.fromkeys(names, PO)
    assert list(tmp_path.iterdir()) == [path]


def header_of_size(size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    info = member("de.po", kind)
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_size_below_zero_leads_to_no_endless_reading(tmp_path: Path, kind: bytes) -> None:
    (tmp_path / "x.tar").write_bytes(header_of_size(-512, kind) + bytes(1024))
    with pytest.raises(InputError, match=r"x\.tar.*(damaged or cut off|is no catalogue)"):
        read_members(tmp_path / "x.tar", WANTED)


def test_header_of_many_bytes_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(header_of_size(1 << 30, tarfile.XHDTYPE) + bytes(1024))
    assert not is_tar(tmp_path / "x.tar")


def bomb(path: Path, size: int) -> Path:
    """Write an archive of one catalogue of blanks."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("de.po", "w") as file:
            for _ in range(size >> 20):
                file.write(b" " * (1 << 20))
    else:
        with tarfile.open(path, "w:gz", compresslevel=1) as tar:
            info = member("de.po")
            info.size = size
            tar.addfile(info, io.BytesIO(b" " * size))
    return path


@pytest.mark.parametrize("name", ["x.whl", "x.tar.gz"])
def test_more_than_the_limit_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(archives, "MAX_BYTES", 1 << 20)
    assert len(read_members(bomb(tmp_path / name, 1 << 20), WANTED)["de.po"]) == 1 << 20
    with pytest.raises(InputError, match=rf"{name}/de\.po: with it, there is more than 1 MiB to read"):
        read_members(bomb(tmp_path / name, 2 << 20), WANTED)


def test_limit_is_one_of_all_files_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_BYTES", 2 * len(PO))
    path = write_tar(tmp_path / "x.tar", member("a/de.po"), member("b/de.po"))
    assert len(read_members(path, WANTED)) == 2
    write_tar(path, member("a/de.po"), member("b/de.po"), member("c/de.po"))
    with pytest.raises(InputError, match=r"x\.tar/c/de\.po: with it"):
        read_members(path, WANTED)


def test_zip_whose_files_share_bytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("aa.po", PO)
        archive.writestr("de.po", PO)
        archive.infolist()[1].header_offset = 0
    with (
        pytest.raises(InputError, match=r"x\.zip: damaged or cut off \('de\.po' lies within another file\)"),
        open_zip(path),
    ):
        pass


def test_encrypted_zip_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("de.po", PO)
    data = bytearray(path.read_bytes())
    for place in (data.index(b"PK\3\4") + 6, data.index(b"PK\1\2") + 8):
        data[place] |= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"x\.zip: damaged or cut off \(.*encrypted"):
        read_members(path, WANTED)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def listen(path: Path) -> None:
    socket.socket(socket.AF_UNIX).bind(path.name)


@pytest.mark.parametrize(
    ("make", "what"),
    [(pipe, "is a pipe"), (listen, "is a socket"), (Path.mkdir, "is a folder"), (lambda _: None, "not found")],
)
def test_what_is_no_file_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: object, what: str
) -> None:
    assert callable(make)
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    make(tmp_path / "de.po")
    with pytest.raises(InputError, match=rf"de\.po: {what}"):
        read_file(tmp_path / "de.po")
    if what not in ("is a folder", "not found"):
        with pytest.raises(InputError, match=rf"de\.po: {what}"):
            read_members(tmp_path, WANTED)


def test_link_to_nothing_in_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "de.po").symlink_to("nowhere")
    with pytest.raises(InputError, match=r"de\.po: not found"):
        read_members(tmp_path, WANTED)


def test_device_is_no_file() -> None:
    for name in ("null", "zero"):
        with pytest.raises(InputError, match=f"/dev/{name}: is a device"):
            read_file(Path("/dev") / name)


def test_file_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_tar(tmp_path / "x.tar", member("de.po"))
    # Of root, everything may be read.
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match=r"x\.tar: cannot be opened \(you may not read it\)"):
        read_members(path, WANTED)


def test_folder_that_may_not_be_entered_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "closed").mkdir()
    listed = os.scandir

    def scan(path: str) -> object:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scan)
    with pytest.raises(InputError, match=r"closed: cannot be read \(Permission denied\)"):
        read_members(tmp_path, WANTED)


def test_names_with_line_feeds_and_endless_ones_keep_to_a_line(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    for stem, shown in (("a\nb", r"a\\nb"), ("a" * 5000, "a{200}…")):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(f"{stem}.en", "one\ntwo\n")
            archive.writestr(f"{stem}.pl", "jeden\n")
        with pytest.raises(InputError, match=rf"x\.zip/{shown}.*, line 2: has no counterpart in .*{shown}") as caught:
            list(read_moses_zip(path, ("en", "pl"), "fail", Counter()))
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 1000


def test_zip_with_a_wrong_checksum_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("de.po", PO)
    crc = zlib.crc32(PO).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(crc, b"\0\0\0\0"))
    with pytest.raises(InputError, match=r"x\.zip/de\.po: damaged or cut off \(Bad CRC-32"):
        read_members(path, WANTED)
