"""Experiment files of topic models: what their systems are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.recipes.topics.small_experiment import BASE_DOMAINS, SYSTEMS, load, write_topic_experiment


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ({"arch": "transformer_lm_tiny"}, sorted([*BASE_DOMAINS, "garden_ask", "garden_do"])),
        ({"checkpoint": "gpt2/model.pt"}, []),
        ({"checkpoint": "gpt2/model.pt", "train-domains": "bank_ask"}, ["bank_ask"]),
    ],
)
def test_the_text_of_the_base_is_all_unless_it_is_given(
    tmp_path: Path, base: dict[str, Any], expected: list[str]
) -> None:
    assert load(write_topic_experiment(tmp_path, {**SYSTEMS, "base": base})).base_domains == expected
