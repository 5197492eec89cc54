"""The committed schemas of experiment files are those of the code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairseq_ext.recipes.registry import recipe_names, schemas

SCHEMAS = Path(__file__).resolve().parents[2] / "configs" / "schema"


@pytest.mark.parametrize("kind", recipe_names())
def test_the_files_are_those_of_the_code(kind: str) -> None:
    assert json.loads((SCHEMAS / f"{kind}.json").read_text("utf-8")) == schemas()[kind], "run scripts/write_schemas.py"
