"""A whole experiment on a tiny corpus, through the commands a user calls."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml

from fairseq_ext.evaluation import scores
from fairseq_ext.pipeline import examples, training, translation
from fairseq_ext.preparation import prepare
from fairseq_ext.teacher import train as teacher
from tests.small_corpus import write_config, write_corpora

pytestmark = pytest.mark.slow

TRAIN = {
    "common": {"optimizer": "adam", "lr": 0.01, "max-tokens": 400, "max-epoch": 6, "cpu": True, "num-workers": 0},
    "systems": {
        "mix": {"arch": "transformer_tiny", "criterion": "label_smoothed_cross_entropy", "share-all-embeddings": True},
        "gad": {
            "from": "mix", "uses_teacher": True, "arch": "transformer_gated_adapter_tiny",
            "criterion": "label_smoothed_cross_entropy_with_kd_gate", "share-all-embeddings": True,
        },
    },
}  # fmt: skip
TRANSLATE = {
    "common": {"beam": 2, "max-tokens": 400, "cpu": True, "max-len-b": 12},
    "outputs": {"mix": {"system": "mix"}, "gad": {"system": "gad", "domain-source": "none", "gates": True}},
    "examples": {"gad": ["show the red tree", "open the old account"]},
}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment that has been run to its end."""
    root = tmp_path_factory.mktemp("experiment")
    path = write_config(root / "tiny.yaml", write_corpora(root / "corpora"), train=TRAIN, translate=TRANSLATE)
    run_all(path)
    return path


def run_all(config: Path) -> None:
    prepare.main([str(config)])
    teacher.main([str(config)])
    training.main([str(config), "gad"])
    translation.main([str(config)])
    scores.main([str(config)])
    examples.main([str(config)])


def test_it_ends_with_scores_gates_and_examples(config: Path) -> None:
    work = config.parent / "work"
    record = json.loads((work / "scores/scores.json").read_text())
    assert set(record["outputs"]) == {"mix", "gad"}
    assert {"bank", "garden", "AVG", "wAVG"} <= set(record["outputs"]["gad"]["chrF"])
    assert (work / "scores/chrf.png").stat().st_size > 1000
    assert len((work / "translations/gad/gates.jsonl").read_text().splitlines()) == 20
    assert "show the red tree" in (work / "examples/examples.txt").read_text()


def test_a_second_run_does_nothing(config: Path, capfd: pytest.CaptureFixture) -> None:
    work = config.parent / "work"
    before = {path: path.stat().st_mtime_ns for path in work.rglob("*") if path.is_file() and path.suffix != ".lock"}
    run_all(config)
    after = {path: path.stat().st_mtime_ns for path in work.rglob("*") if path.is_file() and path.suffix != ".lock"}
    assert after == before
    messages = [line for line in capfd.readouterr().err.splitlines() if ": " in line and "version" not in line]
    assert messages
    assert all(line.endswith("up to date") for line in messages), messages


def test_a_training_killed_in_the_middle_ends_with_the_same_weights(config: Path, tmp_path: Path) -> None:
    settings = yaml.safe_load(config.read_text())
    work = Path(shutil.copytree(config.parent / "work", tmp_path / "work"))
    shutil.rmtree(work / "systems")
    own = tmp_path / "tiny.yaml"
    own.write_text(yaml.safe_dump(settings | {"work_dir": str(work)}), encoding="utf-8")
    command = [sys.executable, "-m", "fairseq_ext.pipeline.training", str(own), "mix"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    process = subprocess.Popen(command, env=environment, start_new_session=True, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (work / "systems/mix.partial/checkpoint_last.pt").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (work / "systems/mix").exists()
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=300)
    whole, resumed = (weights(root / "systems/mix/checkpoint_last.pt") for root in (config.parent / "work", work))
    assert whole.keys() == resumed.keys()
    assert all(torch.equal(resumed[name], value) for name, value in whole.items())


def weights(path: Path) -> dict[str, torch.Tensor]:
    from fairseq import checkpoint_utils

    return checkpoint_utils.load_checkpoint_to_cpu(str(path))["model"]
