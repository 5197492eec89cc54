"""Write damaged placeholders of a translation again, where it is clear which is which.

Models translate the names of placeholders and lose their ends: ``%(nome)`` for ``%(name)s``, ``%`` for ``%s``. To write
such a placeholder as in the source keeps the rest of the translation, and is much cheaper than another search.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np

from fairseq_ext.serve.runtime.search import Hypothesis
from fairseq_ext.serve.runtime.vocabulary import Text

# What is left of a placeholder: %(nome)s, %(nome, {nome}, ${nome, %. At the end of a part, its letter may stand apart.
_DAMAGED = r"%\(\w*+(?:\)(?:[a-z]\b| [sd](?=[.,;:!?]|$))?)?|[%$]?\{\w*+\}?|[%$]\w*+"
_MOST = 4  # damaged placeholders of a sentence; all their orders are compared


def mended(hypothesis: Hypothesis, kept: Mapping[str, int], text: Text) -> Hypothesis:
    """Return a hypothesis with placeholders of the source in the place of damaged ones, or as it is if that is unclear.

    It keeps its score. Gates and attention of a new token are those of the token whose place it takes.

    Args:
        kept: placeholders of the source, with their counts.
    """
    target = text.decode(hypothesis.tokens)
    result, origin, end = "", [], 0  # of each character of the result, its place in the target
    for begin, stop, placeholder in _placed(kept, target):
        result += target[end:begin] + placeholder
        origin += [*range(end, begin), *[begin] * len(placeholder)]
        end = stop
    result, origin = result + target[end:], [*origin, *range(end, len(target))]
    tokens = text.encode_exactly(result) if end else []
    if not tokens:
        return hypothesis
    old, new = ([end for _, end in text.spans(each)] for each in (hypothesis.tokens, tokens))
    begins = [origin[begin] for begin in (0, *new[:-1])]
    places = [*np.searchsorted(old, begins, side="right"), len(old) - 1]
    traces = {
        name: steps[places] for name in ("gates", "attention") if (steps := getattr(hypothesis, name)) is not None
    }
    return replace(hypothesis, tokens=np.array([*tokens, hypothesis.tokens[-1]]), **traces)


def _placed(kept: Mapping[str, int], target: str) -> list[tuple[int, int, str]]:
    """Return the spans of damaged placeholders, each with the placeholder to write there; empty if that is unclear."""
    pattern = "|".join([*map(re.escape, sorted(kept, key=len, reverse=True)), _DAMAGED])
    left: Counter[str] = Counter(kept)
    spans: list[tuple[int, int]] = []
    for found in re.finditer(pattern, target):
        if left[found[0]]:
            left[found[0]] -= 1
        else:
            spans.append(found.span())
    missing = list(left.elements())
    if len(spans) > len(missing):  # what is left of one placeholder may look like two
        spans = _joined(spans)
    words = re.sub(pattern, "", target)
    if len(spans) != len(missing) or len(spans) > _MOST or words.count("(") != words.count(")"):
        return []
    places = [target[begin:end] for begin, end in spans]
    scores = {order: sum(map(_num_alike, places, order)) for order in {*permutations(missing)}}
    best, *others = sorted(scores, key=scores.__getitem__, reverse=True)
    if others and scores[others[0]] == scores[best]:
        return []
    return [(*span, placeholder) for span, placeholder in zip(spans, best, strict=True)]


def _joined(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join spans that touch each other."""
    joined = list(spans[:1])
    for begin, end in spans[1:]:
        joined[-1:] = [(joined[-1][0], end)] if begin == joined[-1][1] else [joined[-1], (begin, end)]
    return joined


def _num_alike(*placeholders: str) -> int:
    """Return how many letters the names of placeholders begin with alike."""
    return len(os.path.commonprefix([re.sub(r"\W", "", each) for each in placeholders]))
