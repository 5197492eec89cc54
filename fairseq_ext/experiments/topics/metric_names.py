"""Names of files and metrics of the topics recipe."""

from __future__ import annotations

SAMPLES_FILE, TOPICS_FILE = "samples.json", "topics.json"
PERPLEXITY, TOPIC_0_PERPLEXITY = "perplexity", "perplexity, topic 0 alone"
ENTROPY, DEAD = "entropy", "dead topics"
BASE_TEXT = "base text"  # all domains of the base: perplexity of their mean loss
METEOR = "METEOR (exact and stem)"
TEXT_METRICS = ("Dist-2", "Dist-3", "BLEU-2", "BLEU-3", METEOR, "ROUGE-L")
NEAR, USED = "near", "used"  # methods of finding the words of topics


def coherence(way: str, top: int) -> str:
    """Return the name of the coherence metric for the first ``top`` words, found by method ``way``."""
    return f"coherence, {way}, N = {top}"
