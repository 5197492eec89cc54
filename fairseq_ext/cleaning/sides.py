"""Are both sides of a corpus in their languages? Seen before anything is trained on swapped or copied files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairseq_ext.cleaning.language_id import load_classifier
from fairseq_ext.corpora.languages import base_language
from fairseq_ext.corpora.text_files import Pair
from fairseq_ext.inputs.errors import InputError

SAMPLE = 1000  # pairs that are looked at
_LEAST = 50  # pairs of which something can be said
_LEAST_CHARACTERS = 20
_MOST = 0.7  # share of a side that is in the other side's language, or like the other side


def check_sides(pairs: Sequence[Pair], langs: tuple[str, str], where: str) -> None:
    """Check that source and target are not exchanged, and not both in the same language.

    Nothing is said of few or short pairs, and of languages that py3langid does not know. ``where`` names the corpus.
    """
    source, target = map(base_language, langs)
    long = [pair for pair in pairs if min(map(len, pair)) >= _LEAST_CHARACTERS]
    if len(long) < _LEAST or source == target:
        return
    translated = [pair for pair in long if pair[0] != pair[1]]
    if len(translated) < (1 - _MOST) * len(long):
        raise InputError(f"{where}: the {source} side and the {target} side are the same text; give translations")
    if len(translated) < _LEAST:
        return
    try:
        classifier = load_classifier("py3langid", tuple(sorted({source, target})))
    except InputError:
        return
    column = classifier.langs.index(target)
    sides = [np.mean(classifier.probabilities([pair[side] for pair in translated])[:, column] > 0.5) for side in (0, 1)]
    is_target = [share > _MOST for share in sides]
    is_source = [share < 1 - _MOST for share in sides]
    if is_target[0] and is_source[1]:
        raise InputError(
            f"{where}: the {source} side is in {target} and the {target} side in {source}; exchange the files' names"
        )
    if is_target[0] or is_source[1]:
        side, lang = ("source", target) if is_target[0] else ("target", source)
        raise InputError(f"{where}: the {side} side is in {lang}, like the other one; give translations")
