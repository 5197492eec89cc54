"""The shell pipelines, typed in order on tiny text: what the verbs make of the same options, to the last bit."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

from tests.small_corpus import read_tree, write_corpora
from tests.verbs import verb

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SIZES = {"SRC": "en", "TGT": "de", "HELD_OUT": "10", "VOCABULARY": "70", "BEAM": "2", "FOLDS": "2"}
TRAINING = {"BASE_ARCH": "transformer_tiny", "STAGE": "base mix gad", "UPDATES": "6", "WARMUP": "2", "BATCH": "400"}
COMMON = {
    "optimizer": "adam", "adam-betas": "(0.9, 0.98)", "clip-norm": 0.0, "lr-scheduler": "inverse_sqrt",
    "warmup-updates": 2, "max-tokens": 400, "max-update": 6, "patience": 4, "upsampling": "max", "cpu": True,
    "criterion": "label_smoothed_cross_entropy", "label-smoothing": 0.1,
}  # fmt: skip
GATES = {
    "criterion": "label_smoothed_cross_entropy_with_kd_gate", "gate-temperature": 2.0, "gate-loss-weight": 0.5,
    "gate-loss-temperature": 0.1, "gate-target": "probs",
}  # fmt: skip
SYSTEMS = {
    "base": {"arch": "transformer_tiny", "share-all-embeddings": True, "dropout": 0.1, "lr": 5e-4},
    "mix": {"from": "base", "arch": "transformer", "lr": 1e-4},
    "gad": {"from": "mix", "arch": "transformer_gated_adapter", "uses_teacher": True, "lr": 5e-4, **GATES},
}
OUTPUTS = {"mix": {"system": "mix"}, "gad": {"system": "gad", "domain-source": "none"}}


class Project:
    """A copy of the pipelines, without the filters that know only real languages."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.work = folder, folder / "work"
        for name in ("scripts", "data-prep"):
            shutil.copytree(ROOT / name, folder / name)
        path = folder / "scripts/pipeline.sh"
        path.write_text(path.read_text(encoding="utf-8").replace("root=$(", f"root={ROOT} #"), encoding="utf-8")
        path = folder / "data-prep/filter.sh"
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        left = [line for line in lines if not line.startswith(("    language:", "    dictionary:"))]
        assert len(left) == len(lines) - 2
        path.write_text("".join(left), encoding="utf-8")
        write_corpora(folder / "corpora")

    def run(self, script: str, *arguments: str, typed: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a pipeline in an activated environment."""
        environment = os.environ | SIZES | {"PYTHON": sys.executable, "WORK": "work", "CORPORA": "corpora"} | variables
        return subprocess.run(
            ["bash", script, *arguments],
            cwd=self.folder, env=environment, input=typed, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def runs(self, script: str, *arguments: str, **options: str) -> str:
        """Run a pipeline to its end and return what it prints."""
        done = self.run(script, *arguments, **options)
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        return done.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """All five pipelines were run, but for the translation of a line."""
    made = Project(tmp_path_factory.mktemp("project"))
    made.runs("data-prep/filter.sh")
    assert "bank" in made.runs("data-prep/train_teacher.sh")
    made.runs("scripts/train_gpu.sh", "--cpu", **TRAINING)
    table = made.runs("scripts/evaluate.sh", SYSTEMS_TO_SCORE="mix gad")
    assert table.count("Baseline: ") >= 2, table
    return made


def test_pipelines_make_what_the_verbs_make(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.folder)
    content = yaml.safe_load((project.work / "teacher.yaml").read_text(encoding="utf-8"))
    content |= {"work_dir": str(tmp_path / "verbs"), "train": {"common": COMMON, "systems": SYSTEMS}}
    content["translate"] = {"common": {"beam": 2, "max-tokens": 8000}, "outputs": OUTPUTS}
    path = tmp_path / "verbs.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    verb("run")([str(path), "--to", "score"])
    for name in ("teacher/bank/train.npy", "data-bin/domains.txt", "data-bin/bank/train.en-de.de.bin"):
        assert (tmp_path / "verbs" / name).read_bytes() == (project.work / name).read_bytes(), name
    for name in SYSTEMS:
        weights, expected = (
            torch.load(folder / "systems" / name / "checkpoint_best.pt", weights_only=False)["model"]
            for folder in (project.work, tmp_path / "verbs")
        )
        assert weights.keys() == expected.keys()
        assert all(torch.equal(value, expected[key]) for key, value in weights.items()), name
    for name in OUTPUTS:
        for domain in ("bank", "garden"):
            file = f"translations/{name}/{domain}.de"
            assert (project.work / file).read_text() == (tmp_path / "verbs" / file).read_text()


def test_a_second_run_makes_nothing_again_and_one_that_was_stopped_goes_on(project: Project) -> None:
    before = {path: path.stat().st_mtime_ns for path in project.work.glob("systems/*/*.pt")}
    (project.work / "systems/gad/.finished").unlink()
    project.runs("scripts/train_gpu.sh", "--cpu", **TRAINING)
    assert (project.work / "systems/gad/.finished").exists()
    after = {path: path.stat().st_mtime_ns for path in project.work.glob("systems/*/*.pt")}
    changed = {path.parent.name for path, time in after.items() if time != before[path]}
    assert changed <= {"gad"}
    log = (project.work / "systems/gad/train.log").read_text()
    assert "Loaded checkpoint" in log


def test_gates_translate_without_a_domain_and_adapters_with_one(project: Project) -> None:
    text = project.runs("scripts/translate.sh", typed="show the old tree\nopen the red account\n")
    assert len(text.splitlines()) == 2
    expected = read_tree(project.work / "systems/gad")
    project.runs("scripts/translate.sh", typed="show the old tree\n", DOMAIN="bank")
    assert read_tree(project.work / "systems/gad") == expected


@pytest.mark.parametrize(
    ("script", "arguments", "variables", "message"),
    [
        ("data-prep/filter.sh", (), {"CORPORA": "nowhere", "WORK": "other"}, "nowhere: not found; set CORPORA"),
        ("data-prep/train_teacher.sh", (), {"WORK": "other"}, "run data-prep/filter.sh first"),
        ("scripts/evaluate.sh", (), {"WORK": "other"}, "run data-prep/filter.sh first"),
        ("scripts/evaluate.sh", (), {"SYSTEMS_TO_SCORE": "none"}, "has none of the systems none"),
        ("scripts/translate.sh", (), {"SYSTEM": "ad"}, "work/systems/ad: not trained"),
        ("scripts/train_gpu.sh", (), {"PROCESSES": "0"}, "train_gpu.sh --cpu trains without one"),
        ("scripts/train_gpu.sh", ("--cpu",), {"STAGE": "mxi"}, "STAGE: unknown stage mxi"),
        ("scripts/translate.sh", (), {"PYTHON": "/bin/false"}, "has no fairseq"),
    ],
)
def test_bad_input_ends_with_one_line(
    project: Project, script: str, arguments: tuple[str, ...], variables: dict[str, str], message: str
) -> None:
    done = project.run(script, *arguments, **variables)
    assert done.returncode != 0
    assert message in done.stderr.splitlines()[-1]


def test_a_domain_on_one_side_only_is_refused(project: Project) -> None:
    shutil.copytree(project.folder / "corpora", project.folder / "odd")
    (project.folder / "odd/law.en").write_text("a law\n")
    done = project.run("data-prep/filter.sh", CORPORA="odd", WORK="odd-work")
    assert done.returncode != 0
    assert "law.de" in done.stderr
