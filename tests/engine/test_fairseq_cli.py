from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ext.engine.fairseq_cli import options_in, run_fairseq, training_progress
from fairseq_ext.inputs.errors import InputError


def test_options_and_their_values() -> None:
    arguments = ["data", "--cpu", "--lr", "0.1", "0.2", "--finetune_from_model=a.pt", "--eval-bleu"]
    assert list(options_in(arguments)) == [
        ("cpu", ""), ("lr", "0.1"), ("lr", "0.2"), ("finetune-from-model", "a.pt"), ("eval-bleu", ""),
    ]  # fmt: skip


@pytest.mark.usefixtures("true_processes")
def test_folders_that_lie_about_are_no_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fairseq_ext/__init__.py", "ctypes.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("import os\nos.mkdir('PWN')\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="fairseq-no_such_tool ended with status 1"):
        run_fairseq("no_such_tool", [], messages=tmp_path / "log")
    assert "No module named 'fairseq_cli.no_such_tool'" in (tmp_path / "log").read_text(encoding="utf-8")
    assert not (tmp_path / "PWN").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--max-epoch", "3", "--max-epoch=4"], (0.375, "epoch 2 of 4, loss 8.68")),
        (["--max-epoch", "4", "--max-update", "250"], (0.8, "update 200 of 250, loss 8.68")),
        (["--max-epoch", "1"], (1.0, "epoch 2 of 1, loss 8.68")),
        (["--max-update", "0"], None),
    ],
)
def test_how_far_a_training_is(tmp_path: Path, arguments: list[str], expected: tuple[float, str] | None) -> None:
    path = tmp_path / "train.log"
    lines = [
        f"| train_inner | epoch {epoch:03d}:     50 / 100 loss=8.675, ppl=271, num_updates={epoch}00, lr=1"
        for epoch in (1, 2)
    ]
    path.write_text("\n".join(["ż" * 20_000, *lines, "2026 | INFO | fairseq_cli.train | begin validation"]))
    assert training_progress(path, arguments) == expected
    assert training_progress(tmp_path / "none", arguments) is None
