"""Which lines are continued."""

from __future__ import annotations

import pytest

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.recipes.topics.continuations import choose_prompts


def test_prompts_are_the_first_words_of_long_lines() -> None:
    lines = ["a b c", "a b c d e", "x y", "k l m n", "o p q r"]
    assert choose_prompts(lines, 2, 2, "x") == [("a b", "c d e"), ("k l", "m n")]
    with pytest.raises(InputError, match=r"test\.txt: "):
        choose_prompts(["a b c"], 4, 3, "test.txt")
