"""Which systems are base models, and which continue one of them as the control."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairseq_ext.recipes.translation.config import Translation
from tests.recipes.translation.test_outputs import config_of

MIX = {"arch": "transformer_tiny"}
AD = {"from": "mix", "arch": "transformer_domain_adapter_tiny"}
GAD = {"from": "ad", "arch": "transformer_gated_adapter_tiny"}
MORE = {"from": "mix", **MIX}


def systems(tmp_path: Path, **entries: dict[str, Any]) -> Translation:
    return config_of(tmp_path, train={"systems": entries}, translate={})


def test_the_base_is_the_model_below_all_adapters(tmp_path: Path) -> None:
    found = systems(tmp_path, mix=MIX, other=MIX, ad=AD, gad=GAD, alone=MIX)
    assert found.base_systems == ["mix"]


def test_the_control_is_the_base_trained_further_on_all_domains(tmp_path: Path) -> None:
    found = systems(
        tmp_path,
        **{"mix": MIX, "mix-continued": MORE, "ad": AD},
        ft={**MORE, "per_domain": True},
        tag={**MORE, "domain-tags": True},
        bank={**MORE, "train-domains": "bank"},
        large={"from": "mix", "arch": "transformer"},
        again={"from": "mix-continued", **MIX},
    )
    assert found.continued_systems == {"mix-continued": "mix"}


def test_outputs_are_compared_with_the_control_and_uniform_weights(tmp_path: Path) -> None:
    train = {"systems": {"mix": MIX, "mix-continued": MORE, "ad": AD}}
    outputs = {
        "base": {"system": "mix"},
        "more": {"system": "mix-continued"},
        "ad": {"system": "ad"},
        "uniform": {"system": "ad", "domain-source": "uniform"},
    }
    config = config_of(tmp_path, train=train, translate={"outputs": outputs})
    assert config.baselines == ["base", "more", "uniform"]
    assert config.plain_outputs == ["base", "more"]
    chosen = config_of(tmp_path, train=train, translate={"outputs": outputs}, evaluate={"compare": ["ad"]})
    assert chosen.baselines == ["base", "ad"]


def test_variants_of_the_ablation_are_not_in_the_main_tables(tmp_path: Path) -> None:
    outputs = {name: {"system": "mix"} for name in ("mix", "whole", "part", "less")}
    report = {"ablation": ["whole", "part", "less"]}
    train = {"systems": {"mix": MIX}}
    config = config_of(tmp_path, train=train, translate={"outputs": outputs}, evaluate={"report": report})
    assert config.main == ["mix", "whole"]


def test_pairs_are_chosen_or_all_with_the_baselines(tmp_path: Path) -> None:
    outputs = {name: {"system": "mix"} for name in ("a", "b", "c")}
    changes: dict[str, Any] = {"train": {"systems": {"mix": MIX}}, "translate": {"outputs": outputs}}
    assert config_of(tmp_path, **changes).pairs == {"a": [], "b": ["a"], "c": ["a"]}
    assert dict(config_of(tmp_path, **changes, compare={"c": "b"}).pairs) == {"c": ("b",)}
