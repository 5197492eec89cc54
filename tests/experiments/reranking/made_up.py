"""N-best lists made up by a seed, with references that they resemble."""

import numpy as np

from fairseq_ext.experiments.metrics.corpus_metrics import bleu_metric
from fairseq_ext.experiments.reranking.choices import count_hypotheses
from fairseq_ext.experiments.reranking.nbest import NBest

WORDS = [f"w{number}" for number in range(12)]


def make_list(seed: int, sentences: int = 12, most: int = 6, features: int = 3) -> tuple[NBest, list[str], np.ndarray]:
    """A list, references and counts; hypotheses are references with some words exchanged, and lists of any length."""
    generator = np.random.default_rng(seed)
    names = ["model", *(f"f{number}" for number in range(1, features))]

    def worse(words: list[str]) -> tuple[str, list[float]]:
        kept = [word if generator.random() < 0.7 else str(generator.choice(WORDS)) for word in words]
        text = " ".join(kept[: generator.integers(3, len(kept) + 1)])
        # Few different values, so that there are equal lines and common crossings.
        return text, [float(generator.integers(-4, 5)) / 2 for _ in names]

    references, listed = [], []
    for _ in range(sentences):
        reference = list(generator.choice(WORDS, size=generator.integers(4, 9)))
        references.append(" ".join(reference))
        listed.append([worse(reference) for _ in range(generator.integers(1, most + 1))])
    columns = np.array([row for hypotheses in listed for _, row in hypotheses]).T
    nbest = NBest.of(
        [[text for text, _ in hypotheses] for hypotheses in listed], dict(zip(names, columns, strict=True))
    )
    return nbest, references, count_hypotheses(bleu_metric("13a"), nbest, references)


def as_printed(nbest: NBest) -> str:
    """A made-up list as fairseq-generate prints it, with the first two features as scores."""
    lines = []
    for number, (texts, rows) in enumerate(zip(nbest.texts, nbest.features.tolist(), strict=True)):
        for text, (score, total, *_) in zip(texts, rows, strict=False):
            lines.append(f"H-{number}\t{score}\t{text}\nD-{number}\t{score}\t{text}\nP-{number}\t{total}\n")
    return "".join(lines)
