from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from fairseq import file_utils
from fairseq.models.transformer import TransformerModel

import fairseq_ext  # noqa: F401  registers, fairseq being loaded
from fairseq_ext.inputs.errors import InputError


def make_archive(path: Path, *names: str) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size = 2
            archive.addfile(entry, io.BytesIO(b"hi"))
    return path


def test_the_users_archive_stays_what_it_is(tmp_path: Path) -> None:
    archive = make_archive(tmp_path / "model.tar.gz", "model/dict.en.txt")
    content = archive.read_bytes()
    with pytest.raises(InputError, match=r"model\.tar\.gz: is a file; unpack it"):
        TransformerModel.from_pretrained(str(archive))
    assert archive.read_bytes() == content


def test_a_fetched_archive_writes_into_its_folder_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = make_archive(tmp_path / "fetched", "model/dict.en.txt", "model/x")
    monkeypatch.setattr(file_utils, "cached_path", lambda name, cache_dir: str(fetched))
    assert (Path(str(file_utils.load_archive_file("https://example.org/model.gz"))) / "dict.en.txt").read_text() == "hi"
    fetched = make_archive(tmp_path / "worse", "model/dict.en.txt", "../../../PWN")
    with pytest.raises(InputError, match="is no archive of a model"):
        file_utils.load_archive_file("https://example.org/worse.gz")
    assert not (tmp_path / "PWN").exists()
