"""What all recipes' files share: systems and their runs."""

from pathlib import Path
from typing import Any

from fairseq_ext.experiments.config import Experiment, System, expand, read_experiment
from fairseq_ext.experiments.grids import check_grid, combinations, name_of, with_values

SYSTEMS: dict[str, Any] = {
    "mix": {"arch": "transformer_tiny"},
    "ft": {"from": "mix", "per_domain": True},
    "tag": {"from": "mix", "domain-tags": True},
    "ad": {"from": "mix", "seeds": [1, 2, 3], "arch": "transformer_domain_adapter_tiny"},
    "gad": {"from": "ad", "seeds": [2, 3], "uses_teacher": True, "arch": "transformer_gated_adapter_tiny"},
}


def load(**content: Any) -> Experiment:
    return read_experiment(Experiment, {"work_dir": "w", **content}, Path("c.yaml"))


def read(**section: Any) -> dict[str, System]:
    return dict(load(train=section).systems)


def test_a_system_comes_after_the_one_it_starts_from() -> None:
    assert list(read(systems=dict(reversed(SYSTEMS.items())))) == ["mix", "ad", "gad", "tag", "ft"]


def test_a_system_has_a_run_per_seed_or_per_domain() -> None:
    def names(**fields: Any) -> list[tuple[str, int, str | None]]:
        return [(run.name, run.seed, run.domain) for run in expand(System(name="x", **fields), 7, ["law", "med"])]

    assert names() == [("x", 7, None)]
    assert names(seeds=(5,)) == [("x", 5, None)]
    assert names(seeds=(5, 2)) == [("x@5", 5, None), ("x@2", 2, None)]
    assert names(per_domain=True) == [("x@law", 7, "law"), ("x@med", 7, "med")]
    experiment = load(seed=4, train={"systems": {"mix": {}, "gad": {"from": "mix", "seeds": [2, 3]}}})
    assert [(run.name, run.seed) for run in experiment.all_runs] == [("mix", 4), ("gad@2", 2), ("gad@3", 3)]


def test_a_system_tunes_what_common_or_it_itself_says() -> None:
    common = {"lr": 0.1, "tune": {"lr": [1, "2e-3"]}}
    found = read(common=common, systems={"mix": {"tune": None}, "ad": {}, "gad": {"tune": {"clip_norm": [3]}}})
    assert {name: system.tune for name, system in found.items()} == {
        "mix": {}, "ad": {"lr": (1, 0.002)}, "gad": {"clip-norm": (3,)},
    }  # fmt: skip
    # The first value stands for all until one is chosen.
    assert {name: system.options for name, system in found.items()} == {
        "mix": {"lr": 0.1}, "ad": {"lr": 1}, "gad": {"lr": 0.1, "clip-norm": 3},
    }  # fmt: skip
    where = "c.yaml: train: systems"
    assert found["ad"].place("lr") == f"{where}: ad (under common): tune: lr"
    assert found["gad"].place("clip-norm") == f"{where}: gad: tune: clip-norm"


def test_the_place_of_an_option_is_where_it_can_be_changed() -> None:
    section = {"common": {"max_update": 6, "lr": 1}, "systems": {"mix": {}, "gad": {"lr": "fast"}}}
    place, where = read(**section)["gad"].place, "c.yaml: train: systems: gad"
    assert place("lr") == f"{where}: lr"  # its own, though common has it too
    assert place("max-update") == f"{where} (under common): max_update"  # spelled as in the file
    assert (place("teacher-dir"), place("")) == (f"{where}: teacher-dir", where)  # given by this program


def test_every_combination_of_values_is_a_trial() -> None:
    names = [name_of(values) for values in combinations(check_grid({"lr": [2, "6e-3"], "sentence_avg": [True, False]}))]
    assert names == [f"lr={lr},sentence-avg={average}" for lr in (2, 0.006) for average in ("true", "false")]
    assert with_values({"clip_norm": 1, "lr": 3}, {"clip-norm": 2}) == {"lr": 3, "clip-norm": 2}
