"""Every kind of system from corpora to translations by one command, and by two processes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_ext.experiments.metrics.records import read_records
from tests.experiments.translation.small_translation_experiment import TRAIN, write_translation_experiment
from tests.integration import experiments
from tests.verbs import verb

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
MADE = {
    "mix", "mix-continued", "ft@bank", "ft@garden", "tag-oracle", "tag-classifier", "ad-classifier@1",
    "ad-classifier@2", "ad-uniform@1", "ad-uniform@2", "gad",
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of an experiment that was not disturbed, up to its report; its work is beside it."""
    path = write_translation_experiment(tmp_path_factory.mktemp("whole"))
    experiments.run_whole(path)
    return path


def test_every_run_translates_all_sets_that_it_can(whole: Path) -> None:
    experiments.check_results_are_of_the_recorded_shape(whole, "translation")
    work = whole.parent / "work"
    assert {path.name for path in work.glob("translations/*") if path.is_dir() and path.name[0] != "."} == MADE
    for domain, other in (("bank", "garden"), ("garden", "bank")):
        folder = work / f"translations/ft@{domain}"
        assert len((folder / f"{domain}.de").read_text(encoding="utf-8").splitlines()) == 10
        assert not (folder / f"{other}.de").exists()
    assert any((work / f"translations/ad-classifier@{seed}/bank.de").read_text().strip() for seed in (1, 2))
    assert len((work / "translations/gad/gates.jsonl").read_text().splitlines()) == 20
    translated = {name: {path.parent.name for path in work.glob(f"extra/*/{name}.de")} for name in ("NEWS", "PLANTS")}
    assert translated == {"NEWS": MADE - {"ft@bank", "ft@garden", "tag-oracle"}, "PLANTS": MADE - {"ft@bank"}}
    records = read_records(work / "scores/records.jsonl")
    for name, sets in {"ad-uniform": {"test:FORUM", "test:PLANTS"}, "ft": {"test:PLANTS"}}.items():
        found = {each.domain for each in records if (each.system, each.metric) == (name, "chrF")}
        assert {domain for domain in found if domain.startswith("test:")} == sets


def test_finished_experiments_are_not_run_again(whole: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = times(whole)
    for name in ("run", "prepare", "teacher", "decode", "score"):
        verb(name)([str(whole)])
    verb("train")([str(whole), "gad"])
    assert times(whole) == before
    messages = [line for line in capfd.readouterr().err.splitlines() if ": " in line and "version" not in line]
    assert messages
    assert all(line.endswith("up to date") for line in messages), messages


def times(path: Path) -> dict[Path, int]:
    """When the files of an experiment's work were written."""
    files = [file for file in (path.parent / "work").rglob("*") if file.is_file() and file.suffix != ".lock"]
    return {file: file.stat().st_mtime_ns for file in files}


def test_two_processes_share_trainings_and_nothing_else(whole: Path, tmp_path: Path) -> None:
    """torchrun starts the command twice; both train every run together, and the first does the rest."""
    systems = {name: {**TRAIN["systems"][name], "max-epoch": 1} for name in ("mix", "gad")}
    systems["gad"] = {**systems["gad"], "from": "mix"}
    common = {**TRAIN["common"], "distributed-backend": "gloo", "ddp-backend": "legacy_ddp"}
    path = write_translation_experiment(tmp_path, {"common": common, "systems": systems})
    made = {"systems", "translations", "extra", "extra-sets", "scores", "analysis", "report"}
    shutil.copytree(whole.parent / "work", tmp_path / "work", ignore=lambda *_: made)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
    command = [*launch, sys.executable, "-m", "fairseq_ext.cli", "run", str(path), "--to", "gad"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    for name in ("mix", "gad"):
        log = (tmp_path / "work" / "systems" / name / "train.log").read_text()
        assert "training on 2 devices" in log
    assert done.stderr.count("mix: started") == 1
    assert "splits: started" not in done.stderr
