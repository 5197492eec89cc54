"""Experiment files of every recipe: they are read in a moment; mistakes (``mistakes.yaml``) are one line each."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairseq_ext.base.errors import InputError
from fairseq_ext.experiments.registry import load_experiment
from tests.experiments.reranking.small_experiment import write_file
from tests.recorded.record import WRITERS

ROOT = Path(__file__).resolve().parents[2]
FILES = ["quickstart", "hier/mono-small", "topics/reviews-small", "houlsby/classification-small", "dagru/ptb-small"]
MISTAKES = yaml.safe_load(Path(__file__).with_name("mistakes.yaml").read_text(encoding="utf-8"))
CASES = [(kind, changes, key) for kind, rows in MISTAKES.items() for changes, key in rows]


@pytest.mark.slow
def test_reading_a_file_loads_no_torch() -> None:
    code = (
        "import sys, pathlib\n"
        "from fairseq_ext.experiments.registry import load_experiment\n"
        "for name in sys.argv[1:]:\n"
        "    recipe = load_experiment(pathlib.Path(name))\n"
        "    assert recipe.stages()\n"
        "    assert not {'torch', 'fairseq'} & set(sys.modules), name\n"
    )
    command = [sys.executable, "-c", code, *(f"configs/{name}.yaml" for name in FILES)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert run.returncode == 0, run.stderr


@pytest.fixture(scope="module")
def experiments(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the file of a small experiment of each recipe has."""
    writers = {**WRITERS, "reranking": write_file}
    paths = {kind: writer(tmp_path_factory.mktemp(kind)) for kind, writer in writers.items()}
    assert all(map(load_experiment, paths.values()))
    return {kind: yaml.safe_load(path.read_text(encoding="utf-8")) for kind, path in paths.items()}


@pytest.mark.parametrize(("kind", "changes", "key"), CASES)
def test_mistakes_are_named(
    experiments: dict[str, Any], tmp_path: Path, kind: str, changes: dict[str, Any], key: str
) -> None:
    content, path = experiments[kind], tmp_path / "x.yaml"
    path.write_text(yaml.safe_dump({**content, **changes}), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_experiment(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert key in str(caught.value)
    assert "\n" not in str(caught.value)
