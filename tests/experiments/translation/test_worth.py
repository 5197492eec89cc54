"""Labels by what adapters are worth: their form, their temperature, and which steps make them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fairseq_ext.data.teacher_labels import read_teacher_probs
from fairseq_ext.experiments.translation.config import load_config
from fairseq_ext.experiments.translation.experiment import TranslationExperiment
from fairseq_ext.experiments.translation.train import training_steps
from fairseq_ext.experiments.translation.translate import translation_steps
from fairseq_ext.experiments.translation.worth import as_probs, read_losses, write_labels, write_worth
from fairseq_ext.inputs.errors import InputError

CONFIG = """
work_dir: {root}
source_lang: en
target_lang: pl
corpora: {{domains: {{law: [law.tsv], med: [med.tsv]}}}}
train:
  systems:
    mix: {{arch: transformer_tiny}}
    ad: {{from: mix, arch: transformer_domain_adapter_tiny, seeds: [1, 2]}}
    gad: {{from: ad, worth_temperature: 2, arch: transformer_gated_adapter_tiny, seeds: [1, 2]}}
translate:
  outputs:
    ad-best: {{system: ad, domain-source: reference, beam: 2}}
"""
# Two adapters; law has two sentences, med one, whose best adapter is law's.
LOSSES = {"law": [[10.0, 12.0], [5.0, 5.0]], "med": [[7.0, 8.0]]}


@pytest.fixture
def losses(tmp_path: Path) -> Path:
    folder = tmp_path / "losses"
    folder.mkdir()
    (folder / "domains.txt").write_text("law\nmed\n")
    for name, rows in LOSSES.items():
        np.save(folder / f"{name}.npy", np.array(rows, dtype=np.float32))
    return folder


def config_of(root: Path, text: str = CONFIG) -> TranslationExperiment:
    path = root / "experiment.yaml"
    path.write_text(text.format(root=root))
    return load_config(path)


def test_labels_are_a_softmax_of_losses_over_the_temperature() -> None:
    expected = [1 / (1 + np.exp(-1.0)), 1 - 1 / (1 + np.exp(-1.0))]
    np.testing.assert_allclose(as_probs(np.array([[10.0, 12.0]]), 2.0), [expected])
    # Losses of long sentences are large, and float32 would overflow.
    assert as_probs(np.array([[2000.0, 2300.0]], dtype=np.float32), 0.01).tolist() == [[1.0, 0.0]]


def test_labels_are_read_as_a_classifiers(tmp_path: Path, losses: Path) -> None:
    labels = tmp_path / "labels"
    labels.mkdir()
    write_labels(labels, {"train": losses}, 1.0)
    found = read_teacher_probs(labels, "law", "train", ["law", "med"], 2)
    np.testing.assert_allclose(found[:], as_probs(np.array(LOSSES["law"]), 1.0), atol=1e-3)
    metrics = json.loads((labels / "teacher.json").read_text())["metrics"]["train"]
    assert metrics["confusion"] == [[2, 0], [1, 0]]


def test_summary_of_losses(tmp_path: Path, losses: Path) -> None:
    write_worth(tmp_path, {"ad@1": losses})
    found = json.loads((tmp_path / "worth.json").read_text())["ad@1"]
    assert (found["sentences"], found["true_is_best"]) == (3, 0.6667)
    assert (found["true"], found["best"]) == (pytest.approx(23 / 3, abs=1e-4), pytest.approx(22 / 3, abs=1e-4))
    assert found["best_single"] == found["each"]["law"] == pytest.approx(22 / 3, abs=1e-4)


def test_a_file_of_other_adapters_is_refused(losses: Path) -> None:
    np.save(losses / "med.npy", np.zeros((1, 3), dtype=np.float32))
    with pytest.raises(InputError, match="med.npy: holds no losses of 2 adapters"):
        read_losses(losses, ["law", "med"])


def test_a_system_is_trained_on_labels_of_the_run_that_it_starts_from(tmp_path: Path) -> None:
    steps = training_steps(config_of(tmp_path), "gad@2")
    names = [step.output.relative_to(tmp_path).as_posix() for step in steps]
    sets = [f"worth/ad@2/{name}" for name in ("train", "valid", "test", "labels-2")]
    assert names == ["systems/mix", "systems/ad@2", *sets, "systems/gad@2"]
    assert tmp_path / "worth/ad@2/labels-2" in steps[-1].inputs
    arguments = steps[-1].commands[0].arguments
    assert arguments[arguments.index("--teacher-dir") + 1] == str(tmp_path / "worth/ad@2/labels-2")
    assert "worth_temperature" not in " ".join(arguments)


def test_the_adapter_that_likes_the_translation_best_is_chosen_as_a_classifier_would(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    assert config.outputs["ad-best"].is_told
    steps = translation_steps(config, "ad-best@1")
    names = [step.output.relative_to(tmp_path).as_posix() for step in steps]
    assert names == ["worth/ad@1/test", "worth/ad@1/best", "translations/ad-best@1"]
    command = " ".join(steps[-1].commands[0].arguments)
    assert "--domain-source classifier" in command
    assert f"--teacher-dir {tmp_path}/worth/ad@1/best" in command


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("worth_temperature: 2", "worth_temperature: 0", "gad: worth_temperature: expected a number above 0, got 0"),
        ("worth_temperature: 2", "worth_temperature: yes", "worth_temperature: expected a number above 0, got True"),
        ("worth_temperature: 2", "worth_temperature: 2, uses_teacher: true", "takes the place of the classifier"),
        ("from: ad, worth", "worth", "name theirs under from"),
        ("system: ad,", "system: mix,", "ad-best: domain-source: reference chooses among plain adapters; mix has none"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        config_of(tmp_path, CONFIG.replace(old, new))
