"""A whole experiment on a tiny corpus, through the commands a user calls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from fairseq_ext.experiments import prepare as prepare_data
from fairseq_ext.experiments.translation import examples, scores
from fairseq_ext.experiments.translation import teacher as teacher
from fairseq_ext.experiments.translation import train as training
from fairseq_ext.experiments.translation import translate as translation
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
    prepare_data.main([str(config)])
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
    assert "<title>gad, AVG: " in (work / "scores/gains.svg").read_text()
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


def weights(path: Path) -> dict[str, torch.Tensor]:
    from fairseq import checkpoint_utils

    return checkpoint_utils.load_checkpoint_to_cpu(str(path))["model"]
