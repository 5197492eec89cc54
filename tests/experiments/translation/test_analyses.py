"""Which analyses an experiment file asks for."""

from __future__ import annotations

from pathlib import Path

import pytest
from fairseq_ext.experiments.translation import teacher as teacher
from fairseq_ext.experiments.translation.analyses import NAMES, analysis_steps, chosen_steps
from fairseq_ext.experiments.translation.config import load_config
from fairseq_ext.experiments.translation.experiment import TranslationExperiment

from fairseq_ext.inputs.errors import InputError

CONFIG = """
work_dir: {root}
source_lang: en
target_lang: pl
corpora: {{domains: {{law: [law.tsv], med: [med.tsv]}}}}
train:
  systems:
    mix: {{arch: transformer_tiny}}
    ft: {{from: mix, per_domain: true, arch: transformer_tiny}}
    ad: {{from: mix, arch: transformer_domain_adapter_tiny}}
    gad: {{from: ad, uses_teacher: true, seeds: [1, 2], arch: transformer_gated_adapter_tiny}}
translate:
  common: {{beam: 5}}
  outputs:
    ft: {{system: ft}}
    ad: {{system: ad, domain-source: classifier}}
    gad: {{system: gad, domain-source: none, gates: true}}
evaluate:
  speed: [ft, ad, gad]
"""


def config_of(root: Path, text: str) -> TranslationExperiment:
    path = root / "experiment.yaml"
    path.write_text(text.format(root=root))
    return load_config(path)


def names(root: Path, text: str) -> list[str]:
    return [step.output.relative_to(root).as_posix() for step in analysis_steps(config_of(root, text))]


def test_every_analysis_is_a_step_of_its_own(tmp_path: Path) -> None:
    more = CONFIG + "  joined: 2\n"
    found = [name for name in names(tmp_path, more) if name.startswith("analysis/")]
    assert found == [f"analysis/{name}" for name in NAMES]
    assert [step.output.name for step in chosen_steps(config_of(tmp_path, more), ["gates"])] == ["gates"]


def test_one_domain_has_no_distances(tmp_path: Path) -> None:
    text = CONFIG.replace(", med: [med.tsv]", "").partition("evaluate:")[0]
    assert names(tmp_path, text) == ["analysis/gates", "analysis/parameters"]
    with pytest.raises(InputError, match="distances: nothing to analyse, there is one domain"):
        chosen_steps(config_of(tmp_path, text), ["distances"])


def test_what_the_file_gives_no_reason_for_is_left_out(tmp_path: Path) -> None:
    without = CONFIG.replace(", gates: true", "").partition("evaluate:")[0]
    assert names(tmp_path, without) == ["analysis/distances", "analysis/parameters"]
    assert names(tmp_path, without.partition("train:")[0]) == ["analysis/distances"]


def test_inputs_are_those_of_all_runs(tmp_path: Path) -> None:
    _, gates, parameters, speed = analysis_steps(config_of(tmp_path, CONFIG))
    assert gates.inputs[2:] == [tmp_path / f"translations/gad@{seed}/gates.jsonl" for seed in (1, 2)]
    runs = ("mix", "ft@law", "ft@med", "ad", "gad@1", "gad@2")
    assert list(parameters.inputs) == [tmp_path / f"systems/{run}/checkpoint_best.pt" for run in runs]
    # Of several seeds one is timed.
    timed = {f"systems/{run}/checkpoint_best.pt" for run in ("ft@law", "ft@med", "ad", "gad@1")}
    found = {path.relative_to(tmp_path).as_posix() for path in speed.inputs}
    assert found == timed | {"data-bin", "splits", "teacher"}
    assert speed.resumable


def test_distances_know_their_options(tmp_path: Path) -> None:
    text = CONFIG + "  distance_model: {root}/bert\n  distance_sentences: 50\n"
    distances = analysis_steps(config_of(tmp_path, text))[0]
    assert distances.inputs == [tmp_path / "splits", tmp_path / "bert"]
    assert distances.options["sentences"] == 50


@pytest.mark.parametrize(
    ("name", "message"),
    [("spead", "no analysis 'spead'; there are distances, gates"), ("speed", "speed: nothing to analyse, evaluate")],
)
def test_mistakes_are_named(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        chosen_steps(config_of(tmp_path, CONFIG.partition("evaluate:")[0]), [name])
