"""Nothing a checkpoint holds is run, fetched or followed, whichever way it is loaded."""

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.models.transformer import TransformerModel
from fairseq_cli import train

from fairseq_ext.base.errors import InputError
from tests import toy
from tests.patches import hostile


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As every way needs it."""
    made = toy.make_data(tmp_path_factory.mktemp("data"))
    (made / "dict.txt").write_bytes((made / "dict.en.txt").read_bytes())
    return made


@pytest.fixture(scope="module")
def good(data: Path) -> hostile.State:
    return hostile.make_good(data)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load_by_path(path: Path, data: Path) -> None:
    """As ``--path`` of all of fairseq's commands."""
    checkpoint_utils.load_model_ensemble_and_task([str(path)], {"data": str(data)})


def load_by_hub(path: Path, data: Path) -> None:
    TransformerModel.from_pretrained(str(path.parent), path.name, str(data))


def train_from(option: str) -> Callable[[Path, Path], None]:
    def start(path: Path, data: Path) -> None:
        config = toy.composed(toy.train_args(data, "--save-dir", "trained", "--max-update", "1"))
        config.checkpoint[option] = str(path)
        train.main(config)

    return start


WAYS: dict[str, Callable[[Path, Path], None]] = {
    "path": load_by_path,
    "hub": load_by_hub,
    "restore-file": train_from("restore_file"),
    "finetune-from-model": train_from("finetune_from_model"),
}


def refused(way: Callable[[Path, Path], Any], path: Path, data: Path) -> str:
    """The one line."""
    with pytest.raises(InputError, match=path.name) as caught:
        way(path, data)
    line = str(caught.value)
    assert "\n" not in line
    assert len(line) < 700
    assert not Path("PWN").exists()
    return line


@pytest.mark.parametrize("form", hostile.FORMS)
def test_every_hostile_form_is_refused(form: str, good: hostile.State, data: Path, tmp_path: Path) -> None:
    refused(load_by_path, hostile.write(tmp_path / "evil.pt", good, form), data)


@pytest.mark.parametrize("way", list(WAYS)[1:])
@pytest.mark.parametrize("form", ["cutoff as namespace", "unpickled"])
def test_every_way_of_loading_refuses_hostile_checkpoints(
    way: str, form: str, good: hostile.State, data: Path, tmp_path: Path
) -> None:
    refused(WAYS[way], hostile.write(tmp_path / "evil.pt", good, form), data)


@pytest.mark.slow
def test_the_harmless_checkpoint_loads(good: hostile.State, data: Path, tmp_path: Path) -> None:
    for form in (hostile.with_config(), hostile.as_namespace("model"), hostile.as_legacy()):
        torch.save(form({**good, "cfg": dict(good["cfg"])}), tmp_path / "good.pt")
        load_by_path(tmp_path / "good.pt", data)


@pytest.mark.slow
def test_the_user_dir_of_a_checkpoint_is_not_imported(good: hostile.State, data: Path, tmp_path: Path) -> None:
    """fairseq keeps the user directory of a training in its checkpoint; only that of the command line is imported."""
    (tmp_path / "evil_code").mkdir()
    (tmp_path / "evil_code" / "__init__.py").write_text("import os\nos.mkdir('PWN')\n")
    change = hostile.with_config(common={"user_dir": str(tmp_path / "evil_code")}, task={"_target_": "os.mkdir"})
    torch.save(change({**good, "cfg": dict(good["cfg"])}), tmp_path / "evil.pt")
    load_by_path(tmp_path / "evil.pt", data)
    load_by_hub(tmp_path / "evil.pt", data)
    assert not Path("PWN").exists()
    assert "evil_code" not in sys.modules


def test_bare_pickles_are_refused(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "evil.pt"
    path.write_bytes(pickle.dumps({"model": {}, "extra": hostile.Runs()}, protocol=2))
    assert "more than weights" in refused(load_by_path, path, data)
