"""The scripts find the project, whatever the shell that calls them has set."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fork_server import PYTHON

ROOT = Path(__file__).resolve().parents[1]
needs_environment = pytest.mark.skipif(
    not (ROOT / ".venv/.installed-core").exists(), reason="would install .venv in this checkout, which has none"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The scripts, with an installed environment whose python only tells where it is."""
    project = tmp_path / "project"
    for name in ("scripts", "tools"):
        shutil.copytree(ROOT / name, project / name)
    shutil.copy(ROOT / "requirements.txt", project)
    python = project / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$0"\n')
    python.chmod(0o755)
    text = (ROOT / "requirements.txt").read_bytes()
    checksum = subprocess.run(["cksum"], input=text, capture_output=True, check=True).stdout
    (project / ".venv" / ".installed-core").write_bytes(checksum)
    (project / ".venv/bin/fairseq-ext").symlink_to("../../scripts/fairseq-ext")
    return project


def run(command: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, env=os.environ | variables, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_search_path_for_folders_does_not_mislead_the_scripts(project: Path) -> None:
    before = sorted(project.rglob("*"))
    result = run(["bash", "scripts/fairseq-ext"], project, CDPATH=".:..:scripts")
    assert result.returncode == 0, result.stderr
    assert set(filter(None, result.stdout.splitlines())) == {f"{project}/.venv/bin/python"}
    assert sorted(project.rglob("*")) == before


def test_a_python_without_the_libraries_hands_over_to_the_projects_own(project: Path) -> None:
    for name in ("__init__.py", "base/__init__.py", "base/own_python.py"):
        (project / "fairseq_ext" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "fairseq_ext" / name, project / "fairseq_ext" / name)
    command = [sys.executable, "-S", "-I", "tools/write_schemas.py"]  # without site-packages
    result = run(command, project)
    assert result.stdout == f"{project}/.venv/bin/python\n", result.stderr
    (project / ".venv/bin/python").unlink()
    result = run(command, project)
    assert result.returncode == 1
    assert "has no fairseq; bash scripts/fairseq-ext --help creates" in result.stderr


def test_requirements_are_installed_in_turns_fairseq_without_what_it_asks_for(project: Path) -> None:
    python = project / ".venv/bin/python"
    show = (
        'for word in "$@"; do case $word in --no-deps) echo $word ;; /dev/fd/*) grep . "$word"; echo ---- ;; esac; done'
    )
    python.write_text(f'#!/bin/sh\ncase "$*" in *purelib*) echo {project} ;; *) {show} ;; esac\n')
    (project / ".venv/.installed-core").write_text("other")
    result = run(["bash", "scripts/fairseq-ext"], project)
    turns = [turn.split() for turn in result.stdout.split("----")[:-1]]
    wanted = [line for line in (ROOT / "requirements.txt").read_text().splitlines() if "==" in line]
    assert turns[0] == wanted[:5]
    assert turns[1] == ["--no-deps", wanted[5]]
    assert turns[2] == wanted[:5] + wanted[6:]
    assert "fairseq-fixed==" in wanted[5]


@pytest.mark.slow
def test_an_interrupted_installation_heals(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    shutil.copy(ROOT / "requirements.txt", tmp_path)
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", tmp_path / ".venv"], check=True)
    # Nothing to install from, so that it ends when it comes to that.
    result = run(["bash", "scripts/fairseq-ext", "--help"], tmp_path, PYTHON=PYTHON, PIP_NO_INDEX="1")
    assert "Installation failed" in result.stderr
    assert "No module named pip" not in result.stderr
    subprocess.run([tmp_path / ".venv/bin/python", "-m", "pip", "--version"], check=True, capture_output=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "verb"),
    [
        pytest.param([str(ROOT / "scripts/fairseq-ext")], "run", marks=needs_environment),
        *(([PYTHON, "-m", "fairseq_ext.cli"], verb) for verb in ("run", "serve")),
    ],
)
def test_nothing_is_imported_from_the_current_directory(start: list[str], verb: str, tmp_path: Path) -> None:
    (tmp_path / "ours.yaml").write_text("work_dir: runs\n", encoding="utf-8")
    for name in ("yaml", "random", "argparse", "torch", "numpy", "pydantic", "uvicorn", "tqdm"):
        (tmp_path / f"{name}.py").write_text(f"open('PWNED-{name}', 'w')\n", encoding="utf-8")
    result = run([*start, verb, "ours.yaml", "system"], tmp_path, PYTHONPATH=str(ROOT))
    assert result.returncode in (1, 2), result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.glob("PWNED-*")) == []


@pytest.mark.slow
def test_the_bundle_for_a_gpu_has_what_training_and_decoding_import() -> None:
    program = """
import sys
sys.path[:0] = ["tools", "tools/gpu"]
from types import ModuleType

import unpack

# unpack.py writes modules without content in the place of these.
for name, inner in unpack._NAMES_ONLY.items():
    sys.modules |= {name: ModuleType(name), f"{name}.{inner}": ModuleType(f"{name}.{inner}")}
    setattr(sys.modules[name], inner, sys.modules[f"{name}.{inner}"])
    sys.modules[f"{name}.{inner}"].__getattr__ = lambda _: None
import benchmarks.decode, benchmarks.shared.training, benchmarks.shared.worker, benchmarks.train
import fairseq_cli.generate, fairseq_cli.train, fairseq_ext

fairseq_ext.install()
from importlib.metadata import packages_distributions

import bundle
from packaging.utils import canonicalize_name

made_by = packages_distributions()
roots = {name.split(".")[0] for name in sys.modules} - {*unpack._NAMES_ONLY}
used = {each for name in roots for each in made_by.get(name, [])}
names = {name for name in map(canonicalize_name, used) if not name.startswith(("cuda-", "nvidia-"))}
optional = {"attrs", "wcwidth"}
print(names - {*map(canonicalize_name, bundle.NEEDED), "torch", "fairseq-fixed", *optional})
"""
    done = run([PYTHON, "-c", program], ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "set()"
