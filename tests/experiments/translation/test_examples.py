"""Sentences to read side by side: which ones, and which words of them are marked."""

import numpy as np
import pytest
from markdown_it import MarkdownIt

from fairseq_ext.experiments.translation.examples import (
    Example,
    Translated,
    examples_of,
    mark_differences,
    shares_of,
)
from fairseq_ext.experiments.translation.set_scores import TestSets as Sets


def sets(**sizes: int) -> Sets:
    lines = {name: [f"{name} {row}" for row in range(size)] for name, size in sizes.items()}
    return Sets(list(sizes), lines, lines, {}, sizes, None)


def translated(word: str, scores: dict[str, list[float]]) -> Translated:
    """Translations that begin with a word, and the scores of sentences."""
    texts = {name: [f"{word} {name} {row}" for row in range(len(values))] for name, values in scores.items()}
    return Translated(texts, {name: np.array(values) for name, values in scores.items()})


def test_domains_have_equal_shares_and_the_differences_are_evenly_spaced() -> None:
    generator = np.random.default_rng(1)
    scores = {name: generator.permutation(100).astype(float) for name in ("law", "med")}
    run = translated("b", {name: values.tolist() for name, values in scores.items()})
    found = list(
        examples_of("gad", run, translated("a", {name: [50.0] * 100 for name in scores}), sets(law=100, med=100))
    )
    # The ten of a domain are every tenth by difference; the other domain has those between them.
    by_domain = {name: [each.difference for each in found if each.domain == name] for name in scores}
    assert by_domain == {"law": list(range(42, -49, -10)), "med": list(range(47, -44, -10))}
    assert [each.difference for each in found] == sorted((each.difference for each in found), reverse=True)
    for each in found:
        row = int(np.flatnonzero(scores[each.domain] == each.difference + 50)[0])
        name = f"{each.domain} {row}"
        assert each == Example("gad", each.domain, name, name, f"a {name}", f"b {name}", each.difference)


def test_equal_translations_are_left_out_and_few_are_shown_once() -> None:
    base = translated("a", {"law": [50, 50, 50], "med": [50]})
    run = translated("b", {"law": [60, 40, 50], "med": [50]})
    same = Translated(
        {**run.texts, "law": [*run.texts["law"][:2], base.texts["law"][2]], "med": base.texts["med"]}, run.scores
    )
    tests = sets(law=3, med=1)
    assert [each.difference for each in examples_of("gad", same, base, tests)] == [10, -10]
    assert list(examples_of("gad", base, base, tests)) == []
    assert {record.metric: (record.value, record.n) for record in shares_of("gad", same, base)} == {
        "sentences better than the base's": (1, 4),
        "sentences worse than the base's": (1, 4),
    }


@pytest.mark.parametrize(
    ("lang", "one", "other", "marked"),
    [
        ("de", "das ist gut", "das war gut", ("das **ist** gut", "das **war** gut")),
        ("de", "das gut", "das ist (sehr) gut", ("das gut", "das **ist (sehr)** gut")),
        ("de", "a*b. c", "a*b c", ("**a\\*b.** c", "**a\\*b** c")),
        ("de", "gut", "", ("**gut**", "")),
        ("zh", "我们走。好", "我们跑。好", ("我们**走**。好", "我们**跑**。好")),
        ("zh", "好。", "好", ("**好**。", "**好**")),
    ],
)
def test_differing_words_are_marked(lang: str, one: str, other: str, marked: tuple[str, str]) -> None:
    assert mark_differences(one, other, lang) == marked
    for text in marked:
        assert "*" not in MarkdownIt().render(text).replace("a*b", "")
