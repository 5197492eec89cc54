"""Word language models from text to their report by one command, and what holds of the figures."""

from __future__ import annotations

import json
import math
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import toy
from tests.experiments.word_lm.made_up import write_file

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
WORDS = [f"w{number}" for number in range(20)]
COMMON = {
    "arch": "dagru_lm_tiny", "optimizer": "sgd", "lr": 1, "lr-scheduler": "fixed", "force-anneal": 3, "lr-shrink": 0.5,
    "sentence-avg": True, "clip-norm": 5, "criterion": "cross_entropy", "batch-size": 4, "tokens-per-sample": 7,
    "max-epoch": 3, "cpu": True, "num-workers": 0,
}  # fmt: skip
SYSTEMS = {"standard": {"combination": "none", "embed-dim": 8}, "fixed": {"combination": "fixed"}, "dagru": {}}


def write_experiment(folder: Path) -> Path:
    """Text of which every word says much of the next, and vectors for most of the words."""
    rng = random.Random(3)
    for split, count in {"train": 300, "valid": 30, "test": 31}.items():
        lines = []
        for _ in range(count):
            start, length = rng.randrange(20), rng.randint(2, 9)
            lines.append(" ".join(WORDS[(start + place) % 20] for place in range(length)))
        (folder / f"{split}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    vectors = [f"{word} " + " ".join(f"{rng.gauss(0, 1):.4f}" for _ in range(6)) for word in WORDS[:15]]
    (folder / "vectors.txt").write_text("\n".join(vectors) + "\n", encoding="utf-8")
    return write_file(
        folder,
        word_vectors={"file": str(folder / "vectors.txt")},
        kneser_ney={"order": 3},
        train={"common": COMMON, "systems": SYSTEMS},
        evaluate={"cpu": True},
    )


def run(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_experiment(tmp_path_factory.mktemp("words"))
    result = run("fairseq_ext.experiments.run", str(path))
    assert result.returncode == 0, result.stderr[-2000:]
    return path


def record(experiment: Path, name: str) -> dict[str, Any]:
    path = experiment.parent / "work/perplexity" / name / "perplexity.json"
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return result


def perplexity(experiment: Path, name: str, split: str) -> float:
    entry = record(experiment, name)["sets"][split]
    return math.exp(entry["nats"] / entry["tokens"])


def test_everything_is_made_and_made_once(experiment: Path) -> None:
    result = run("fairseq_ext.experiments.run", str(experiment), "--dry-run")
    assert {line.split("/")[0].strip() for line in result.stdout.splitlines()} == {"up to date"}
    page = (experiment.parent / "work/report/report.html").read_text(encoding="utf-8")
    assert "Table 2. Perplexity" in page
    assert "standard, epoch 3: " in page
    assert "<td>15</td><td>5</td>" in page  # words with vectors, and without


def test_all_models_are_measured_on_the_same_tokens(experiment: Path) -> None:
    lines = (experiment.parent / "test.txt").read_text(encoding="utf-8").splitlines()
    tokens = sum(len(line.split()) + 1 for line in lines)
    for name in ("kneser-ney", *SYSTEMS):
        assert record(experiment, name)["sets"]["test"]["tokens"] == tokens
        # Of twenty words, and the end: all have learned something.
        assert 1 < perplexity(experiment, name, "test") < 15


def test_perplexity_is_fairseqs(experiment: Path) -> None:
    """In one row, as fairseq-eval-lm reads without a batch size."""
    work = experiment.parent / "work"
    result = run(
        "fairseq_cli.eval_lm", str(work / "data-bin"), "--user-dir", toy.USER_DIR, "--cpu", "--path",
        str(work / "systems/dagru/checkpoint_best.pt"), "--task", "contiguous_language_modeling",
        "--tokens-per-sample", "7", "--gen-subset", "test",
    )  # fmt: skip
    found = re.search(r"Perplexity: ([\d.]+)", result.stdout + result.stderr)
    assert found is not None, result.stderr[-2000:]
    assert perplexity(experiment, "dagru", "test") == pytest.approx(float(found[1]), abs=0.01)
