"""What a directory was made from is told again in one line."""

from __future__ import annotations

from typing import Any

import pytest

from fairseq_ext.engine.provenance import Provenance, changes


def provenance(inputs: tuple[str, ...] = (), **options: Any) -> Provenance:
    return Provenance(options, inputs)


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        ({"system": {"lr": 0.1}}, {"system": {"lr": 0.2}}, "system: lr was 0.1, is 0.2"),
        ({"system": {"a": 1}}, {"system": {"a": 1, "fp16": True}}, "system: fp16 was not given, is true"),
        ({"a": None}, {}, "a was null, is not given"),
        ({"extra": []}, {"extra": ["--lr", "1"]}, 'command line was "", is "--lr 1"'),
        ({"langs": ("en", "pl")}, {"langs": ["en", "pl"]}, ""),
        (
            dict.fromkeys("abcde", 1),
            dict.fromkeys("abcde", 2),
            "a was 1, is 2; b was 1, is 2; c was 1, is 2; 2 more changes",
        ),
    ],
)
def test_changed_options_are_named_with_both_values(before: dict, now: dict, words: str) -> None:
    assert changes(provenance(**before), provenance(**now), []) == words


def test_changed_inputs_are_named() -> None:
    assert (
        changes(provenance(("x", "y"), a=1), provenance(("x", "z"), a=1), ["one", "two"]) == "its input two has changed"
    )
    assert changes(provenance(("x",)), provenance(("x", "z")), ["one", "two"]) == "the number of its inputs has changed"
