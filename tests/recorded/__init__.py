"""What a tiny real run of each kind has measured, kept as files for the tests of its report.

``python -m tests.recorded.record KIND FOLDER`` runs the experiment in an empty folder and keeps its results anew.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from fairseq_ext.experiments.recipe import Recipe
from fairseq_ext.experiments.registry import load_experiment

HERE = Path(__file__).parent
TIMINGS = "speed"  # the folder of timings


def results_of(path: Path) -> dict[str, str]:
    """What the report of an experiment is made of: text by name in its work directory.

    Names are relative to the experiment file's folder. Of logs there are only the ends of epochs; timings, which are
    others in every run, are left out.

    Args:
        path: the experiment file.
    """
    recipe = load_experiment(path)
    work_dir = recipe.experiment.work_dir
    files = [file for file in recipe.report().inputs if file.is_relative_to(work_dir) and TIMINGS not in file.parts]
    texts = {file.relative_to(work_dir).as_posix(): file.read_text(encoding="utf-8") for file in files}
    return {
        name: _ends_of_epochs(text) if name.endswith(".log") else text.replace(f"{path.parent}/", "")
        for name, text in texts.items()
    }


def recorded_results(kind: str) -> dict[str, str]:
    """What is kept of a kind's run."""
    files = [path for path in (HERE / kind).rglob("*") if path.is_file()]
    return {path.relative_to(HERE / kind).as_posix(): path.read_text(encoding="utf-8") for path in files}


def restore(kind: str, path: Path) -> Recipe[Any]:
    """Put the results of a kind's run where those of an experiment file would be, and return its recipe."""
    recipe = load_experiment(path)
    shutil.copytree(HERE / kind, recipe.experiment.work_dir, dirs_exist_ok=True)
    return recipe


def shapes_of(results: dict[str, str]) -> dict[str, Any]:
    """What files hold, without the values: of JSON the names and kinds of values, of others that they are there."""
    return {name: _shape(json.loads(text)) if name.endswith(".json") else "" for name, text in results.items()}


def _ends_of_epochs(log: str) -> str:
    return "".join(f"{line}\n" for line in map(_shortened, log.splitlines()) if line)


def _shortened(line: str) -> str:
    """An end of an epoch without its date, or a validation; nothing of other lines."""
    if " | valid on 'valid' subset | " in line:
        return line
    return f"epoch {line.partition('epoch ')[2]}" if " | wps " in line else ""


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        # A test of too few sentences has no p.
        return {key: "number" if key == "p" and each is None else _shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return _shape(value[0]) if value else None
    return "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__
