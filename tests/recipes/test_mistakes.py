"""Mistakes in experiment files of every recipe, in ``mistakes.yaml``: each is one line with file and key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.registry import load_experiment
from tests.recipes.reranking.small_experiment import write_file
from tests.recorded.record import WRITERS

MISTAKES = yaml.safe_load(Path(__file__).with_name("mistakes.yaml").read_text(encoding="utf-8"))
CASES = [(kind, changes, key) for kind, rows in MISTAKES.items() for changes, key in rows]


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
