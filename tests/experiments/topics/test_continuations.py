"""Which lines are written on, and that prompts stay apart."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from fairseq_ext.experiments.topics.continuations import Prompt, choose_prompts, only_topic
from fairseq_ext.inputs.errors import InputError


def test_prompts_are_the_first_words_of_long_lines() -> None:
    lines = ["a b c", "a b c d e", "x y", "k l m n", "o p q r"]
    assert choose_prompts(lines, 2, 2, "x") == [Prompt("a b", "c d e"), Prompt("k l", "m n")]


def test_no_line_to_write_on_is_an_error() -> None:
    with pytest.raises(InputError, match="test.txt: no line has 8 words; lower topics: prompt_words"):
        choose_prompts(["a b c"], 4, 3, "test.txt")


def test_a_topic_is_forced_for_a_time() -> None:
    model = SimpleNamespace(decoder=SimpleNamespace(forced_topic=None))
    with only_topic(model, 3), only_topic(model, 0):
        assert model.decoder.forced_topic == 0
    assert model.decoder.forced_topic is None
