"""fairseq's commands end with one line, reach no shell, and unpack archives safely; library code raises."""

import io
import sys
import tarfile
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from fairseq import file_utils
from fairseq.data import Dictionary, data_utils
from fairseq.dataclass.configs import FairseqConfig
from fairseq.distributed import utils as distributed_utils
from omegaconf import OmegaConf
from torch.multiprocessing.spawn import ProcessRaisedException

from fairseq_ext.base.errors import InputError

LINE = "data/domains.txt: not found; write it"


def _fail_deeply(_cfg: object) -> None:
    try:
        raise InputError(LINE)
    except InputError:
        raise RuntimeError("Cannot load model parameters")  # noqa: B904, as fairseq does


def _fail_in_another_process(_cfg: object) -> None:
    text = "".join(traceback.format_exception(InputError(LINE)))
    raise ProcessRaisedException(f"\n\n-- Process 1 terminated:\n{text}\nException: Cannot load", 1, 77)


@pytest.mark.parametrize("main", [_fail_deeply, _fail_in_another_process])
def test_call_main_ends_with_the_line_of_what_was_wrapped(main: Callable[[object], None]) -> None:
    with pytest.raises(SystemExit) as ended:
        distributed_utils.call_main(OmegaConf.structured(FairseqConfig), main)
    assert ended.value.code == LINE


@pytest.mark.parametrize("file", ["/somewhere/fairseq_cli/generate.py", "/somewhere/server.py"])
def test_uncaught_errors_are_one_line_in_commands_alone(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict = {}
    exec(compile("def cli_main(error):\n    raise error", file, "exec"), names)
    with pytest.raises(InputError) as caught:
        names["cli_main"](InputError(LINE))
    sys.excepthook(caught.type, caught.value, caught.tb)
    printed = capsys.readouterr().err
    assert (printed == f"{LINE}\n") == ("fairseq_cli" in file)
    assert ("Traceback" in printed) == ("fairseq_cli" not in file)


def test_no_part_of_a_path_reaches_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = Path("data $(mkdir PWN)")
    data.mkdir()
    (data / "train.fasta").write_text(">one\nABC\n")
    with pytest.raises(InputError, match=r"train\.fasta: FASTA files are not supported"):
        data_utils.load_indexed_dataset(str(data / "train"), Dictionary())
    assert not Path("PWN").exists()


def make_archive(path: Path, *names: str) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size = 2
            archive.addfile(entry, io.BytesIO(b"hi"))
    return path


def test_archives_write_into_their_folder_only_and_the_users_own_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r"mine\.gz: is a file; unpack it"):
        file_utils.load_archive_file(str(make_archive(tmp_path / "mine.gz", "model/dict.en.txt")))
    assert (tmp_path / "mine.gz").is_file()
    fetched = make_archive(tmp_path / "fetched", "model/dict.en.txt", "model/x")
    monkeypatch.setattr(file_utils, "cached_path", lambda name, cache_dir: str(fetched))
    assert (Path(str(file_utils.load_archive_file("https://example.org/model.gz"))) / "dict.en.txt").read_text() == "hi"
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # where it is unpacked first, in a folder
    fetched = make_archive(tmp_path / "worse", "model/dict.en.txt", "model/../../PWN")
    with pytest.raises(InputError, match="not a readable archive"):
        file_utils.load_archive_file("https://example.org/worse.gz")
    assert not (tmp_path / "PWN").exists()
