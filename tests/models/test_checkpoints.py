from argparse import Namespace
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils

from fairseq_ext.base.errors import InputError
from tests import toy


@pytest.mark.parametrize("share", [0.0, 0.9])
def test_truncated_at_any_place_is_one_line(data: Path, tmp_path: Path, share: float) -> None:
    toy.make_task(data)  # registers what reads them
    torch.save({"model": {"w": torch.ones(3)}, "args": Namespace(arch="transformer"), "cfg": None}, tmp_path / "cut.pt")
    whole = (tmp_path / "cut.pt").read_bytes()
    (tmp_path / "cut.pt").write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(InputError, match=r"cut\.pt: not a readable checkpoint") as caught:
        checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "cut.pt"))
    assert "\n" not in str(caught.value)


def test_a_copy_appears_when_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training killed within fairseq's copy to checkpoint_last.pt must still find the old one there."""
    new, last = tmp_path / "checkpoint_best.pt", tmp_path / "checkpoint_last.pt"
    new.write_text("new")
    last.write_text("old")

    def killed(source: str, target: str) -> None:
        Path(target).write_text("ne")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("fairseq.file_io.shutil.copyfile", killed)
        with pytest.raises(KeyboardInterrupt):
            checkpoint_utils.PathManager.copy(str(new), str(last), overwrite=True)
    assert last.read_text() == "old"
    assert checkpoint_utils.PathManager.copy(str(new), str(last), overwrite=True)
    assert last.read_text() == "new"
    assert len(list(tmp_path.iterdir())) == 2
