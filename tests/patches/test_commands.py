"""fairseq's commands end with one line, reach no shell, and unpack archives safely; library code raises."""

import io
import sys
import tarfile
import traceback
from pathlib import Path
from types import CodeType

import pytest
from fairseq import file_utils
from fairseq.data import Dictionary, data_utils
from fairseq.dataclass.configs import FairseqConfig
from fairseq.distributed import utils as distributed_utils
from omegaconf import OmegaConf
from torch.multiprocessing.spawn import ProcessRaisedException

from fairseq_ext import registration  # noqa: F401
from fairseq_ext.inputs.errors import InputError

_ONE_PROCESS = OmegaConf.structured(FairseqConfig)


def _fail_deeply(_cfg: object) -> None:
    try:
        raise InputError("data/domains.txt: not found; write it")
    except InputError:
        raise RuntimeError("Cannot load model parameters")  # noqa: B904, as fairseq does


def _call(main: object) -> None:
    distributed_utils.call_main(_ONE_PROCESS, main)


def test_call_main_ends_with_the_line_of_what_was_wrapped() -> None:
    with pytest.raises(SystemExit) as ended:
        _call(_fail_deeply)
    assert ended.value.code == "data/domains.txt: not found; write it"


def test_the_line_of_another_process_is_found_in_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_cfg: object) -> None:
        text = "".join(traceback.format_exception(InputError("two: wrong; mend it")))
        raise ProcessRaisedException(f"\n\n-- Process 1 terminated:\n{text}\nException: Cannot load", 1, 77)

    with pytest.raises(SystemExit) as ended:
        _call(fail)
    assert ended.value.code == "two: wrong; mend it"


def _error_raised_in(file_name: str) -> BaseException:
    """An input error whose traceback passes ``cli_main`` of this file."""
    source = "def cli_main(error):\n    raise error"
    names: dict = {}
    code: CodeType = compile(source, file_name, "exec")
    exec(code, names)
    try:
        names["cli_main"](InputError("a line"))
    except InputError as error:
        return error
    raise AssertionError


def test_uncaught_errors_of_a_command_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    error = _error_raised_in("/somewhere/fairseq_cli/generate.py")
    sys.excepthook(type(error), error, error.__traceback__)
    assert capsys.readouterr().err == "a line\n"


def test_uncaught_errors_of_other_programs_keep_their_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    error = _error_raised_in("/somewhere/server.py")
    sys.excepthook(type(error), error, error.__traceback__)
    assert "Traceback" in capsys.readouterr().err


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
    fetched = make_archive(tmp_path / "worse", "model/dict.en.txt", "../../../PWN")
    with pytest.raises(InputError, match="not a readable archive"):
        file_utils.load_archive_file("https://example.org/worse.gz")
    assert not (tmp_path / "PWN").exists()
