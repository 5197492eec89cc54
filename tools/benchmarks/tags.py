"""Measure how accurately tags and placeholders are kept, and the cost in chrF.

Tags are put around randomly chosen words; placeholders are those in the text, and in addition, those of all families at
random places.
"""

from __future__ import annotations

import random
import re
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

_TAG = re.compile(r"</?[gx][^>]*>")


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("system", type=Path, help="exported system")
    parser.add_argument("text", type=Path, help="file of sentences, one per line")
    parser.add_argument("references", type=Path, help="file of reference translations")
    parser.add_argument("--sentences", type=int, default=500, help="sentences to draw from the text, of each kind")
    parser.add_argument("--made-up", type=int, default=2000, help="texts with placeholders at random places")
    parser.add_argument("--precision", default="float32", choices=("float32", "int8"), help="precision of the system")


def measure(options: Namespace) -> dict[str, Any]:
    from fairseq_ext.serve.runtime.translator import SystemTranslator
    from fairseq_ext.text.placeholders import count

    translator, rng = SystemTranslator.load(options.system, decoding_precision=options.precision), random.Random(1)
    lines, references = (path.read_text(encoding="utf-8").splitlines() for path in (options.text, options.references))
    pairs = [pair for pair in zip(lines, references, strict=True) if not set("<>&") & set(pair[0])]
    tagged = rng.sample([pair for pair in pairs if len(pair[0].split()) > 3], options.sentences)
    own = [pair for pair in pairs if count(pair[0])][: options.sentences]
    return {
        "tags": _figures(translator, [_tagged(line, rng) for line, _ in tagged], [other for _, other in tagged]),
        "placeholders": _figures(translator, [line for line, _ in own], [other for _, other in own]),
        "made_up": _made_up(translator, [line for line, _ in pairs], rng, options.made_up),
    }


def _made_up(translator: Any, lines: Sequence[str], rng: random.Random, number: int) -> dict[str, int]:
    """Return how many texts with one to three placeholders of one family keep them, and how."""
    from fairseq_ext.serve.runtime.requests import IN_PARTS, UNTRANSLATED, Request
    from fairseq_ext.text.placeholders import DIALECTS, NONE, count, families, keeps

    texts = [line for line in lines if "%" not in line and "|" not in line and not count(line)]
    requests = []
    for _ in range(number):
        dialect = rng.choice([each for each in DIALECTS if each != NONE])
        examples = rng.choice([family.examples for family in families(dialect)])
        words = rng.choice(texts).split()
        for example in rng.choices(examples, k=rng.randint(1, 3)):
            words.insert(rng.randint(0, len(words)), example)
        requests.append(Request(" ".join(words), dialect=dialect))
    answers = translator.translate(requests, with_gates=False)
    return {
        "texts": number,
        "kept": sum(
            keeps(request.text, answer.candidates[0].text, request.dialect)
            for request, answer in zip(requests, answers, strict=True)
        ),
        **{note: sum(note in answer.notes for answer in answers) for note in (IN_PARTS, UNTRANSLATED)},
    }


def _tagged(line: str, rng: random.Random) -> str:
    """Return the line with two pairs of tags, nested or consecutive, and a standalone tag."""
    words = line.split()
    first, second, third, fourth = sorted(rng.choices(range(len(words) + 1), k=4))
    pairs = rng.choice([[(first, fourth), (second, third)], [(first, second), (third, fourth)]])
    inserted: list[list[str]] = [[] for _ in range(len(words) + 1)]
    for number, (begin, end) in enumerate(pairs):
        if begin < end:
            inserted[begin].append(f'<g id="{number}">')
            inserted[end].insert(0, "</g>")
    inserted[rng.randrange(len(words) + 1)].append('<x id="2"/> ')
    before = ["".join(tag for tag in own if tag != "</g>") for own in inserted]
    after = ["".join(tag for tag in own if tag == "</g>") for own in inserted[1:]]
    return " ".join(map("".join, zip(before, words, after, strict=False)))


def _figures(translator: Any, lines: Sequence[str], references: Sequence[str]) -> dict[str, Any]:
    import sacrebleu

    from fairseq_ext.serve.runtime.requests import Request
    from fairseq_ext.text.placeholders import ANY, NONE

    def chrf(texts: Sequence[str]) -> float:
        texts = [" ".join(_TAG.sub("", text).split()) for text in texts]
        return round(sacrebleu.corpus_chrf(texts, [references]).score, 2)

    def translated(texts: Sequence[Sequence[str]], dialect: str = ANY) -> list[list[str]]:
        requests = [Request(text, dialect=dialect) for own in texts for text in own]
        answers = iter(translator.translate(requests, with_gates=False))
        return [[next(answers).candidates[0].text for _ in own] for own in texts]

    found = [text for [text] in translated([[line] for line in lines])]
    cut_up = [list(_cut_up(line)) for line in lines]
    texts = translated([[part for part, is_text in parts if is_text] for parts in cut_up])
    between = [
        "".join(next(left) if is_text else part for part, is_text in parts)
        for parts, left in zip(cut_up, map(iter, texts), strict=True)
    ]
    plain = [text for [text] in translated([[" ".join(_TAG.sub("", line).split())] for line in lines], NONE)]
    return {
        "sentences": len(lines),
        "kept": sum(map(_is_kept, lines, found)),
        "kept_if_plain": sum(map(_is_kept, [_TAG.sub("", line) for line in lines], plain)),
        "chrf": chrf(found),
        "chrf_by_words_between": chrf(between),
        "chrf_if_plain": chrf(plain),
    }


def _cut_up(line: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts between marks, which are translated separately."""
    from fairseq_ext.serve.runtime.tags import PLAIN, cut
    from fairseq_ext.text.placeholders import parts

    for outer, is_outside in cut(PLAIN.markup, line):
        for number, part in enumerate(parts(outer) if is_outside else ["", outer]):
            has_words = number % 2 == 0 and any(map(str.isalpha, part))
            yield from [(" ", False), (part, True), (" ", False)] if has_words else [(part, False)]


def _is_kept(source: str, found: str) -> bool:
    """Return whether each mark occurs as often as in the source, and tags are nested."""
    from fairseq_ext.text.placeholders import keeps

    tags, depth = [Counter(_TAG.findall(text)) for text in (source, found)], 0
    for tag in _TAG.findall(found):
        depth += {"<g": 1, "</": -1}.get(tag[:2], 0)
        if depth < 0:
            return False
    return tags[0] == tags[1] and keeps(source, found) and not depth
