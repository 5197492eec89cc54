"""The user's own test sets: who translates them, which domain that is told, and their columns."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fairseq_ext.base.errors import InputError
from fairseq_ext.experiments.train import best_checkpoint
from fairseq_ext.experiments.translation import extra_sets
from fairseq_ext.experiments.translation.config import load_config
from fairseq_ext.experiments.translation.decoding import translation_step
from fairseq_ext.experiments.translation.extra_sets import draw_pairs, extra_set_steps, sets_for, with_guessed_domains
from fairseq_ext.text.text_files import write_lines
from tests.experiments.translation.small_translation_experiment import write_translation_experiment
from tests.verbs import verb


def test_sources_are_tagged_only_for_systems_that_need_the_domain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, list[str]] = {}

    def translate_file(folder: Path, source: Path, *_: Any) -> None:
        given[folder.name] = source.read_text(encoding="utf-8").splitlines()

    monkeypatch.setattr(extra_sets, "translate_file", translate_file)
    monkeypatch.setattr(
        extra_sets, "with_guessed_domains", lambda lines, *_, **__: [f"<guessed> {line}" for line in lines]
    )
    for step in extra_set_steps(load_config(write_translation_experiment(tmp_path))):
        step.output.mkdir(parents=True)
        step.build(step.output)
    news = ["show the red tree", "open the old account", 'find "the" seed']
    forum, plants = ["close the blue loan", "show the green bed"], ["find the old root", "change the red rate"]
    plain, guessed = [*news, *forum, *plants], [f"<guessed> {line}" for line in (*news, *forum, *plants)]
    expected = dict.fromkeys(("mix", "mix-continued", "ad-uniform@1", "ad-uniform@2", "gad"), plain)
    expected |= dict.fromkeys(("tag-classifier", "ad-classifier@1", "ad-classifier@2"), guessed)
    # PLANTS is of the garden, the others of none; a model of a domain is not told.
    expected |= {"ft@garden": plants, "tag-oracle": [f"<domain:garden> {line}" for line in plants]}
    assert given == expected


def test_models_of_one_domain_translate_all_sets_with_forgetting(tmp_path: Path) -> None:
    for forgetting, own, further in ((False, "garden", ["PLANTS"]), (True, None, ["NEWS", "FORUM", "PLANTS"])):
        config = load_config(write_translation_experiment(tmp_path / str(forgetting), forgetting=forgetting))
        [run] = config.output_runs("ft@garden")
        assert translation_step(config, run).options.get("domain") == own
        assert sets_for(config, run) == further
        [told] = config.output_runs("tag-oracle")
        assert sets_for(config, told) == ["PLANTS"]


@pytest.fixture
def splits(tmp_path: Path) -> Path:
    for name in ("law", "med"):
        for lang in ("en", "de"):
            lines = [" ".join([f"{name}{lang}{number}"] * (number + 1)) for number in range(10)]
            write_lines(tmp_path / name / f"test.{lang}", lines)
    write_lines(tmp_path / "domains.txt", ["law", "med"])
    return tmp_path


def test_systems_with_tags_have_no_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The most probable class is base for the first line, and law is unlikely, but the likeliest, for the second."""
    probs = np.array([[0.1, 0.3, 0.6], [0.4, 0.3, 0.3]])
    monkeypatch.setattr(extra_sets, "load_classifier", lambda *_: SimpleNamespace(predict=lambda _: probs))
    monkeypatch.setattr(extra_sets, "read_teacher_record", lambda _: {"backend": "tfidf"})
    monkeypatch.setattr(extra_sets, "classes_of", lambda _: ["law", "med", "base"])
    guess = partial(with_guessed_domains, ["a", "b"], tmp_path)
    assert guess() == ["<domain:base> a", "<domain:law> b"]
    assert guess(0.5) == ["<domain:base> a", "<domain:base> b"]
    assert guess(may_be_base=False) == ["<domain:med> a", "<domain:law> b"]


def test_domain_switch_pairs(splits: Path) -> None:
    pairs = draw_pairs(splits, ("en", "de"), 20, 12, seed=1)
    assert len(set(pairs)) == 20
    ends = set()
    for pair in pairs:
        source, target = (text.split() for text in pair)
        assert len(source) <= 12
        ends.add((source[0][:3], source[-1][:3]))
        assert [word.replace("en", "de") for word in source] == target
    assert ends == {("law", "med"), ("med", "law")}
    assert draw_pairs(splits, ("en", "de"), 20, 12, seed=1) == pairs != draw_pairs(splits, ("en", "de"), 20, 12, seed=2)
    with pytest.raises(InputError, match="domain_switch: the test sets give 2 pairs .* fewer than 5"):
        draw_pairs(splits, ("en", "de"), 5, 8, seed=1)


def test_decode_plans_sets_for_trained_systems_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_translation_experiment(tmp_path)
    checkpoint = best_checkpoint(load_config(path), "mix")
    for folder in ("data-bin", "splits"):
        (checkpoint.parents[2] / folder).mkdir(parents=True)
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()

    def planned(*options: str) -> list[str]:
        verb("decode")([str(path), "--dry-run", *options])
        places = [line.split()[1] for line in capsys.readouterr().out.splitlines()]
        return ["/".join(Path(place).parts[-2:]) for place in places]

    assert planned() == ["translations/mix", "work/extra-sets", "extra/mix"]
    assert planned("--beam", "2") == ["translations/mix"]
