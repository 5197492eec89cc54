"""Measure the cost of terms: the share of translations that keep them, and chrF compared with no terms.

A term is a word of a source sentence with a word of its reference: the pair with the highest Dice coefficient in the
training text, as a terminologist might choose it.
"""

from __future__ import annotations

import random
import re
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

_WORD = re.compile(r"[^\W\d_]{4,}")
_LEAST_DICE, _LEAST_PAIRS = 0.3, 5


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("system", type=Path, help="exported system")
    parser.add_argument("text", type=Path, help="file of sentences, one per line")
    parser.add_argument("references", type=Path, help="file of reference translations")
    parser.add_argument("training", type=Path, nargs=2, help="sentences and translations for finding terms")
    parser.add_argument("--sentences", type=int, default=500, help="sentences with a term to draw from the text")
    parser.add_argument("--precision", default="float32", choices=("float32", "int8"), help="precision of the system")
    parser.add_argument("--terms", type=int, nargs="+", default=[1, 2], help="maximum numbers of terms per sentence")


def measure(options: Namespace) -> dict[str, Any]:
    import sacrebleu

    from fairseq_ext.serve.runtime.requests import Request
    from fairseq_ext.serve.runtime.terms import Glossary, Term
    from fairseq_ext.serve.runtime.translator import SystemTranslator

    pairs = list(zip(*(_lines(path) for path in (options.text, options.references)), strict=True))
    pairs = [(pair, found) for pair, found in zip(pairs, _terms(pairs, options.training), strict=True) if found]
    pairs = random.Random(1).sample(pairs, min(options.sentences, len(pairs)))
    references = [reference for (_, reference), _ in pairs]
    translator = SystemTranslator.load(options.system, decoding_precision=options.precision)
    figures: dict[str, Any] = {"sentences": len(pairs)}
    for most in options.terms:
        wanted = [found[:most] for _, found in pairs]
        for name, is_given in (("without", False), ("with", True)):
            requests = [
                Request(source, terms=Glossary(Term(one, (other,)) for one, other in terms) if is_given else None)
                for ((source, _), _), terms in zip(pairs, wanted, strict=True)
            ]
            start = time.process_time()
            texts = [answer.candidates[0].text for answer in translator.translate(requests, with_gates=False)]
            kept = [
                bool(re.search(rf"(?<!\w){re.escape(target)}(?!\w)", text))
                for text, terms in zip(texts, wanted, strict=True)
                for _, target in terms
            ]
            figures[f"{most}, {name}"] = {
                "terms": len(kept),
                "kept": sum(kept),
                "chrf": round(sacrebleu.corpus_chrf(texts, [references]).score, 2),
                "sentences_per_cpu_second": round(len(pairs) / (time.process_time() - start), 1),
            }
    return figures


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _terms(pairs: Sequence[tuple[str, str]], training: Iterable[Path]) -> list[list[tuple[str, str]]]:
    """Return, for each pair, the words that correspond, each once, most certain first."""
    sides: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    both: Counter[tuple[str, str]] = Counter()
    for texts in zip(*map(_lines, training), strict=True):
        words = [set(_WORD.findall(text)) for text in texts]
        for counts, own in zip(sides, words, strict=True):
            counts.update(own)
        both.update((one, other) for one in words[0] for other in words[1])
    dice = {
        pair: 2 * count / (sides[0][pair[0]] + sides[1][pair[1]])
        for pair, count in both.items()
        if count >= _LEAST_PAIRS
    }
    found = []
    for source, reference in pairs:
        asked = [(one, other) for one in set(_WORD.findall(source)) for other in set(_WORD.findall(reference))]
        chosen: dict[str, str] = {}
        for one, other in sorted(asked, key=lambda pair: (-dice.get(pair, 0), pair)):
            is_free = one not in chosen and other not in chosen.values()
            if is_free and one != other and dice.get((one, other), 0) >= _LEAST_DICE:
                chosen[one] = other
        found.append(list(chosen.items()))
    return found
