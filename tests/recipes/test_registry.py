"""Kinds of experiments: a file is read and planned in a moment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.registry import load_experiment

ROOT = Path(__file__).resolve().parents[2]
FILES = ["quickstart", "hier/mono-small", "topics/reviews-small", "houlsby/classification-small", "dagru/ptb-small"]


def test_reading_a_file_loads_no_torch() -> None:
    code = (
        "import sys, pathlib\n"
        "from fairseq_ext.recipes.registry import load_experiment\n"
        "for name in sys.argv[1:]:\n"
        "    kind, config = load_experiment(pathlib.Path(name))\n"
        "    assert kind.stages(config)\n"
        "    assert not {'torch', 'fairseq'} & set(sys.modules), name\n"
    )
    command = [sys.executable, "-c", code, *(f"configs/{name}.yaml" for name in FILES)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("kind", ["hierarchi", "../translation", "[translation]"])
def test_an_unknown_kind_is_named_with_those_there_are(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(f"kind: {kind}\nwork_dir: x\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"x\.yaml: kind: .* is unknown; choose one of classification, hierarchy, re"):
        load_experiment(path)
