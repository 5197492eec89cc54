"""``scripts/benchmark.py`` runs cases in turn, each checkout's with its own code, and tells ratios of each round."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.page import marked_commands, section
from benchmarks.shared.models import make_input, make_model, operator_facts
from benchmarks.shared.operators import count_operators
from benchmarks.shared.results import read_result, write_result
from benchmarks.shared.tables import ratios, spread, table
from benchmarks.shared.verbs import parse, verb_module, verb_names
from fairseq_ext.inputs.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
VERBS = (
    *("data", "decode", "domains", "filter", "page", "recurrent", "runtime", "serve", "start", "tags"),
    *("terms", "topics", "train", "tree"),
)

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
    shutil.copytree(ROOT / "scripts", project / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    (project / "scripts" / "benchmarks" / "fake.py").write_text(FAKE)
    for folder, speeds in ((project, {"slow": 2, "fast": 6, "other": 5}), (tmp_path / "old", {"slow": 1, "fast": 4})):
        for name in ("__init__.py", "inputs", "engine", "patches", "cli"):
            target = folder / "fairseq_ext" / name
            if name.endswith(".py"):
                target.parent.mkdir(parents=True)
                shutil.copy(ROOT / "fairseq_ext" / name, target)
            else:
                shutil.copytree(ROOT / "fairseq_ext" / name, target, ignore=shutil.ignore_patterns("__pycache__"))
        for case, speed in speeds.items():
            (folder / f"{case}.txt").write_text(str(speed))
    return project


def benchmark(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(project / "scripts" / "benchmark.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_cases_and_checkouts_take_turns(project: Path, tmp_path: Path) -> None:
    against, file = str(tmp_path / "old"), tmp_path / "result.json"
    done = benchmark(project, *["fake", "--rounds", "2", "--speed", "10", "--against"], against, "--json", str(file))
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


def test_one_case_and_those_it_is_told_by(project: Path) -> None:
    assert benchmark(project, "fake", "--list", "--only", "fast").stdout.split() == ["slow", "fast"]
    done = benchmark(project, "fake", "--only", "nothing")
    assert done.returncode == 1
    assert done.stderr.strip() == "--only: no case has nothing in its name; --list names them"


def test_a_folder_without_code_is_refused(project: Path, tmp_path: Path) -> None:
    done = benchmark(project, "fake", "--against", str(tmp_path))
    assert done.returncode == 1
    assert "is no checkout of this project" in done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_a_case_that_fails_ends_the_benchmark(project: Path) -> None:
    (project / "slow.txt").write_text("no number")
    done = benchmark(project, "fake", "--rounds", "1")
    assert done.returncode == 1
    assert "could not convert" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("measuring 'slow' with the code in")


def entry(case: str, code: str, rates: list[float], **more: Any) -> dict[str, Any]:
    rounds = [{"wall": 8 / rate, "cpu": 4 / rate, "rate": rate} for rate in rates]
    return {"case": case, "code": code, "rounds": rounds, **more}


def test_ratios_are_of_the_same_round() -> None:
    ours, theirs = entry("a", "here", [4, 6, 9]), entry("a", "before", [2, 2, 9])
    assert ratios(ours, theirs, "rate") == [2, 3, 1]
    assert ratios(ours, theirs, "cpu") == [2, 3, 1]
    assert spread([2, 3, 1]) == "2.00 (1.00–3.00)"


def test_what_the_code_before_has_not_is_told_by_its_baseline() -> None:
    series = [
        entry("float", "here", [3]),
        entry("half", "here", [8]),
        entry("float", "before", [2]),
        {"case": "half", "code": "before", "rounds": [], "missing": "no half"},
    ]
    result = {"unit": "words/s", "series": series, "baselines": {"float": [], "half": ["float"]}}
    lines = table(result).splitlines()
    assert "times before" in lines[0]
    assert "4.00 of float" in lines[3]


def test_what_was_different_before_is_told_beside_it() -> None:
    series = [
        entry("a", "here", [3], peak=7, facts={"kernels": 4, "waits": 2}),
        entry("a", "before", [2], peak=9, facts={"kernels": 4, "waits": 5}),
    ]
    lines = table({"unit": "words/s", "series": series, "baselines": {"a": []}}).splitlines()
    assert (
        lines[0] == "|  | words/s | CPU seconds | peak, MiB | kernels | waits | times before | times before, by CPU |"
    )
    assert lines[2] == "| a | 3.00 | 1.33 | 7, before 9 | 4 | 2, before 5 | 1.50 | 1.50 |"


def test_results_are_read_as_written_and_others_refused(tmp_path: Path) -> None:
    result = {"verb": "tree", "machine": {}, "options": {"rounds": 1}}
    write_result(tmp_path / "new" / "r.json", result)
    assert read_result(tmp_path / "new" / "r.json") == result
    (tmp_path / "bad.json").write_text("[1]")
    with pytest.raises(InputError, match=r"bad\.json: no result"):
        read_result(tmp_path / "bad.json")


def test_operators_are_counted_that_compute_and_that_wait() -> None:
    x = torch.randn(3, 4)

    def run() -> None:
        y = (x.t() @ x).view(16)
        y[y > 0]
        y.sum().item()

    count = count_operators(run)
    assert dict(count.kernels) == {"mm": 1, "gt": 1, "sum": 1}
    assert dict(count.waits) == {"index": 1, "_local_scalar_dense": 1}


def test_gates_ask_for_more_kernels_than_no_adapters() -> None:
    net_input = make_input(sentences=2, tokens=5, vocabulary=50)
    facts = {name: operator_facts(make_model(name, "tiny", 50, 3).eval(), net_input) for name in ("MIX", "GAD")}
    assert facts["GAD"]["kernels, step"] > facts["MIX"]["kernels, step"] > 20


def test_verbs_are_those_of_the_page() -> None:
    page = (ROOT / "docs" / "results" / "speed.md").read_text(encoding="utf-8")
    assert set(verb_names()) - set(VERBS) == set()
    for name in set(verb_names()) - {"page"}:
        assert re.search(rf"^\| .*`{name}`", page, re.MULTILINE), name
        assert verb_module(name).__doc__
    for command in marked_commands(page):
        options = parse(command.split())
        assert options.verb in verb_names()


@pytest.mark.slow
def test_tables_of_the_page_are_written_between_its_marks(tmp_path: Path, project: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A\n\n<!-- benchmark: fake --rounds 1 -->\nold\n<!-- end -->\n\nEnd\n", encoding="utf-8")
    words = ["page", "--page", str(page), "--results", str(tmp_path / "kept")]
    assert benchmark(project, *words).returncode == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# A\n\n<!-- benchmark: fake --rounds 1 -->\n`scripts/benchmark.py fake --rounds 1`: ")
    assert "old" not in text
    assert text.endswith("|\n<!-- end -->\n\nEnd\n")
    [kept] = (tmp_path / "kept").iterdir()
    result = json.loads(kept.read_text(encoding="utf-8"))
    assert section("fake --rounds 1", result) in text
    # What is kept is not measured again.
    (tmp_path / "order.txt").unlink()
    assert json.loads(benchmark(project, *words).stdout)["measured"] == []
    assert not (tmp_path / "order.txt").exists()


def test_help_of_every_verb_loads_neither_torch_nor_fairseq() -> None:
    code = "import sys; sys.path[:0] = ['.', 'scripts']; from benchmarks.shared.verbs import build_parser\n"
    code += "build_parser().format_help(); print(sorted({'torch', 'fairseq', 'numpy', 'yaml'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr
