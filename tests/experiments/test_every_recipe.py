"""Of a small experiment of each recipe, the plan and the report are those in ``expected``; ``WRITE=1`` writes anew.

The plan has every step with all that it depends on. A finished step is recognised by this: as long as plans do not
change, what earlier versions have made stays valid. The report is that of the results in ``tests/recorded``.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.base.steps import Step, run_steps
from fairseq_ext.experiments.metrics.records import read_records
from fairseq_ext.experiments.registry import load_experiment
from tests.experiments.reranking.small_experiment import write_file, write_made_up_lists
from tests.recorded import restore
from tests.recorded.record import WRITERS

EXPECTED = Path(__file__).with_name("expected")


def write_reranking_experiment(folder: Path) -> Path:
    write_made_up_lists(folder)
    (folder / "work/systems/mix").mkdir(parents=True)
    (folder / "work/systems/mix/checkpoint_best.pt").touch()
    return write_file(folder)


def expected(kind: str, name: str, found: str) -> str:
    """What a file has to hold, or what was found where it is written anew."""
    path = EXPECTED / kind / name
    if os.environ.get("WRITE"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(found, encoding="utf-8")
    return path.read_text(encoding="utf-8")


def plan_of(path: Path) -> str:
    """Stages, and for each of their steps its inputs, options and commands."""
    lines = []
    for stage in load_experiment(path).stages():
        lines.append(f"{stage.name}, early" if stage.early else stage.name)
        lines += [line for step in stage.steps() for line in _lines_of(step)]
    return "\n".join(lines).replace(str(path.parent), "ROOT") + "\n"


def _lines_of(step: Step) -> list[str]:
    options: dict[str, Any] = dict(step.options)
    if "with" in options:  # versions of packages
        options["with"] = sorted(options["with"])
    about = {"inputs": sorted(map(str, step.inputs)), "options": options, "results": list(map(str, step.results))}
    kinds = [name for name in ("resumable", "trains", "side_by_side") if getattr(step, name)]
    lines = [f"  {step.output} {' '.join(kinds)}".rstrip()]
    lines += [f"    {name}: {json.dumps(value, sort_keys=True, default=str)}" for name, value in about.items() if value]
    return [*lines, *(f"    {command.program} {' '.join(command.arguments)}" for command in step.commands)]


@pytest.mark.parametrize("kind", [*WRITERS, "reranking"])
def test_plans_are_as_expected(kind: str, tmp_path: Path) -> None:
    found = plan_of({**WRITERS, "reranking": write_reranking_experiment}[kind](tmp_path))
    assert found == expected(kind, "plan.txt", found)


@pytest.mark.parametrize("kind", WRITERS)
def test_report_without_measurements(kind: str, tmp_path: Path) -> None:
    recipe = load_experiment(WRITERS[kind](tmp_path))
    run_steps([recipe.report()])
    assert (recipe.experiment.work_dir / "report/report.md").read_text(encoding="utf-8").count("Not measured yet.") > 1


@pytest.mark.parametrize("kind", WRITERS)
def test_reports_of_recorded_results_are_as_expected(kind: str, tmp_path: Path) -> None:
    run_steps([restore(kind, WRITERS[kind](tmp_path)).report()])
    folder = tmp_path / "work/report"
    text, records = ((folder / name).read_text(encoding="utf-8") for name in ("report.md", "records.jsonl"))
    assert text.replace(str(tmp_path), "ROOT") == expected(kind, "report.md", text.replace(str(tmp_path), "ROOT"))
    expected(kind, "records.jsonl", records)
    known = [vars(record) for record in read_records(EXPECTED / kind / "records.jsonl")]
    found = [vars(record) for record in read_records(folder / "records.jsonl")]
    assert found == [{**record, "value": pytest.approx(record["value"], rel=1e-12)} for record in known]
    html = (folder / "report.html").read_text(encoding="utf-8")
    assert html.count("<table>") == text.count("\n| :- |")
    assert html.count('src="data:image/svg+xml;base64,') == len(list(folder.glob("*.svg"))) == text.count("\n![")
