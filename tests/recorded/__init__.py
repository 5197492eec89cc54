"""What a tiny real run of each kind has measured, kept as files for the tests of its report.

``python -m tests.recorded.record KIND FOLDER`` runs the experiment in an empty folder and keeps its results anew.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from fairseq_ext.experiments.kinds import load_experiment

HERE = Path(__file__).parent


def results_of(path: Path) -> dict[str, Path]:
    """The files below the work directory of an experiment that its report is made of, by their names in it.

    Args:
        path: the experiment file.
    """
    kind, experiment = load_experiment(path)
    [step] = kind.stages(experiment)[-1].steps()
    inputs = [file for file in step.inputs if file.is_relative_to(experiment.work_dir)]
    return {file.relative_to(experiment.work_dir).as_posix(): file for file in inputs}


def restore(kind: str, path: Path) -> Any:
    """Put the results of a kind's run where those of an experiment file would be, and return the experiment."""
    _, experiment = load_experiment(path)
    shutil.copytree(HERE / kind, experiment.work_dir, dirs_exist_ok=True)
    return experiment


def shapes_of(files: dict[str, Path]) -> dict[str, Any]:
    """What files hold, without the values: names and kinds of values in JSON, and that there are others."""
    return {
        name: _shape(json.loads(path.read_text(encoding="utf-8"))) if path.suffix == ".json" else path.suffix
        for name, path in files.items()
    }


def recorded_shapes(kind: str) -> dict[str, Any]:
    """The same of what is kept of a kind's run."""
    return shapes_of(
        {path.relative_to(HERE / kind).as_posix(): path for path in (HERE / kind).rglob("*") if path.is_file()}
    )


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return _shape(value[0]) if value else None
    return "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__
