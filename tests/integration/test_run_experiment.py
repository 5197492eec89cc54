"""Every kind of system from corpora to translations by one command, undisturbed, killed, and by two processes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from fairseq_ext.experiments.translation import analyses, examples, scores, teacher, train, translate

from fairseq_ext.engine.hashing import hash_path
from fairseq_ext.experiments import prepare
from tests.experiments.translation.small_translation_experiment import OUTPUTS, TRAIN, write_translation_experiment
from tests.fork_server import PYTHON
from tests.recorded import recorded_results, results_of, shapes_of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
MADE = {
    "mix", "mix-continued", "ft@bank", "ft@garden", "tag-oracle", "tag-classifier", "ad-classifier@1",
    "ad-classifier@2", "ad-uniform@1", "ad-uniform@2", "gad",
}  # fmt: skip
TWO_PROCESSES = {"distributed-backend": "gloo", "ddp-backend": "legacy_ddp"}


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
    """The file of an experiment that was not disturbed, up to its report; its work is beside it."""
    path = write_translation_experiment(tmp_path_factory.mktemp("whole"))
    run(path, "--to", "report")
    return path


def translations(path: Path) -> dict[str, str]:
    work = path.parent / "work"
    files = [*work.glob("translations/*/*.de"), *work.glob("extra*/**/*.de"), *work.glob("translations/*/gates.jsonl")]
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
        "ad@1", "ad@2", "ft@bank", "ft@garden", "gad", "mix", "mix-continued", "tag",
    ]  # fmt: skip
    assert hash_path(systems / "ad@1/checkpoint_best.pt") != hash_path(systems / "ad@2/checkpoint_best.pt")
    log = (systems / "ft@garden" / "train.log").read_text()
    assert "loss_garden" in log
    assert "loss_bank" not in log


def test_text_of_no_domain_is_imported_and_translated(whole: Path) -> None:
    work = whole.parent / "work"
    assert (work / "extra-sets/NEWS.en").read_text() == 'show the red tree\nopen the old account\nfind "the" seed\n'
    assert (work / "extra-sets/NEWS.de").read_text().count("\n") == 3
    need_none = MADE - {"ft@bank", "ft@garden", "tag-oracle"}
    assert {path.parent.name for path in (work / "extra").glob("*/NEWS.de")} == need_none
    for name in need_none:
        assert (work / "extra" / name / "NEWS.de").read_text().count("\n") == 3
        typed = (work / "extra" / name / "typed.txt").read_text()
        assert typed.startswith("<domain:garden> show the red tree\n<domain:bank> open") == ("classifier" in name)


def test_own_sets_of_a_known_domain_are_for_all_who_know_it(whole: Path) -> None:
    work = whole.parent / "work"
    made = {path.parent.name: path for path in (work / "extra").glob("*/PLANTS.de")}
    assert made.keys() == MADE - {"ft@bank"}
    assert all(path.read_text(encoding="utf-8").count("\n") == 2 for path in made.values())
    typed = (work / "extra/tag-oracle/typed.txt").read_text(encoding="utf-8")
    assert typed == "<domain:garden> find the old root\n<domain:garden> change the red rate\n"
    assert not (work / "extra/tag-oracle/FORUM.de").exists()
    outputs = read(work / "scores/scores.json")["outputs"]
    assert outputs["ad-uniform"]["chrF"].keys() >= {"test:FORUM", "test:PLANTS", "test:AVG"}
    assert "test:PLANTS" in outputs["ft"]["chrF"]
    assert "test:FORUM" not in outputs["ft"]["chrF"]


def test_a_second_run_does_nothing(whole: Path) -> None:
    lines = [line for line in run(whole).splitlines() if line.endswith("up to date")]
    assert len(lines) == 6 + 1 + 8 + len(MADE) + 1 + len(MADE - {"ft@bank"}) + 1
    assert "started" not in run(whole, "--only", "translate")


def test_commands_of_single_steps_find_everything_done(whole: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = times(whole)
    for main in (prepare.main, teacher.main, translate.main, scores.main, examples.main, analyses.main):
        main([str(whole)])
    train.main([str(whole), "gad"])
    assert times(whole) == before
    messages = [line for line in capfd.readouterr().err.splitlines() if ": " in line and "version" not in line]
    assert messages
    assert all(line.endswith("up to date") for line in messages), messages


def times(path: Path) -> dict[Path, int]:
    """When the files of an experiment's work were written."""
    files = [file for file in (path.parent / "work").rglob("*") if file.is_file() and file.suffix != ".lock"]
    return {file: file.stat().st_mtime_ns for file in files}


def test_scores_and_examples_are_there(whole: Path) -> None:
    work = whole.parent / "work"
    outputs = read(work / "scores/scores.json")["outputs"]
    assert outputs.keys() == OUTPUTS.keys()
    assert {"bank", "garden", "AVG", "wAVG", "ood:NEWS"} <= outputs["gad"]["chrF"].keys()
    assert "<title>gad, AVG: " in (work / "scores/gains.svg").read_text(encoding="utf-8")
    assert "show the red tree" in (work / "examples/examples.txt").read_text(encoding="utf-8")


def test_everything_is_analysed(whole: Path) -> None:
    folder = whole.parent / "work" / "analysis"
    names = "distances", "gates", "parameters", "speed"
    assert set(names) <= set(analyses.NAMES)
    distances, gates, parameters, speed = (read(folder / name / f"{name}.json") for name in names)
    assert distances["domains"] == ["bank", "garden"]
    # The sentences share all words but one.
    assert distances["matrix"][0][1] > 1.5
    assert set(gates["gad"]["weights"]) == {"bank", "garden"}
    assert all(sum(row) == pytest.approx(1, abs=1e-3) for row in gates["gad"]["weights"]["bank"])
    assert parameters["mix"]["trained"] == parameters["mix"]["total"]
    assert parameters["ad@1"]["total"] == parameters["mix"]["total"] + parameters["ad@1"]["trained"]
    timed = speed["ad-classifier"]
    assert timed["domains"]["bank"]["sentences"] == 10
    assert timed["domains"]["bank"]["classifier_seconds"] > 0
    assert timed["tokens_per_second"] > 0


def test_the_report_is_tested_on_results_of_this_shape(whole: Path) -> None:
    assert shapes_of(results_of(whole)) == shapes_of(recorded_results("translation"))


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def test_a_killed_experiment_ends_with_the_same_translations(whole: Path, tmp_path: Path) -> None:
    """Killed in the last translations and then in the last training; what is before them is there."""
    path, work = write_translation_experiment(tmp_path), tmp_path / "work"
    shutil.copytree(whole.parent / "work", work)
    kill_in("extra/ad-classifier@2", path)
    for name in ("translations/gad", "extra/gad"):
        shutil.rmtree(work / name)
    kill_in("systems/gad", path)
    done = run(path)
    assert translations(path) == translations(whole)
    assert not list(work.glob("**/.*.step"))
    started = [line.split(": ")[0] for line in done.splitlines() if re.search(": (started|made anew|continuing)", line)]
    # What was killed, and what follows from a training made again.
    assert set(started) <= {"gad", "ad-classifier@2", "examples"}


def kill_in(name: str, path: Path) -> None:
    """Let a command and all that it starts, true processes each, make a step again; kill them as soon as it begins."""
    folder = path.parent / "work" / name
    begun = folder.with_name(f".{folder.name}.step") / "unfinished"
    whole_process = [PYTHON, *command(path)[1:]]
    while folder.exists():  # also where the kill came too late
        shutil.rmtree(folder)
        process = subprocess.Popen(whole_process, env=ENVIRONMENT, stderr=subprocess.DEVNULL, start_new_session=True)
        while process.poll() is None and not list(begun.glob("*")):
            time.sleep(0.005)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        assert process.wait() in (0, -signal.SIGKILL)


def test_two_processes_share_trainings_and_nothing_else(whole: Path, tmp_path: Path) -> None:
    """torchrun starts the command twice; both train every run together, and the first does the rest."""
    systems = {name: {**TRAIN["systems"][name], "max-epoch": 1} for name in ("mix", "gad")}
    systems["gad"] = {**systems["gad"], "from": "mix"}
    common = {**TRAIN["common"], **TWO_PROCESSES}
    path = write_translation_experiment(tmp_path, {"common": common, "systems": systems})
    made = {"systems", "translations", "extra", "extra-sets", "examples", "scores", "analysis", "report"}
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
