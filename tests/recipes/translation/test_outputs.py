"""Systems and outputs of an experiment file stand for runs; mistakes in them are named when it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.translation.config import Translation, load_config
from tests.recipes.test_config import SYSTEMS
from tests.small_corpus import write_config, write_corpora

OUTPUTS: dict[str, Any] = {
    "mix": {"system": "mix"},
    "ft": {"system": "ft"},
    "tag-oracle": {"system": "tag", "domain-source": "oracle"},
    "tag-classifier": {"system": "tag", "domain-source": "classifier"},
    "ad": {"system": "ad"},
    "ad-law": {"system": "ad", "domain": "bank"},
    "gad": {"system": "gad", "domain-source": "none", "gates": True},
}


def config_of(root: Path, **changes: Any) -> Translation:
    sections: dict[str, Any] = {
        "train": {"common": {"lr": 0.1}, "systems": SYSTEMS},
        "translate": {"common": {"beam": 5}, "outputs": OUTPUTS},
    }
    return load_config(write_config(root / "c.yaml", write_corpora(root / "corpora"), **{**sections, **changes}))


def test_a_run_starts_from_the_run_of_its_seed(tmp_path: Path) -> None:
    config = config_of(tmp_path)

    def starts(name: str) -> list[str | None]:
        return [start.name if (start := config.start_of(run)) else None for run in config.runs_of(name)]

    assert starts("mix") == [None]
    assert starts("ft") == ["mix", "mix"]
    assert starts("ad") == ["mix", "mix", "mix"]
    assert starts("gad") == ["ad@2", "ad@3"]
    assert starts("gad@3") == ["ad@3"]


def test_domains_are_those_of_the_data_where_the_corpora_are_not(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    assert config.domains == ["bank", "garden"]
    (config.work_dir / "data-bin").mkdir(parents=True)
    (config.work_dir / "data-bin" / "domains.txt").write_text("law\nmed\n")
    assert config.domains == ["law", "med"]
    given = config_of(tmp_path, corpora={"domains": {"z": ["z.{lang}"], "a": ["a.{lang}"]}})
    assert given.domains == ["a", "z"]


@pytest.mark.parametrize(
    "evaluate",
    [
        {"baseline": "best"},
        {"speed": ["mix", "best"]},
        {"report": {"ablation": ["best"]}},
    ],
)
def test_only_outputs_are_evaluated(tmp_path: Path, evaluate: dict) -> None:
    message = r"evaluate: [\w: ]+: no output 'best'; there are mix, ft, tag-oracle"
    with pytest.raises(InputError, match=message):
        config_of(tmp_path, evaluate=evaluate)


def test_mistakes_in_names_of_runs_are_named(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    with pytest.raises(InputError, match="systems: no 'tagg'; there are mix, ft"):
        config.runs_of("tagg")
    with pytest.raises(InputError, match="translate: no output 'tag'; there are mix, ft, tag-oracle"):
        config.output_runs("tag")
    with pytest.raises(InputError, match="outputs: ft: no run 'ft@law'; there are ft@bank, ft@garden"):
        config.output_runs("ft@law")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({}, r"outputs: x: system: is missing"),
        ({"system": "max"}, r"outputs: x: system: no 'max' under train: systems; there are mix, ft, tag, ad, gad"),
        ({"system": "gad", "gates": "no"}, r"outputs: x: gates: "),
    ],
)
def test_mistakes_in_outputs_are_named(tmp_path: Path, entry: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        config_of(tmp_path, translate={"outputs": {"x": entry}})
