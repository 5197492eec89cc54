import os
from pathlib import Path

import pytest
import torch

from fairseq_ext.base.errors import InputError
from tests.patches import hostile
from tests.verbs import verb


def test_checks_end_at_the_first_that_fails(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = hostile.make_good(data)
    torch.save(good, tmp_path / "good.pt")
    hostile.write(tmp_path / "evil.pt", good, "fconv as legacy")
    content = bytearray((tmp_path / "good.pt").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "flipped.pt").write_bytes(content)
    os.mkfifo(tmp_path / "pipe.pt")
    for name, message in (
        ("evil", "its option encoder_layers"),
        ("flipped", "damaged"),
        ("pipe", "not a regular file"),
    ):
        with pytest.raises(InputError, match=rf"{name}\.pt: .*{message}"):
            verb("check")([str(tmp_path / each) for each in ("good.pt", f"{name}.pt", "none.pt")])
        assert f"{tmp_path / 'good.pt'}: contains only weights" in capsys.readouterr().out
