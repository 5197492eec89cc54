"""N-best lists made up by a seed, with references that they resemble, and a few written by hand."""

import gzip
from pathlib import Path

import numpy as np

from fairseq_ext.metrics.corpus_metrics import bleu_metric
from fairseq_ext.recipes.reranking.evaluation import count_hypotheses
from fairseq_ext.recipes.reranking.nbest import Hypothesis, NBest

WORDS = [f"w{number}" for number in range(12)]

MOSES = """\
0 ||| the house ||| LM0= -3.5 TM0= -1 -2 WordPenalty0= -2 ||| -1.5
0 ||| a house ||| LM0= -4 TM0= -1.5 -0.25 WordPenalty0= -2 ||| -1.75 ||| 0-0 1-1
1 ||| keep out ||| LM0= -2 TM0= 0 -1 WordPenalty0= -2 ||| -0.5
"""
FAIRSEQ = """\
2024-01-01 | INFO | fairseq_cli.generate | loading model
S-1\tzwei
T-1\ttwo
H-1\t-0.5\t▁two
D-1\t-0.5\ttwo
P-1\t-0.4000 -0.6000
S-0\tdas Haus
H-0\t-0.25\t▁the ▁house
D-0\t-0.25\tthe house
P-0\t-0.2500 -0.2500 -0.2500
H-0\t-0.75\t▁house
D-0\t-0.75\thouse
P-0\t-0.5000 -1.0000
Generate test with beam=5: BLEU4 = 1.0
"""


def make_list(seed: int, sentences: int = 12, most: int = 6, features: int = 3) -> tuple[NBest, list[str], np.ndarray]:
    """A list, references and counts; hypotheses are references with some words exchanged, and lists of any length."""
    generator = np.random.default_rng(seed)
    names = ["model", *(f"f{number}" for number in range(1, features))]

    def worse(words: list[str]) -> Hypothesis:
        kept = [word if generator.random() < 0.7 else str(generator.choice(WORDS)) for word in words]
        text = " ".join(kept[: generator.integers(3, len(kept) + 1)])
        # Few different values, so that there are equal lines and common crossings.
        return Hypothesis(text, {name: float(generator.integers(-4, 5)) / 2 for name in names})

    references, listed = [], []
    for _ in range(sentences):
        reference = list(generator.choice(WORDS, size=generator.integers(4, 9)))
        references.append(" ".join(reference))
        listed.append([worse(reference) for _ in range(generator.integers(1, most + 1))])
    nbest = NBest.of(listed)
    return nbest, references, count_hypotheses(bleu_metric("13a"), nbest, references)


def write_list(path: Path, text: str) -> Path:
    """Write a list, compressed if the name says so."""
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def as_moses(nbest: NBest) -> str:
    """A made-up list as Moses would write it, the first feature as its score."""
    lines = []
    for number, (texts, rows) in enumerate(zip(nbest.texts, nbest.features.tolist(), strict=True)):
        for text, row in zip(texts, rows, strict=False):
            named = " ".join(f"{name}= {value}" for name, value in zip(nbest.names, row, strict=True))
            lines.append(f"{number} ||| {text} ||| {named} ||| {row[0]}\n")
    return "".join(lines)
