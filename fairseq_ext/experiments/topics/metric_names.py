"""Names of files and metrics of the topics recipe."""

from __future__ import annotations

from pathlib import Path

from fairseq_ext.experiments.config import Run
from fairseq_ext.experiments.topics.config import Topics

SAMPLES_FILE = "samples.json"
PERPLEXITY = "perplexity"
TOPIC_0 = {"topic": 0}  # dimension of perplexities of topic 0 alone
ENTROPY, DEAD = "entropy", "dead topics"
BASE_TEXT = "base text"  # all domains of the base: perplexity of their mean loss
METEOR = "METEOR (exact and stem)"
TEXT_METRICS = ("Dist-2", "Dist-3", "BLEU-2", "BLEU-3", METEOR, "ROUGE-L")
COHERENCE = "coherence"  # dimensions: ``words``, how they are found, and ``top``, the number of words
NEAR, USED = "near", "used"  # methods of finding the words of topics


def topics_file(config: Topics, run: Run) -> Path:
    """Return the file of the topics of a run."""
    return config.work_dir / "topics" / run.name / "topics.json"
