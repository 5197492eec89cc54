"""Systems stand for runs, and mistakes in them are named."""

from __future__ import annotations

from typing import Any

import pytest

from fairseq_ext.experiments.systems import place_of
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.config import System, expand, read_systems

SYSTEMS: dict[str, Any] = {
    "mix": {"arch": "transformer_tiny"},
    "ft": {"from": "mix", "per_domain": True},
    "tag": {"from": "mix", "domain-tags": True},
    "ad": {"from": "mix", "seeds": [1, 2, 3], "arch": "transformer_domain_adapter_tiny"},
    "gad": {"from": "ad", "seeds": [2, 3], "uses_teacher": True, "arch": "transformer_gated_adapter_tiny"},
}


def read(**section: Any) -> dict[str, System]:
    return read_systems(section, "c.yaml: train")


def test_systems_inherit_the_common_options() -> None:
    systems = read(common={"lr": 0.1}, systems=SYSTEMS)
    assert systems["mix"] == System("mix", options={"lr": 0.1, "arch": "transformer_tiny"})
    gad = systems["gad"]
    assert (gad.start, gad.uses_teacher, gad.seeds) == ("ad", True, (2, 3))
    assert gad.options == {"lr": 0.1, "arch": "transformer_gated_adapter_tiny"}


def test_a_system_comes_after_the_one_it_starts_from() -> None:
    turned = dict(reversed(SYSTEMS.items()))
    assert list(read(systems=turned)) == ["mix", "ad", "gad", "tag", "ft"]
    ring = {"a": {"from": "c"}, "b": {"from": "a"}, "c": {"from": "b"}}
    with pytest.raises(InputError, match=r"systems: b: from: 'a' starts from 'b' in turn"):
        read(systems=ring)


def test_a_system_has_a_run_a_seed_or_a_domain() -> None:
    def names(**kind: Any) -> list[tuple[str, int, str | None]]:
        return [(run.name, run.seed, run.domain) for run in expand(System("x", **kind), 7, ["law", "med"])]

    assert names() == [("x", 7, None)]
    assert names(seeds=(5,)) == [("x", 5, None)]
    assert names(seeds=(5, 2)) == [("x@5", 5, None), ("x@2", 2, None)]
    assert names(per_domain=True) == [("x@law", 7, "law"), ("x@med", 7, "med")]


def test_a_system_tunes_what_common_or_it_itself_says() -> None:
    common = {"lr": 0.1, "tune": {"lr": [1, 2]}}
    systems = {"mix": {"tune": None}, "ad": {}, "gad": {"tune": {"clip-norm": [3]}}}
    found = read(common=common, systems=systems)
    assert {name: system.tune for name, system in found.items()} == {
        "mix": {}, "ad": {"lr": (1, 2)}, "gad": {"clip-norm": (3,)},
    }  # fmt: skip
    # The first value stands for all, where the options of a system are looked at before any is chosen.
    assert {name: system.options for name, system in found.items()} == {
        "mix": {"lr": 0.1}, "ad": {"lr": 1}, "gad": {"lr": 0.1, "clip-norm": 3},
    }  # fmt: skip
    assert found["ad"].place("lr") == "c.yaml: train: systems: ad (under common): tune: lr"
    assert found["gad"].place("clip-norm") == "c.yaml: train: systems: gad: tune: clip-norm"
    assert found["gad"].place("lr") == "c.yaml: train: systems: gad (under common): lr"


@pytest.mark.parametrize(
    ("system", "message"),
    [
        ({"from": "max"}, r"systems: new: from: no system 'max'; there are mix, .*, new"),
        ({"from": "new"}, r"new: from: 'new' starts from 'new' in turn"),
        ({"from": 3}, r"from: expected text, got 3"),
        ({"uses_teacher": "yes"}, r"new: uses_teacher: expected true or false, got 'yes'"),
        ({"seeds": [1, 1]}, r"seeds: expected different whole numbers, such as \[1, 2, 3\], got \[1, 1\]"),
        ({"seeds": [True]}, r"seeds: expected different whole numbers"),
        ({"seeds": [1, 2], "per_domain": True}, r"seeds: a system that is trained per_domain"),
        ({"seeds": [1, 2], "seed": 3}, r"seed: would undo seeds"),
        ({"per_domain": True, "train_domains": "bank"}, r"train-domains: per_domain chooses"),
        ({"tune": {"lr": []}}, r"systems: new: tune: lr: expected a list of values to try, got \[\]"),
        ({"tune": {"clip-norm": [1]}, "clip_norm": 2}, r"new: clip_norm: is tuned; take it out, or write tune: null"),
    ],
)
def test_mistakes_in_systems_are_named(system: dict, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(systems={**SYSTEMS, "new": system})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ({"sistems": {}}, "train: unknown key 'sistems'; allowed are common, systems"),
        ({"common": 3}, "train: common: expected keys and values"),
        ({"systems": {"a@1": {}}}, "systems: 'a@1' is no name"),
        ({"systems": {"a/b": {}}}, "systems: 'a/b' is no name"),
    ],
)
def test_mistakes_in_the_section_are_named(train: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(**train)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({False: 1}, r"the key False is no text; put it in quotes"),
        ({1: 1}, r"the key 1 is no text"),
        ({"": 1}, r"'' is no name of an option"),
        ({"lr=1": 1}, r"'lr=1' is no name of an option"),
        ({"--lr": 1}, r"'--lr' is no name of an option"),
        ({"lr": {"a": 1}}, r"lr: expected a single value or a list of such, got \{'a': 1\}"),
        ({"lr": [[1]]}, r"lr: expected a single value or a list of such, got \[\[1\]\]"),
    ],
)
def test_options_are_names_and_values(options: dict, message: str) -> None:
    with pytest.raises(InputError, match="train: common: " + message):
        read(common=options, systems=SYSTEMS)
    with pytest.raises(InputError, match="systems: x: " + message):
        read(systems={"x": options})


def test_systems_and_seeds_are_bounded() -> None:
    with pytest.raises(InputError, match="train: systems: 201 are more than 200"):
        read(systems={f"s{number}": {} for number in range(201)})
    with pytest.raises(InputError, match="x: seeds: 101 are more than 100"):
        read(systems={"x": {"seeds": list(range(101))}})
    with pytest.raises(InputError, match="x: seeds: seed: 2147483648 is out of range"):
        read(systems={"x": {"seeds": [1 << 31]}})


def test_an_option_spelled_in_two_ways_is_refused() -> None:
    common = {"max-update": 5}
    with pytest.raises(InputError, match=r"systems: mix: max-update and max_update are one option; keep one of them"):
        read(common=common, systems={"mix": {"max_update": 6}})
    assert read(common=common, systems={"mix": {}})["mix"].options["max-update"] == 5


@pytest.mark.parametrize(
    ("option", "place"),
    [
        ("lr", "gad: lr"),  # its own, though common has it too
        ("max-update", "gad (under common): max_update"),  # spelled as in the file
        ("teacher-dir", "gad: teacher-dir"),  # given by this program
        ("", "gad"),
    ],
)
def test_the_place_of_an_option_is_where_it_can_be_mended(option: str, place: str) -> None:
    section = {"common": {"max_update": 6, "lr": 1}, "systems": {"mix": {}, "gad": {"lr": "fast"}}}
    assert place_of(section, "systems", "gad", "x.yaml: train")(option) == f"x.yaml: train: systems: {place}"
