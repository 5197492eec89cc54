"""Whatever bytes a corpus of any form holds: pairs come of it, or one line that names it, soon, and nothing else."""

import gzip
import io
import os
import random
import signal
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import polib
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairseq_ext.corpora.blocks import load_index, num_blocks, read_block
from fairseq_ext.corpora.entries import check_entries
from fairseq_ext.corpora.files import open_binary
from fairseq_ext.corpora.import_corpora import import_domain
from fairseq_ext.corpora.raw_text import canonical
from fairseq_ext.inputs.errors import InputError
from tests.corpora.test_entries import JSONL, PO, TMX, XLIFF

LANGS = ("en", "pl")
TSV = "one\tjeden\ntwo 2 & <b>\tdwa\u2028\u0105\n\tx\n"
LINES = "one\ntwo\u0301\n\nfour\n"
SECONDS = 20
# What formats give a meaning to.
FRAGMENTS = [
    *(b"\0", b"\xff", b"\n", b"\r", b"\t", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xc0\x80", b"\xe2\x80\xa8", b"\xc2\x85"),
    *(b'"', b"\\", b"msgid", b"msgstr", b"#~ ", b"#, fuzzy\n", b"charset=", b"utf-7", b"punycode", b"&", b"&#", b"<"),
    *(b"<tu>", b"</tu>", b"<seg>", b"</seg>", b"<!DOCTYPE x [<!ENTITY y 'z'>]>", b"<![CDATA[", b"&y;", b"encoding="),
    *(b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"PK\3\4", b"PK\1\2", b"PK\5\6", b"\x1f\x8b"),
    *(b"0" * 12, b"9" * 12, b"/../", b"pl", b"en", b"{", b"}", b"%", b"(&", b"_", b"://"),
]


def compiled(text: str) -> bytes:
    return polib.pofile(text).to_binary()


def zipped(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def tarred(members: dict[str, bytes], mode: str) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as tar:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("locale/pl.po")
        link.type, link.linkname = tarfile.SYMTYPE, "../pl.po"
        tar.addfile(link)
    return file.getvalue()


def packed(suffix: str, data: bytes, folder: Path) -> bytes:
    with open_binary(folder / f"packed{suffix}", "wb") as file:
        file.write(data)
    data = (folder / f"packed{suffix}").read_bytes()
    (folder / f"packed{suffix}").unlink()
    return data


# By form, the text within and how it is packed.
Pack = Callable[[bytes, Path], bytes]
EXAMPLES = int(os.environ.get("ODD_FILES", "200"))
FORMS: dict[str, tuple[bytes, Pack]] = {
    "x.tsv": (TSV.encode(), lambda data, _: data),
    "x.tmx": (TMX.encode(), lambda data, _: data),
    "x.xlf": (XLIFF.encode(), lambda data, _: data),
    "x.jsonl": (JSONL.encode(), lambda data, _: data),
    "x.po": (PO.encode(), lambda data, _: data),
    "x.mo": (compiled(PO), lambda data, _: data),
    "x.tsv.gz": (TSV.encode(), lambda data, folder: packed(".gz", data, folder)),
    "x.tsv.xz": (TSV.encode(), lambda data, folder: packed(".xz", data, folder)),
    "x.tmx.zst": (TMX.encode(), lambda data, folder: packed(".zst", data, folder)),
    "x.{lang}.gz": (LINES.encode(), lambda data, folder: packed(".gz", data, folder)),
    "x.{lang}": (LINES.encode(), lambda data, _: data),
    "x.zip": (LINES.encode(), lambda data, _: zipped({"a.en": data, "a.pl": LINES.encode()})),
    "bz2.zip": (LINES.encode(), lambda data, _: zipped({"a.en": data, "a.pl": data}, zipfile.ZIP_BZIP2)),
    "x.whl": (PO.encode(), lambda data, _: zipped({"pl.po": data, "b/pl/LC_MESSAGES/x.mo": compiled(PO)})),
    "x.tar": (PO.encode(), lambda data, _: tarred({"pl.po": data}, "w")),
    "x.tar.gz": (PO.encode(), lambda data, _: gzip.compress(tarred({"a/pl.po": data, "pl.po": data}, "w"), 1)),
    "x.tar.bz2": (PO.encode(), lambda data, _: tarred({"pl.po": data}, "w:bz2")),
    "x": (PO.encode(), lambda data, _: tarred({"pl.po": data}, "w:xz")),
}


def mutate(data: bytes, generator: random.Random) -> bytes:
    """Change a few bytes, or move, repeat, insert or cut off more."""
    changed = bytearray(data)
    for _ in range(generator.choice((0, 1, 1, 2, 3, 8))):
        start, end = sorted(generator.randrange(len(changed) + 1) for _ in range(2))
        match generator.randrange(6):
            case 0:
                changed[start : start + 1] = bytes([generator.randrange(256)])
            case 1:
                changed[start:start] = generator.choice(FRAGMENTS) * generator.choice((1, 1, 2, 300))
            case 2:
                fragment = generator.choice(FRAGMENTS)
                changed[start : start + len(fragment)] = fragment
            case 3:
                del changed[start : generator.choice((end, start + 1, start + 4))]
            case 4:
                changed[end:end] = changed[start:end]
            case 5:
                del changed[start:]
    return bytes(changed)


@contextmanager
def soon() -> Iterator[None]:
    """Fail what takes longer than it may."""

    def fail(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def check(folder: Path, name: str, data: bytes) -> bool:
    """Import a corpus of these bytes, and return whether it had pairs."""
    for lang in LANGS:
        (folder / name.replace("{lang}", lang)).write_bytes(data)
    before = sorted(path.name for path in folder.iterdir())
    out = folder.parent / "out"
    out.mkdir(exist_ok=True)
    entry = str(folder / name)
    error = None
    with soon():
        try:
            check_entries({"law": [entry]}, LANGS)
            import_domain(out, "law", [entry], LANGS, on_bad_utf8="fail", downloads=folder / "downloads")
        except InputError as caught:
            error = str(caught)
    assert sorted(path.name for path in folder.iterdir()) == before
    if error is not None:
        assert error.isprintable(), ascii(error)
        assert str(folder) in error
        assert len(error) < 2000
        return False
    index = load_index(out, "law")
    pairs = [pair for block in range(num_blocks(index)) for pair in read_block(out, "law", LANGS, block)]
    assert any(source and target for source, target in pairs)
    assert all(canonical(text, Counter()) == text for pair in pairs for text in pair)
    return True


def fuzz(folder: Path, name: str, seed: int) -> bool:
    generator = random.Random(seed)
    text, pack = FORMS[name]
    if generator.random() < 0.5:
        return check(folder, name, pack(mutate(text, generator), folder))
    return check(folder, name, mutate(pack(text, folder), generator))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


SETTINGS = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture]}


@pytest.mark.parametrize("name", FORMS)
@settings(max_examples=EXAMPLES // 8, **SETTINGS)
@given(seed=st.integers(0, 1 << 32))
def test_spoilt_corpora_give_pairs_or_one_line(folder: Path, name: str, seed: int) -> None:
    fuzz(folder, name, seed)
