"""Systems and outputs stand for runs, and mistakes are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.errors import InputError
from fairseq_ext.experiment.config import ExperimentConfig, load_config
from fairseq_ext.experiment.runs import (
    System,
    all_output_runs,
    baseline_of,
    domains_of,
    expand,
    output_runs_of,
    outputs_of,
    runs_of,
    start_of,
    systems_of,
)
from tests.small_corpus import write_config, write_corpora

SYSTEMS: dict[str, Any] = {
    "mix": {"arch": "transformer_tiny"},
    "ft": {"from": "mix", "per_domain": True},
    "tag": {"from": "mix", "domain-tags": True},
    "ad": {"from": "mix", "seeds": [1, 2, 3], "arch": "transformer_domain_adapter_tiny"},
    "gad": {"from": "ad", "seeds": [2, 3], "uses_teacher": True, "arch": "transformer_gated_adapter_tiny"},
}
OUTPUTS: dict[str, Any] = {
    "mix": {"system": "mix"},
    "ft": {"system": "ft"},
    "tag-oracle": {"system": "tag", "domain-source": "oracle"},
    "tag-classifier": {"system": "tag", "domain-source": "classifier"},
    "ad": {"system": "ad"},
    "ad-law": {"system": "ad", "domain": "bank"},
    "gad": {"system": "gad", "domain-source": "none", "gates": True},
}


def config_of(root: Path, **changes: Any) -> ExperimentConfig:
    sections: dict[str, Any] = {
        "train": {"common": {"lr": 0.1}, "systems": SYSTEMS},
        "translate": {"common": {"beam": 5}, "outputs": OUTPUTS},
    }
    return load_config(write_config(root / "c.yaml", write_corpora(root / "corpora"), **{**sections, **changes}))


def test_systems_inherit_the_common_options(tmp_path: Path) -> None:
    systems = systems_of(config_of(tmp_path))
    assert systems["mix"] == System("mix", options={"lr": 0.1, "arch": "transformer_tiny"})
    gad = systems["gad"]
    assert (gad.start, gad.uses_teacher, gad.seeds) == ("ad", True, (2, 3))
    assert gad.options == {"lr": 0.1, "arch": "transformer_gated_adapter_tiny"}
    assert [name for name, system in systems.items() if system.needs_domain] == ["tag", "ad"]


def test_a_system_comes_after_the_one_it_starts_from(tmp_path: Path) -> None:
    turned = dict(reversed(SYSTEMS.items()))
    assert list(systems_of(config_of(tmp_path, train={"systems": turned}))) == ["mix", "ad", "gad", "tag", "ft"]
    ring = {"a": {"from": "c"}, "b": {"from": "a"}, "c": {"from": "b"}}
    with pytest.raises(InputError, match=r"systems: b: from: 'a' starts from 'b' in turn"):
        systems_of(config_of(tmp_path, train={"systems": ring}))


def test_a_system_has_a_run_a_seed_or_a_domain() -> None:
    def names(**kind: Any) -> list[tuple[str, int, str | None]]:
        return [(run.name, run.seed, run.domain) for run in expand(System("x", **kind), 7, ["law", "med"])]

    assert names() == [("x", 7, None)]
    assert names(seeds=(5,)) == [("x", 5, None)]
    assert names(seeds=(5, 2)) == [("x@5", 5, None), ("x@2", 2, None)]
    assert names(per_domain=True) == [("x@law", 7, "law"), ("x@med", 7, "med")]


def test_a_run_starts_from_the_run_of_its_seed(tmp_path: Path) -> None:
    config = config_of(tmp_path)

    def starts(name: str) -> list[str | None]:
        return [start.name if (start := start_of(config, run)) else None for run in runs_of(config, name)]

    assert starts("mix") == [None]
    assert starts("ft") == ["mix", "mix"]
    assert starts("ad") == ["mix", "mix", "mix"]
    assert starts("gad") == ["ad@2", "ad@3"]
    assert starts("gad@3") == ["ad@3"]


def test_a_run_starts_from_the_run_of_its_domain(tmp_path: Path) -> None:
    more = {**SYSTEMS, "again": {"from": "ft", "per_domain": True}, "all": {"from": "ft"}, "late": {"from": "gad"}}
    config = config_of(tmp_path, train={"systems": more})
    starts = [start_of(config, run) for run in runs_of(config, "again")]
    assert [start.name for start in starts if start] == ["ft@bank", "ft@garden"]
    for name, there in (("all", "ft@bank, ft@garden"), ("late", "gad@2, gad@3")):
        with pytest.raises(InputError, match=f"{name}: from: no run of .* fits|no run of .*; there are {there}"):
            start_of(config, runs_of(config, name)[0])


def test_outputs_expand_as_their_systems_do(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    assert outputs_of(config)["ft"] == {"beam": 5, "system": "ft"}
    runs = {run.name: run for run in all_output_runs(config)}
    assert list(runs) == [
        "mix", "ft@bank", "ft@garden", "tag-oracle", "tag-classifier", "ad@1", "ad@2", "ad@3",
        "ad-law@1", "ad-law@2", "ad-law@3", "gad@2", "gad@3",
    ]  # fmt: skip
    assert runs["ft@garden"].run.domain == "garden"
    assert runs["gad@3"].gates
    assert runs["gad@3"].options == {"beam": 5, "domain-source": "none"}
    assert [run.name for run in output_runs_of(config, "gad@3")] == ["gad@3"]


def test_text_of_no_domain_is_for_those_that_need_none(tmp_path: Path) -> None:
    sources = {run.name: (run.domain_source, run.translates_any_text) for run in all_output_runs(config_of(tmp_path))}
    assert sources["mix"] == ("none", True)
    assert sources["ft@bank"] == ("none", False)
    assert sources["tag-oracle"] == ("oracle", False)
    assert sources["tag-classifier"] == ("classifier", True)
    assert sources["ad@1"] == ("oracle", False)
    assert sources["ad-law@1"] == ("none", True)
    assert sources["gad@2"] == ("none", True)


def test_domains_are_those_of_the_data_where_the_corpora_are_not(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    assert domains_of(config) == ["bank", "garden"]
    (config.work_dir / "data-bin").mkdir(parents=True)
    (config.work_dir / "data-bin" / "domains.txt").write_text("law\nmed\n")
    assert domains_of(config) == ["law", "med"]
    given = config_of(tmp_path, corpora={"domains": {"z": ["z.{lang}"], "a": ["a.{lang}"]}})
    assert domains_of(given) == ["a", "z"]


def test_the_baseline_is_given_or_the_first(tmp_path: Path) -> None:
    assert baseline_of(config_of(tmp_path)) == "mix"
    assert baseline_of(config_of(tmp_path, evaluate={"baseline": "gad"})) == "gad"
    assert baseline_of(config_of(tmp_path, translate={})) is None
    for evaluate in ({"baseline": "best"}, {"speed": ["best"]}):
        with pytest.raises(InputError, match=r"evaluate: \w+: no output 'best'; there are mix, ft, tag-oracle"):
            baseline_of(config_of(tmp_path, evaluate=evaluate))


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
    ],
)
def test_mistakes_in_systems_are_named(tmp_path: Path, system: dict, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        systems_of(config_of(tmp_path, train={"systems": {**SYSTEMS, "new": system}}))
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
def test_mistakes_in_the_section_are_named(tmp_path: Path, train: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        systems_of(config_of(tmp_path, train=train))


def test_mistakes_in_names_of_runs_are_named(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    with pytest.raises(InputError, match="systems: no 'tagg'; there are mix, ft"):
        runs_of(config, "tagg")
    with pytest.raises(InputError, match="gad: no run 'gad@1'; there are gad@2, gad@3"):
        runs_of(config, "gad@1")
    with pytest.raises(InputError, match="outputs: no 'tag'; there are mix, ft, tag-oracle"):
        output_runs_of(config, "tag")
    with pytest.raises(InputError, match="ft: no run 'ft@law'; there are ft@bank, ft@garden"):
        output_runs_of(config, "ft@law")
    for output, message in (({}, "new: the key 'system' is missing"), ({"system": "ad@1"}, "give the system's name")):
        with pytest.raises(InputError, match=message):
            all_output_runs(config_of(tmp_path, translate={"outputs": {"new": output}}))
