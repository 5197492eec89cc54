"""fairseq's own command lines with the user directory, as a user types them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils

from tests import toy
from tests.fork_server import PYTHON

pytestmark = pytest.mark.slow

TINY = ["--optimizer", "adam", "--lr", "0.01", "--max-tokens", "200", "--max-epoch", "2", "--cpu",
        "--no-epoch-checkpoints", "--log-format", "simple", "--num-workers", "0"]  # fmt: skip
GATED = ["--arch", "transformer_gated_adapter_tiny", "--criterion", "label_smoothed_cross_entropy_with_kd_gate",
         "--label-smoothing", "0.1"]  # fmt: skip
PLAIN = ["--arch", "transformer_domain_adapter_tiny", "--criterion", "label_smoothed_cross_entropy"]


def run(tool: str, *arguments: str, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", f"fairseq_cli.{tool}", *arguments, "--user-dir", toy.USER_DIR]
    return subprocess.run(
        command, cwd=cwd, input=stdin, capture_output=True, text=True, timeout=300, check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
    )  # fmt: skip


def run_well(tool: str, *arguments: str, cwd: Path, **kwargs: str) -> str:
    done = run(tool, *arguments, cwd=cwd, **kwargs)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def trained(data: Path, teacher: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MIX, and AD and GAD started from it."""
    root = tmp_path_factory.mktemp("trained")
    task = [str(data), "--task", "multi_domain_translation", *TINY]
    bleu = ["--eval-bleu", "--eval-bleu-args", '{"beam": 1, "max_len_b": 5}']  # leaves arrays in the checkpoint
    mix = ["--arch", "transformer_tiny", "--share-all-embeddings", "--save-dir", "mix"]
    run_well("train", *task, *mix, *bleu, cwd=root)
    start = ["--finetune-from-model", "mix/checkpoint_best.pt", "--share-all-embeddings"]
    run_well("train", *task, *PLAIN, *start, "--save-dir", "ad", cwd=root)
    run_well("train", *task, *GATED, *start, "--teacher-dir", str(teacher), "--save-dir", "gad", cwd=root)
    return root


def weights(path: Path) -> dict[str, torch.Tensor]:
    return checkpoint_utils.load_checkpoint_to_cpu(str(path))["model"]


@pytest.mark.parametrize("system", ["ad", "gad"])
def test_training_left_the_base_as_it_was(trained: Path, system: str) -> None:
    base, adapted = weights(trained / "mix/checkpoint_best.pt"), weights(trained / f"{system}/checkpoint_last.pt")
    assert all(torch.equal(adapted[name], value) for name, value in base.items())
    assert all(".adapter." in name for name in adapted.keys() - base.keys() - {"decoder.adapter_names"})


def test_adapters_of_other_domains_are_no_start(data: Path, trained: Path, tmp_path: Path) -> None:
    """With `sub` renamed, every shape and the dictionaries fit, and yet the rows mean other domains."""
    other = Path(shutil.copytree(data, tmp_path / "other-bin"))
    (other / "sub").rename(other / "all")
    (other / "domains.txt").write_text("all\nlaw\nmed\n", encoding="utf-8")
    done = run(
        "train", str(other), "--task", "multi_domain_translation", *TINY, *PLAIN, "--share-all-embeddings",
        "--finetune-from-model", str(trained / "ad/checkpoint_best.pt"), cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("the checkpoint has adapters that the data's domains.txt lacks: sub")


def test_interactive_needs_no_domain_for_gates_and_refuses_unknown_ones(data: Path, trained: Path) -> None:
    words = [
        "interactive", str(data), "--task", "multi_domain_translation", "--cpu", "--print-gates",
        "--path", "gad/checkpoint_best.pt", "--buffer-size", "2", "--max-len-b", "10",
    ]  # fmt: skip
    printed = run_well(*words, cwd=trained, stdin="w1 w2\nw3\nw4 w5 w6\n")
    for kind in "SHDPG":
        assert sorted(re.findall(rf"^{kind}-(\d+)\t", printed, re.MULTILINE)) == ["0", "1", "2"], kind
    weights = re.search(r"^G-0\tlaw=(\S+) med=(\S+) sub=(\S+)$", printed, re.MULTILINE)
    assert weights is not None
    assert sum(map(float, weights.groups())) == pytest.approx(1, abs=2e-3)
    unknown = run(*words, cwd=trained, stdin="<domain:foo> w1 w2\n")
    assert unknown.returncode == 1
    assert (
        unknown.stderr.splitlines()[-1] == "'<domain:foo> w1 w2': 'foo' is unknown; choose one of law, med, sub, base"
    )
    assert "Traceback" not in unknown.stderr


def test_stopped_training_goes_on_to_the_same_weights(data: Path, teacher: Path, trained: Path, tmp_path: Path) -> None:
    common = [str(data), "--task", "multi_domain_translation", *TINY, *GATED, "--teacher-dir", str(teacher),
              "--finetune-from-model", str(trained / "mix/checkpoint_best.pt"), "--share-all-embeddings"]  # fmt: skip
    run_well("train", *common, "--max-epoch", "1", "--save-dir", "resumed", cwd=tmp_path)
    run_well("train", *common, "--save-dir", "resumed", cwd=tmp_path)
    whole, resumed = (weights(folder / "checkpoint_last.pt") for folder in (trained / "gad", tmp_path / "resumed"))
    assert all(torch.equal(resumed[name], value) for name, value in whole.items())


def test_a_training_that_had_its_last_update_has_no_more(data: Path, tmp_path: Path) -> None:
    """As one that was killed between its last checkpoint and its end."""
    words = ["train", str(data), "--task", "multi_domain_translation", "--arch", "transformer_tiny", *TINY,
             "--max-update", "2", "--save-dir", "ended"]  # fmt: skip
    run_well(*words, cwd=tmp_path)
    whole = weights(tmp_path / "ended/checkpoint_last.pt")
    assert "--max-update 2: the checkpoint already has all updates" in run_well(*words, cwd=tmp_path)
    again = weights(tmp_path / "ended/checkpoint_last.pt")
    assert all(torch.equal(again[name], value) for name, value in whole.items())


HYDRA = """
common: {{user_dir: {user_dir}, cpu: true, log_format: simple}}
task: {{_name: multi_domain_translation, data: {data}, teacher_dir: {teacher}, upsampling: none}}
model: {{_name: transformer_gated_adapter_tiny, gate_temperature: 0.5, share_all_embeddings: true, random_base: true}}
criterion: {{_name: label_smoothed_cross_entropy_with_kd_gate, gate_target: log-probs}}
optimizer: {{_name: adam, adam_betas: "(0.9,0.98)"}}
lr_scheduler: {{_name: fixed}}
dataset: {{max_tokens: 200, num_workers: 0}}
optimization: {{max_epoch: 1, lr: [0.01]}}
checkpoint: {{save_dir: {root}/hydra, no_epoch_checkpoints: true}}
"""


def test_hydra_trains_from_yaml(data: Path, teacher: Path, tmp_path: Path) -> None:
    (tmp_path / "gad.yaml").write_text(HYDRA.format(user_dir=toy.USER_DIR, data=data, teacher=teacher, root=tmp_path))
    command = [PYTHON, "-m", "fairseq_cli.hydra_train", "--config-dir", str(tmp_path), "--config-name", "gad"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=300)
    state = checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "hydra/checkpoint_best.pt"))
    assert state["cfg"]["model"]["gate_temperature"] == 0.5
    printed = run_well(
        "generate", str(data), "--task", "multi_domain_translation", "--cpu", "--max-len-b", "5",
        "--path", str(tmp_path / "hydra/checkpoint_best.pt"), cwd=tmp_path,
    )  # fmt: skip
    assert len(re.findall(r"^H-", printed, re.MULTILINE)) == 12
