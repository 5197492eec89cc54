"""Whatever bytes a corpus of any form holds: pairs come of it, or one line that names it, soon, and nothing else."""

import gzip
import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import polib
import pytest
from backports import zstd

from fairseq_ext.base.errors import InputError, line_of
from fairseq_ext.text.blocks import load_index, read_block
from fairseq_ext.text.entries import check_entries
from fairseq_ext.text.import_corpora import import_domain
from fairseq_ext.text.raw_text import canonical
from tests.odd_files import time_limit
from tests.text.test_entries import JSONL, PO, TMX, XLIFF, tarred, zipped

LANGS = ("en", "pl")
TSV = "one\tjeden\ntwo 2 & <b>\tdwa\u2028\u0105\n\tx\n"
LINES = "one\ntwo\u0301\n\nfour\n"
EXAMPLES = int(os.environ.get("ODD_FILES", "200")) // 8
# What formats give a meaning to.
FRAGMENTS = [
    *(b"\0", b"\xff", b"\n", b"\r", b"\t", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xe2\x80\xa8"),
    *(b'"', b"\\", b"msgid", b"msgstr", b"#~ ", b"#, fuzzy\n", b"charset=", b"punycode", b"&", b"&#", b"<", b"{", b"%"),
    *(b"<tu>", b"</tu>", b"<seg>", b"</seg>", b"<!DOCTYPE x [<!ENTITY y 'z'>]>", b"<![CDATA[", b"&y;", b"encoding="),
    *(b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"PK\3\4", b"PK\1\2", b"PK\5\6", b"\x1f\x8b", b"9" * 12, b"/../"),
]


# By form, the text within and how it is packed.
FORMS: dict[str, tuple[str | bytes, Callable[[bytes], bytes]]] = {
    "x.tsv": (TSV, bytes),
    "x.tmx": (TMX, bytes),
    "x.xlf": (XLIFF, bytes),
    "x.jsonl": (JSONL, bytes),
    "x.po": (PO, bytes),
    "x.mo": (polib.pofile(PO).to_binary(), bytes),
    "x.tmx.zst": (TMX, zstd.compress),
    "x.{lang}": (LINES, bytes),
    "x.{lang}.gz": (LINES, gzip.compress),
    "x.zip": (LINES, lambda data: zipped({"a.en": data, "a.pl": LINES.encode()})),
    "x.whl": (PO, lambda data: zipped({"pl.po": data})),
    "x.tar.gz": (PO, lambda data: gzip.compress(tarred(data), 1)),
}


def mutate(data: bytes, generator: random.Random) -> bytes:
    """Replace some places by nothing, a byte, what formats give a meaning to, or other parts; cut the end off."""
    for _ in range(generator.choice((0, 1, 1, 2, 3, 8))):
        start, end = sorted(generator.randrange(len(data) + 1) for _ in range(2))
        fragment = generator.choice(FRAGMENTS) * generator.choice((1, 1, 2, 300))
        middle = generator.choice((b"", bytes([generator.randrange(256)]), fragment, data[start:end] * 2))
        rest = generator.choice((data[start:], data[start + 1 :], data[end:], b""))
        data = data[:start] + middle + rest
    return data


@pytest.mark.parametrize("name", FORMS)
def test_spoilt_corpora_give_pairs_or_one_line(tmp_path: Path, name: str) -> None:
    text, pack = FORMS[name]
    data = text.encode() if isinstance(text, str) else text
    for folder in ("in", "out"):
        (tmp_path / folder).mkdir()
    for seed in range(EXAMPLES):
        generator = random.Random(f"{name} {seed}")
        spoilt = pack(mutate(data, generator)) if seed % 2 else mutate(pack(data), generator)
        check(tmp_path / "in", name, spoilt)


def check(folder: Path, name: str, data: bytes) -> None:
    """Import a corpus of these bytes."""
    for lang in LANGS:
        (folder / name.replace("{lang}", lang)).write_bytes(data)
    before = sorted(folder.iterdir())
    out, entry, error = folder.parent / "out", str(folder / name), None
    try:
        with time_limit():
            check_entries({"law": [entry]}, LANGS)
            import_domain(out, "law", [entry], LANGS, on_bad_utf8="fail", downloads=folder / "downloads")
    except InputError as caught:
        error = caught
    assert sorted(folder.iterdir()) == before
    if error is not None:
        assert line_of(error).isprintable()
        assert str(folder) in str(error)
        return
    blocks = range(len(load_index(out, "law")["offsets"]))
    pairs = [pair for block in blocks for pair in read_block(out, "law", LANGS, block)]
    assert any(source and target for source, target in pairs)
    assert all(canonical(text, Counter()) == text for pair in pairs for text in pair)
