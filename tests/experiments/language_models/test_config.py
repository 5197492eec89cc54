"""What all files of experiments with language models have: sections are checked, and mistakes are named."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairseq_ext.experiments.hierarchy.config import load_config as load_hierarchy
from fairseq_ext.experiments.language_models.config import LanguageModelExperiment
from fairseq_ext.experiments.topics.config import load_config as load_topics
from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.language_models import Subwords
from fairseq_ext.text.line_split import LanguageModelSplit
from tests.experiments.small_lm_experiment import write_lm_experiment
from tests.experiments.topics.small_topic_experiment import write_topic_experiment

Load = Callable[[Path], LanguageModelExperiment]
SYSTEMS = {"base": {"train-domains": "law"}, "tuned": {"from": "base", "train-domains": "news"}}

of_any_kind = pytest.mark.parametrize("load", [load_hierarchy, load_topics], ids=["hierarchy", "topics"])


def write_config(path: Path, /, **changes: Any) -> Path:
    settings = {"work_dir": "work", "corpora": {"folder": "text"}, "train": {"systems": SYSTEMS}}
    path.write_text(yaml.safe_dump({**settings, **changes}), encoding="utf-8")
    return path


@of_any_kind
def test_defaults(tmp_path: Path, load: Load) -> None:
    config = load(write_config(tmp_path / "c.yaml"))
    assert config.path == tmp_path / "c.yaml"
    assert config.work_dir == Path("work")
    assert (config.corpora.unseen, config.corpora.on_bad_utf8) == (None, "fail")
    assert config.split == LanguageModelSplit()
    assert config.subwords == Subwords()


def test_folder_and_work_dir_are_enough_to_prepare_data(tmp_path: Path) -> None:
    assert load_hierarchy(write_config(tmp_path / "c.yaml", train={})).systems == {}


@of_any_kind
def test_sections_are_read(tmp_path: Path, load: Load) -> None:
    subwords = {"vocab_size": 800, "character_coverage": 0.999, "gpt2": "models/gpt2"}
    config = load(write_config(tmp_path / "c.yaml", split={"valid": 3, "test": 4, "stretch": 2}, subwords=subwords))
    assert config.split == LanguageModelSplit(valid=3, test=4, stretch=2)
    assert config.subwords == Subwords(vocab_size=800, character_coverage=0.999, gpt2=Path("models/gpt2"))


@of_any_kind
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source_lang": "en"}, r"c\.yaml: unknown key 'source_lang'; allowed are corpora,"),
        ({"path": "x"}, r"unknown key 'path'"),
        ({"corpora": {}}, r"corpora: folder"),
        ({"corpora": {"folder": "a", "unseen": "a"}}, r"corpora: unseen"),
        ({"corpora": {"folder": "a", "on_bad_utf8": "pray"}}, r"corpora: on_bad_utf8"),
        ({"split": {"stretch": 0}}, r"split: stretch"),
        ({"split": {"max_words": 3}}, r"split: .*'max_words'"),
        ({"subwords": {"reuse": "a"}}, r"subwords: .*'reuse'"),
        ({"subwords": {"character_coverage": 2}}, r"subwords: character_coverage"),
        ({"seed": -1}, r"seed: -1 is out of range"),
        ({"train": None}, r"train: expected keys and values, got None"),
        ({"train": {"system": {}}}, r"train: unknown key 'system'; allowed are common, systems"),
        ({"train": {"systems": {"x": {"tokens-per-sample": 0.5}}}}, r"x: tokens-per-sample: expected a whole number"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, load: Load, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(write_config(tmp_path / "c.yaml", **changes))


@pytest.mark.slow
@pytest.mark.parametrize("write", [write_lm_experiment, write_topic_experiment], ids=["hierarchy", "topics"])
def test_a_plan_needs_no_torch(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    """It takes seconds to import, and a plan is made a fraction of one; a process of its own reads the options."""
    unread = "from fairseq_ext.engine import fairseq_options as f; f.first_mistake_in = lambda commands: None"
    plan = f"{unread}; from fairseq_ext.experiments import run; run.main([{str(write(tmp_path))!r}, '--dry-run'])"
    check = "import sys; sys.exit(', '.join({'torch', 'fairseq'} & sys.modules.keys()) or 0)"
    result = subprocess.run([sys.executable, "-c", f"{plan}; {check}"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
