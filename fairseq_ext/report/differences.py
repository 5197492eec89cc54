"""Which words of a text another one does not have, in order, so that a reader sees where two translations part."""

from __future__ import annotations

from difflib import SequenceMatcher


def changed_words(before: str, after: str) -> list[tuple[str, bool]]:
    """The second text in pieces, and whether each is other than in the first; pieces are words that blanks part."""
    words = after.split()
    matcher = SequenceMatcher(None, before.split(), words, autojunk=False)
    pieces = [
        (" ".join(words[start:end]), kind != "equal") for kind, _, _, start, end in matcher.get_opcodes() if end > start
    ]
    return pieces or [(after, False)]
