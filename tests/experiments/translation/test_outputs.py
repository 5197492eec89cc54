"""Systems and outputs of an experiment file: the runs that they stand for, base models, controls and comparisons."""

from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.experiments.translation.config import Translation, load_config
from fairseq_ext.text.text_files import write_lines
from tests.experiments.test_config import SYSTEMS
from tests.small_corpus import write_config, write_corpora

OUTPUTS: dict[str, Any] = {name: {"system": name} for name in ("mix", "ft", "ad", "gad")}
MIX = {"arch": "transformer_tiny"}
AD = {"from": "mix", "arch": "transformer_domain_adapter_tiny"}
MORE = {"from": "mix", **MIX}


def config_of(
    root: Path, systems: dict[str, Any] = SYSTEMS, outputs: dict[str, Any] = OUTPUTS, **changes: Any
) -> Translation:
    sections = {"train": {"systems": systems}, "translate": {"outputs": outputs}, **changes}
    return load_config(write_config(root / "c.yaml", write_corpora(root / "corpora"), **sections))


def test_a_run_starts_from_the_run_of_its_seed(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    starts = {run.name: start.name for run in config.all_runs if (start := config.start_of(run))}
    of_mix = ("ft@bank", "ft@garden", "tag", "ad@1", "ad@2", "ad@3")
    assert starts == {**dict.fromkeys(of_mix, "mix"), "gad@2": "ad@2", "gad@3": "ad@3"}
    assert [run.name for run in config.runs_of("gad@3")] == ["gad@3"]


def test_domains_are_those_of_the_data_where_the_corpora_are_not(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    assert config.domains == ["bank", "garden"]
    write_lines(config.work_dir / "data-bin/domains.txt", ["law", "med"])
    assert config.domains == ["law", "med"]
    given = config_of(tmp_path, corpora={"domains": {"z": ["z.{lang}"], "a": ["a.{lang}"]}})
    assert given.domains == ["a", "z"]


def test_mistakes_in_names_of_runs_are_named(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    with pytest.raises(InputError, match="systems: 'tagg' is unknown; choose one of mix, ft"):
        config.runs_of("tagg")
    with pytest.raises(InputError, match="outputs: ft: unknown run 'ft@law'; .*ft@bank, ft@garden"):
        config.output_runs("ft@law")


def test_the_control_is_the_base_below_all_adapters_trained_further_on_all_domains(tmp_path: Path) -> None:
    systems = {
        **{"mix": MIX, "other": MIX, "mix-continued": MORE, "ad": AD, "alone": MIX},
        "gad": {"from": "ad", "arch": "transformer_gated_adapter_tiny"},
        "ft": {**MORE, "per_domain": True},
        "tag": {**MORE, "domain-tags": True},
        "bank": {**MORE, "train-domains": "bank"},
        "large": {"from": "mix", "arch": "transformer"},
        "again": {"from": "mix-continued", **MIX},
    }
    found = config_of(tmp_path, systems, {})
    assert found.base_systems == ["mix"]
    assert found.continued_systems == {"mix-continued": "mix"}


def test_gains_refer_to_the_model_that_all_begins_with(tmp_path: Path) -> None:
    systems = {"general": MIX, "mix": {**MORE, "from": "general"}, "ad": AD}
    entries = {name: {"system": name} for name in ("ad", "mix")}
    assert config_of(tmp_path, systems, entries).reference == "mix"
    assert config_of(tmp_path, systems, {**entries, "base": {"system": "general"}}).reference == "base"
    tagged = {**systems, "general": {**MIX, "domain-tags": True}}
    assert config_of(tmp_path, tagged, {**entries, "base": {"system": "general"}}).reference == "mix"
    assert config_of(tmp_path, {"mix": MIX}, {"mix": {"system": "mix"}}).reference == ""


def test_a_model_starts_here_unless_it_begins_with_one_from_elsewhere(tmp_path: Path) -> None:
    systems = {
        "mix": MIX,
        "ad": AD,
        "other": {**MIX, "finetune_from_model": "there.pt"},
        "more": {**MORE, "from": "other"},
    }
    found = config_of(tmp_path, systems, {})
    assert [name for name in systems if found.starts_here(name)] == ["mix", "ad"]
    further = {"mix": {**MORE, "from": "base"}, "ad": AD}
    outputs = {name: {"system": name} for name in ("ad", "mix", "base")}
    imported = config_of(tmp_path, further, outputs, base={"import": str(tmp_path)}, subwords={})
    assert not any(map(imported.starts_here, imported.systems))
    assert imported.reference == "base"


def test_outputs_are_compared_with_the_control_and_uniform_weights_or_as_the_file_says(tmp_path: Path) -> None:
    systems = {"mix": MIX, "mix-continued": MORE, "ad": AD}
    entries: dict[str, Any] = {
        **{"base": {"system": "mix"}, "more": {"system": "mix-continued"}, "ad": {"system": "ad"}},
        "uniform": {"system": "ad", "domain-source": "uniform"},
    }
    config = config_of(tmp_path, systems, entries)
    assert config.baselines == ["base", "more", "uniform"]
    assert config.plain_outputs == ["base", "more"]
    assert config.pairs["more"] == ["base", "uniform"]
    named = {"compare": ["ad"], "baseline": None, "speed": None}
    assert config_of(tmp_path, systems, entries, evaluate=named).baselines == ["base", "ad"]
    assert dict(config_of(tmp_path, systems, entries, compare={"ad": "more"}).pairs) == {"ad": ("more",)}
    # Variants of the ablation are not in the main tables.
    report = {"ablation": ["more", "ad", "uniform"]}
    assert config_of(tmp_path, systems, entries, evaluate={"report": report}).main == ["base", "more"]
