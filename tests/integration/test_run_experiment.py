"""Every kind of system from corpora to translations by one command, undisturbed, killed, and by two processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.engine.hashing import hash_path
from tests.fork_server import PYTHON
from tests.small_corpus import write_config, write_corpora

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PLAIN = {"criterion": "label_smoothed_cross_entropy", "max-epoch": 1}
TRAIN: dict[str, Any] = {
    "common": {"optimizer": "adam", "lr": 0.01, "max-tokens": 400, "cpu": True, "num-workers": 0,
               "share-all-embeddings": True},
    "systems": {
        "mix": {**PLAIN, "arch": "transformer_tiny", "max-epoch": 6},
        "ft": {**PLAIN, "from": "mix", "per_domain": True, "arch": "transformer_tiny"},
        "tag": {**PLAIN, "from": "mix", "domain-tags": True, "arch": "transformer_tiny"},
        "ad": {**PLAIN, "from": "mix", "seeds": [1, 2], "arch": "transformer_domain_adapter_tiny"},
        "gad": {
            "from": "ad", "seeds": [2], "uses_teacher": True, "arch": "transformer_gated_adapter_tiny",
            "criterion": "label_smoothed_cross_entropy_with_kd_gate", "max-epoch": 1,
        },
    },
}  # fmt: skip
TRANSLATE = {
    "common": {"beam": 2, "max-tokens": 400, "cpu": True, "max-len-b": 12},
    "outputs": {
        "mix": {"system": "mix"},
        "ft": {"system": "ft"},
        "tag-oracle": {"system": "tag"},
        "tag-classifier": {"system": "tag", "domain-source": "classifier"},
        "ad-classifier": {"system": "ad", "domain-source": "classifier"},
        "gad": {"system": "gad", "domain-source": "none", "gates": True},
    },
}
MADE = {"mix", "ft@bank", "ft@garden", "tag-oracle", "tag-classifier", "ad-classifier@1", "ad-classifier@2", "gad"}
TWO_PROCESSES = {"distributed-backend": "gloo", "ddp-backend": "legacy_ddp"}


def write_experiment(root: Path, train: dict[str, Any] = TRAIN) -> Path:
    news = root / "news"
    news.mkdir(parents=True)
    # Written as the corpora are not: punctuation to normalise, words of both domains.
    (news / "NEWS.en").write_text("show the red tree\nopen the  old account\n\nfind “the” seed\n", encoding="utf-8")
    (news / "NEWS.de").write_text("zeige: Baum\nöffne: Konto\nleer\nfinde „den“ Samen\n", encoding="utf-8")
    outputs = {name: entry for name, entry in TRANSLATE["outputs"].items() if entry["system"] in train["systems"]}
    return write_config(
        root / "c.yaml",
        write_corpora(root / "corpora"),
        clean={"normalise": {}},
        train=train,
        translate={**TRANSLATE, "outputs": outputs},
        evaluate={"ood": {"NEWS": str(news / "NEWS.{lang}")}},
    )


def command(path: Path, *options: str) -> list[str]:
    chosen = options or ("--to", "translate")
    return [sys.executable, "-m", "fairseq_ext.experiments.run", str(path), *chosen]


ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def run(path: Path, *options: str) -> str:
    done = subprocess.run(command(path, *options), env=ENVIRONMENT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of an experiment that was not disturbed; its work is beside it."""
    path = write_experiment(tmp_path_factory.mktemp("whole"))
    run(path)
    return path


def translations(path: Path) -> dict[str, str]:
    work = path.parent / "work"
    files = [*work.glob("translations/*/*.de"), *work.glob("ood*/**/*.de"), *work.glob("translations/*/gates.jsonl")]
    return {file.relative_to(work).as_posix(): file.read_text(encoding="utf-8") for file in files}


def test_every_run_has_its_translations(whole: Path) -> None:
    made = translations(whole)
    by_run = {name for _, name, _ in (key.split("/") for key in made if key.startswith("translations/"))}
    assert by_run == MADE
    for domain, other in (("bank", "garden"), ("garden", "bank")):
        assert len(made[f"translations/ft@{domain}/{domain}.de"].splitlines()) == 10
        assert f"translations/ft@{domain}/{other}.de" not in made
    assert made["translations/ad-classifier@1/bank.de"] or made["translations/ad-classifier@2/bank.de"]
    weights = [json.loads(line) for line in made["translations/gad/gates.jsonl"].splitlines()]
    assert len(weights) == 20


def test_seeds_and_domains_train_differently(whole: Path) -> None:
    systems = whole.parent / "work" / "systems"
    assert sorted(path.name for path in systems.iterdir() if path.is_dir()) == [
        "ad@1", "ad@2", "ft@bank", "ft@garden", "gad", "mix", "tag",
    ]  # fmt: skip
    assert hash_path(systems / "ad@1/checkpoint_best.pt") != hash_path(systems / "ad@2/checkpoint_best.pt")
    log = (systems / "ft@garden" / "train.log").read_text()
    assert "loss_garden" in log
    assert "loss_bank" not in log


def test_text_of_no_domain_is_imported_and_translated(whole: Path) -> None:
    work = whole.parent / "work"
    assert (work / "ood-sets/NEWS.en").read_text() == 'show the red tree\nopen the old account\nfind "the" seed\n'
    assert (work / "ood-sets/NEWS.de").read_text().count("\n") == 3
    outputs = ["ad-classifier@1", "ad-classifier@2", "gad", "mix", "tag-classifier"]
    assert sorted(path.name for path in (work / "ood").iterdir() if path.is_dir()) == outputs
    for name in outputs:
        assert (work / "ood" / name / "NEWS.de").read_text().count("\n") == 3
        typed = (work / "ood" / name / "typed.txt").read_text()
        assert typed.startswith("<domain:garden> show the red tree\n<domain:bank> open") == ("classifier" in name)


def test_a_second_run_does_nothing(whole: Path) -> None:
    lines = [line for line in run(whole).splitlines() if line.endswith("up to date")]
    assert len(lines) == 6 + 1 + 7 + len(MADE) + 6
    assert "started" not in run(whole, "--only", "translate")


def test_a_killed_experiment_ends_with_the_same_translations(whole: Path, tmp_path: Path) -> None:
    """Killed in the last training and in the last translations; what is before them is there."""
    path, work = write_experiment(tmp_path), tmp_path / "work"
    last = ("systems/gad", "translations/gad", "ood/ad-classifier@2", "ood/gad")
    shutil.copytree(whole.parent / "work", work)
    for name in last:
        shutil.rmtree(work / name)
    whole_process = [PYTHON, *command(path)[1:]]
    for name in ("systems/gad", "ood/ad-classifier@2"):
        folder, begun = work / name, work / f"{name}.step/unfinished".replace("/", "/.", 1)
        process = subprocess.Popen(whole_process, env=ENVIRONMENT, stderr=subprocess.DEVNULL, start_new_session=True)
        while process.poll() is None and not folder.exists() and not list(begun.glob("*")):
            time.sleep(0.005)
        assert process.poll() is None, f"ended before {name}"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    done = run(path)
    assert translations(path) == translations(whole)
    assert not list(work.glob("**/.*.step"))
    started = [line.split(": ")[0] for line in done.splitlines() if line.endswith(": started")]
    assert len(started) <= len(last)


def test_two_processes_share_trainings_and_nothing_else(whole: Path, tmp_path: Path) -> None:
    """torchrun starts the command twice; both train every run together, and the first does the rest."""
    systems = {name: {**TRAIN["systems"][name], "max-epoch": 1} for name in ("mix", "gad")}
    systems["gad"] = {**systems["gad"], "from": "mix"}
    train = {"common": {**TRAIN["common"], **TWO_PROCESSES}, "systems": systems}
    path = write_experiment(tmp_path, train)
    made = {"systems", "translations", "ood", "ood-sets"}
    shutil.copytree(whole.parent / "work", tmp_path / "work", ignore=lambda *_: made)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
    done = subprocess.run(
        [*launch, *command(path, "--to", "gad")], env=ENVIRONMENT, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for name in ("mix", "gad"):
        log = (tmp_path / "work" / "systems" / name / "train.log").read_text()
        assert "training on 2 devices" in log
    assert done.stderr.count("mix: started") == 1
    assert "splits: started" not in done.stderr
