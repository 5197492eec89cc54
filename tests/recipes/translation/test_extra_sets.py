"""The user's own test sets: who translates them, which domain that is told, and their columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.translation import extra_sets
from fairseq_ext.recipes.translation.config import Translation, load_config
from fairseq_ext.recipes.translation.extra_sets import draw_pairs, extra_set_steps
from tests.recipes.translation.small_translation_experiment import write_translation_experiment
from tests.verbs import verb


@pytest.fixture
def config(tmp_path: Path) -> Translation:
    """mix, ft, tag, ad and gad, with the sets FORUM, of no domain, PLANTS, of the garden, and NEWS, out of domain."""
    return load_config(write_translation_experiment(tmp_path))


def test_an_unknown_domain_is_named_before_anything_is_trained(tmp_path: Path) -> None:
    path = write_translation_experiment(tmp_path, tests={"MINE": {"corpus": "m.{lang}", "domain": "medicine"}})
    with pytest.raises(InputError, match="evaluate: tests: MINE: domain: 'medicine' is unknown"):
        verb("run")([str(path)])


def test_only_who_needs_it_is_told_the_domain(
    config: Translation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, list[str]] = {}

    def interactive(tool: str, arguments: list[str], **_: Any) -> None:
        path = Path(arguments[arguments.index("--input") + 1])
        given[path.parent.name] = path.read_text(encoding="utf-8").splitlines()

    monkeypatch.setattr(extra_sets, "run_fairseq", interactive)
    monkeypatch.setattr(extra_sets, "write_hypotheses", lambda *_: None)
    monkeypatch.setattr(extra_sets, "with_guessed_domains", lambda lines, _: [f"<guessed> {line}" for line in lines])
    sets, *steps = extra_set_steps(config)
    for step in (sets, *steps):
        folder = sets.output if step is sets else tmp_path / step.output.name
        folder.mkdir(parents=True)
        step.build(folder)
    news = ["show the red tree", "open the old account", 'find "the" seed']
    forum, plants = ["close the blue loan", "show the green bed"], ["find the old root", "change the red rate"]
    plain, guessed = [*news, *forum, *plants], [f"<guessed> {line}" for line in (*news, *forum, *plants)]
    expected = dict.fromkeys(("mix", "mix-continued", "ad-uniform@1", "ad-uniform@2", "gad"), plain)
    expected |= dict.fromkeys(("tag-classifier", "ad-classifier@1", "ad-classifier@2"), guessed)
    # PLANTS is of the garden, the others of none; a model of a domain is not told.
    assert given == {
        **expected,
        "ft@garden": plants,
        "tag-oracle": [f"<domain:garden> {line}" for line in plants],
    }


DOMAINS = ["law", "med"]


@pytest.fixture
def splits(tmp_path: Path) -> Path:
    folder = tmp_path / "splits"
    for name in DOMAINS:
        (folder / name).mkdir(parents=True)
        for lang in ("en", "de"):
            lines = [" ".join([f"{name}{lang}{number}"] * (number + 1)) for number in range(10)]
            (folder / name / f"test.{lang}").write_text("\n".join(lines) + "\n")
    (folder / "domains.txt").write_text("law\nmed\n")
    return folder


def test_two_domains_both_sides_and_short_enough(splits: Path) -> None:
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


def test_more_than_there_are_is_refused(splits: Path) -> None:
    with pytest.raises(InputError, match="domain_switch: the test sets give 2 pairs .* fewer than 5"):
        draw_pairs(splits, ("en", "de"), 5, 8, seed=1)
