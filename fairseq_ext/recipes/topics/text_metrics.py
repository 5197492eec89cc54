"""Metrics of generated texts with references: Dist, BLEU, ROUGE-L and METEOR, in percent."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

METEOR = "METEOR (exact and stem)"
METRICS = ("Dist-2", "Dist-3", "BLEU-2", "BLEU-3", METEOR, "ROUGE-L")


class NoSynonyms:
    """Replaces WordNet in METEOR: without synonyms, words match exactly or by stem."""

    def synsets(self, word: str) -> list[Any]:
        return []


def text_metrics(texts: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """All of :data:`METRICS` of texts, each with its reference."""
    return {
        **{f"Dist-{n}": distinct_share(texts, n) for n in (2, 3)},
        **{f"BLEU-{n}": bleu(texts, references, n) for n in (2, 3)},
        METEOR: meteor(texts, references),
        "ROUGE-L": rouge_l(texts, references),
    }


def distinct_share(texts: Sequence[str], n: int) -> float:
    """Dist-n (Li et al., 2016): the share of distinct word n-grams in all texts; 0 if there are none."""
    grams = [gram for text in texts for gram in _grams(words_of(text), n)]
    return 100 * len(set(grams)) / len(grams) if grams else 0.0


def bleu(texts: Sequence[str], references: Sequence[str], n: int) -> float:
    """BLEU of the whole corpus with n-grams up to this length."""
    # Forced, it does not warn of text whose punctuation marks stand apart; it computes the same.
    return float(BLEU(max_ngram_order=n, force=True).corpus_score(list(texts), [list(references)]).score)


def rouge_l(texts: Sequence[str], references: Sequence[str]) -> float:
    """The mean F of ROUGE-L."""
    from rouge_score.rouge_scorer import RougeScorer  # slow to import, as is METEOR's

    scorer = RougeScorer(["rougeL"], use_stemmer=True)
    scores = (scorer.score(reference, text) for text, reference in zip(texts, references, strict=True))
    return 100 * statistics.fmean(score["rougeL"].fmeasure for score in scores)


def meteor(texts: Sequence[str], references: Sequence[str]) -> float:
    """The mean of METEOR with exact and stem matches."""
    from nltk.translate.meteor_score import meteor_score

    pairs = zip(texts, references, strict=True)
    scores = (meteor_score([words_of(ref)], words_of(text), wordnet=NoSynonyms()) for text, ref in pairs)
    return 100 * statistics.fmean(scores)


_tokenize = Tokenizer13a()


def words_of(text: str) -> list[str]:
    """Lower-case words and punctuation marks, tokenised as for BLEU."""
    return str(_tokenize(text)).lower().split()


def _grams(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(words[start : start + n]) for start in range(len(words) - n + 1)]
