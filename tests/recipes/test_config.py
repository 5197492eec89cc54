"""What all recipes' files share: systems and their runs, and mistakes, each one line with file and key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.config import Experiment, System, expand, read_experiment
from fairseq_ext.recipes.grids import check_grid, combinations, name_of, with_values

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


def mistake_in(**section: Any) -> str:
    with pytest.raises(InputError) as caught:
        read(**section)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_system_comes_after_the_one_it_starts_from() -> None:
    assert list(read(systems=dict(reversed(SYSTEMS.items())))) == ["mix", "ad", "gad", "tag", "ft"]
    ring = {"a": {"from": "c"}, "b": {"from": "a"}, "c": {"from": "b"}}
    assert "systems: b: from: 'a' already starts from 'b'" in mistake_in(systems=ring)


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
    assert found["ad"].place("lr") == "c.yaml: train: systems: ad (under common): tune: lr"
    assert found["gad"].place("clip-norm") == "c.yaml: train: systems: gad: tune: clip-norm"
    assert found["gad"].place("lr") == "c.yaml: train: systems: gad (under common): lr"


@pytest.mark.parametrize(
    ("system", "key"),
    [
        ({"from": "max"}, "new: from"),
        ({"per_domain": 1}, "new: per_domain"),
        ({"seeds": [1, 1]}, "new: seeds"),
        ({"seeds": [1, 2], "per_domain": True}, "new: seeds"),
        ({"seeds": [1, 2], "seed": 3}, "new: seed"),
        ({"per_domain": True, "train_domains": "bank"}, "new: train-domains"),
        ({"tune": {"clip-norm": [1]}, "clip_norm": 2}, "new: clip_norm"),
        ({"lr": {"a": 1}}, "new: lr"),
        ({False: 1}, "new: the key False"),
        ({"max-update": 1, "max_update": 2}, "new: max-update and max_update"),
        (7, "new"),
    ],
)
def test_mistakes_are_named(system: Any, key: str) -> None:
    assert mistake_in(systems={**SYSTEMS, "new": system}).startswith(f"c.yaml: train: systems: {key}")
    assert mistake_in(common={"--lr": 1}).startswith("c.yaml: train: common: --lr")
    assert mistake_in(systems={"a/b": {}}).startswith("c.yaml: train: systems: a/b")


def test_the_place_of_an_option_is_where_it_can_be_changed() -> None:
    section = {"common": {"max_update": 6, "lr": 1}, "systems": {"mix": {}, "gad": {"lr": "fast"}}}
    place, where = read(**section)["gad"].place, "c.yaml: train: systems: gad"
    assert place("lr") == f"{where}: lr"  # its own, though common has it too
    assert place("max-update") == f"{where} (under common): max_update"  # spelled as in the file
    assert place("teacher-dir") == f"{where}: teacher-dir"  # given by this program
    assert place("") == where


def test_a_system_that_is_compared_must_exist() -> None:
    train = {"systems": {"mix": {}, "gad": {}}}
    assert load(train=train, compare={"gad": "mix"}).compare == {"gad": ("mix",)}
    with pytest.raises(InputError, match="^c.yaml: compare: .*'mxi'.* mix, gad"):
        load(train=train, compare={"gad": ["mxi"]})


def test_every_combination_of_values_is_a_trial() -> None:
    grid = check_grid({"lr": [0.002, "6e-3"], "freeze_output_embedding": [True, False]})
    assert [name_of(values) for values in combinations(grid)] == [
        "lr=0.002,freeze-output-embedding=true", "lr=0.002,freeze-output-embedding=false",
        "lr=0.006,freeze-output-embedding=true", "lr=0.006,freeze-output-embedding=false",
    ]  # fmt: skip
    assert with_values({"clip_norm": 1, "lr": 3}, {"clip-norm": 2}) == {"lr": 3, "clip-norm": 2}


@pytest.mark.parametrize(
    ("section", "option"),
    [
        ({"lr": []}, "lr: "),
        ({"lr": [0.1, 0.2, "1e-1"]}, "lr: "),
        ({"lr": [float("nan")]}, "lr: "),
        ({"lr": ["../x"]}, "lr: "),
        ({"seed": [1, 2]}, "seed: "),
        ({"lr": list(range(101))}, "more than 100 combinations"),
    ],
)
def test_the_option_of_a_mistake_in_a_grid_is_named(section: Any, option: str) -> None:
    with pytest.raises(ValueError, match=f"^{option}"):
        check_grid(section)
