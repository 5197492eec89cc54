"""``tools/benchmark.py`` runs cases in turn, each checkout's with its own code, and tells ratios of each round."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.page import marked_commands
from benchmarks.shared.results import read_result
from benchmarks.shared.verbs import parse, verb_module, verb_names

ROOT = Path(__file__).resolve().parents[1]
# Its rates are what the checkout says, its rounds are written down as they come.
FAKE = '''"""A verb of tests."""
from pathlib import Path

import fairseq_ext
from benchmarks.shared.cases import Case, MissingError, Ready

UNIT = "steps/s"
CODE = Path(fairseq_ext.__file__).resolve().parents[1]


def add_options(parser):
    parser.add_argument("--speed", type=float, default=1)


def cases(options):
    def prepare(name, folder):
        if not (CODE / f"{name}.txt").exists():
            raise MissingError(name)
        speed = options.speed * float((CODE / f"{name}.txt").read_text())
        print("what a library prints")

        def run():
            with open(CODE.parent / "order.txt", "a") as order:
                order.write(f"{name} of {CODE.name}\\n")
            return {"rate": speed}

        return Ready(run, {"size": 7}, lambda: (CODE.parent / f"closed-{name}-{CODE.name}").touch())

    def case(name, *baselines, **options):
        return Case(name, lambda folder: prepare(name, folder), 1, baselines, **options)

    return [case("slow"), case("fast", "slow", own_process=True), case("other", group="second")]
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose benchmark has a verb ``fake``, and beside it an older checkout, which lacks one of its cases."""
    project = tmp_path / "project"
    shutil.copytree(ROOT / "tools", project / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    (project / "tools" / "benchmarks" / "fake.py").write_text(FAKE)
    for folder, speeds in ((project, {"slow": 2, "fast": 6, "other": 5}), (tmp_path / "old", {"slow": 1, "fast": 4})):
        for name in ("base", "patches", "cli"):
            target = folder / "fairseq_ext" / name
            shutil.copytree(ROOT / "fairseq_ext" / name, target, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "fairseq_ext" / "__init__.py", folder / "fairseq_ext")
        for case, speed in speeds.items():
            (folder / f"{case}.txt").write_text(str(speed))
    return project


@pytest.mark.slow
def test_cases_and_checkouts_take_turns(project: Path, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    options = ["--rounds", "2", "--speed", "10", "--against", tmp_path / "old", "--json", file]
    command = [sys.executable, project / "tools" / "benchmark.py", "fake", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    order = (tmp_path / "order.txt").read_text().splitlines()
    turn = ["slow of project", "slow of old", "fast of project", "fast of old"]
    # Rounds, the first of which warms up; then the other group; then the process of its own.
    assert order == turn * 3 + ["other of project"] * 3 + ["fast of project", "fast of old"]
    assert (tmp_path / "closed-slow-old").exists()
    result = read_result(file)
    series = {(entry["case"], entry["code"]): entry for entry in result["series"]}
    assert [each["rate"] for each in series["fast", "here"]["rounds"]] == [60, 60]
    assert series["other", "before"]["missing"] == "other"
    assert series["fast", "before"]["peak"] > 1
    assert series["slow", "here"]["facts"] == {"size": 7}
    assert {"processor", "cores", "units", "torch", "load"} <= result["machine"].keys()
    rows = {cells[1].strip(): cells for cells in (line.split("|") for line in done.stdout.splitlines() if "|" in line)}
    assert any("3.00 (3.00–3.00) of slow" in cell for cell in rows["fast"])
    assert any(cell.strip() == "1.50 (1.50–1.50)" for cell in rows["fast"])
    assert "what a library prints" not in done.stdout


def test_verbs_are_those_of_the_page() -> None:
    page = (ROOT / "docs" / "results" / "speed.md").read_text(encoding="utf-8")
    for name in set(verb_names()) - {"page"}:
        assert re.search(rf"^\| .*`{name}`", page, re.MULTILINE), name
        assert verb_module(name).__doc__
    for command in marked_commands(page):
        options = parse(command.split())
        assert options.verb in verb_names()
