from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_ext.engine.fairseq_cli import run_fairseq


@pytest.mark.slow
def test_folders_that_lie_about_are_no_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """fairseq tries to import ``examples.simultaneous_translation``, and any module may be a file's name."""
    for name in ("examples/__init__.py", "examples/simultaneous_translation/__init__.py", "sacrebleu.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("import os\nos.mkdir('PWN')\n")
    monkeypatch.chdir(tmp_path)
    run_fairseq("train", ["--help"], output=tmp_path / "help.txt")
    assert "--user-dir" in (tmp_path / "help.txt").read_text(encoding="utf-8")
    assert not (tmp_path / "PWN").exists()
