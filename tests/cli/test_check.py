from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from fairseq_ext.inputs.errors import InputError
from tests.patches import hostile
from tests.verbs import verb


def test_good_ones_are_said_to_be_and_the_first_other_one_ends_it(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = hostile.make_good(data)
    torch.save(good, tmp_path / "good.pt")
    hostile.write(tmp_path / "evil.pt", good, "fconv as legacy")
    with pytest.raises(InputError, match=r"evil\.pt: its model 'fconv' is refused"):
        verb("check")([str(tmp_path / name) for name in ("good.pt", "evil.pt", "none.pt")])
    assert capsys.readouterr().out == f"{tmp_path / 'good.pt'}: holds weights and plain options, nothing else\n"


def test_a_changed_byte_is_found_and_a_pipe_is_refused(data: Path, tmp_path: Path) -> None:
    torch.save(hostile.make_good(data), tmp_path / "good.pt")
    content = bytearray((tmp_path / "good.pt").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "flipped.pt").write_bytes(content)
    with pytest.raises(InputError, match=r"flipped\.pt: .*damaged"):
        verb("check")([str(tmp_path / "flipped.pt")])
    os.mkfifo(tmp_path / "pipe.pt")
    with pytest.raises(InputError, match=r"pipe\.pt: not a regular file"):
        verb("check")([str(tmp_path / "pipe.pt")])
