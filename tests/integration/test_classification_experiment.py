"""Classifiers from text and tables to their report by one command, and what holds of trainings and figures."""

import re
from pathlib import Path

import pytest

from tests.experiments.classification.small_experiment import write_short_classification_experiment
from tests.integration import experiments
from tests.integration.test_command_lines import weights

RUNS = {"base", "full@place", "full@size", "top@verb", "adapters@place", "adapters@same"}


@pytest.mark.slow
def test_trainings_are_made_once_and_a_sequence_keeps_its_earlier_task(tmp_path: Path) -> None:
    path = write_short_classification_experiment(tmp_path)
    systems = experiments.run_whole(path) / "systems"
    experiments.check_nothing_is_left_to_do(path)
    experiments.check_results_are_of_the_recorded_shape(path, "classification")
    assert {folder.name for folder in systems.iterdir() if not folder.name.startswith(".")} == RUNS
    log = (systems / "adapters@place/train.log").read_text(encoding="utf-8")
    assert re.findall(r"valid on 'valid' subset .*accuracy ([\d.]+)", log)
    assert "num_updates 30" in log  # 120 sentences, batches of 8, twice
    names, first = (weights(systems / f"adapters@{task}/checkpoint_best.pt") for task in ("same", "place"))
    assert {"place", "same"} <= {name.split(".")[1] for name in names if name.startswith("classification_heads.")}
    of_place = [name for name in first if ".place." in name]
    assert of_place
    assert all(bool((names[name] == first[name]).all()) for name in of_place)
