from pathlib import Path
from types import SimpleNamespace

import pytest

from fairseq_ext.base import fairseq_cli
from fairseq_ext.base.errors import InputError
from fairseq_ext.base.fairseq_cli import run_fairseq, training_progress


@pytest.mark.usefixtures("true_processes")
def test_modules_in_the_current_folder_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fairseq_ext/__init__.py", "ctypes.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("import os\nos.mkdir('PWN')\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="fairseq-no_such_tool ended with status 1"):
        run_fairseq("no_such_tool", [], messages=tmp_path / "log")
    assert "No module named 'fairseq_cli.no_such_tool'" in (tmp_path / "log").read_text(encoding="utf-8")
    assert not (tmp_path / "PWN").exists()


def test_a_killed_command_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fairseq_cli, "run_child", lambda *_, **__: SimpleNamespace(returncode=-9))
    with pytest.raises(InputError, match=r"fairseq-train was killed \(signal 9.*run the same command again"):
        run_fairseq("train", [], messages=tmp_path / "log")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--max-epoch", "3", "--max-epoch=4"], (0.375, "epoch 2 of 4, loss 8.68")),
        (["--max-epoch", "4", "--max-update", "250"], (0.8, "update 200 of 250, loss 8.68")),
        (["--max-epoch", "1"], (1.0, "epoch 2 of 1, loss 8.68")),
        (["--max-update", "0"], None),
    ],
)
def test_progress_of_training_is_read_from_its_log(
    tmp_path: Path, arguments: list[str], expected: tuple[float, str] | None
) -> None:
    path = tmp_path / "train.log"
    line = "| train_inner | epoch 00{0}:     50 / 100 loss=8.675, ppl=271, num_updates={0}00, lr=1"
    path.write_text("\n".join(["ż" * 20_000, line.format(1), line.format(2), "2026 | INFO | begin validation"]))
    assert training_progress(path, arguments) == expected
    assert training_progress(tmp_path / "none", arguments) is None
