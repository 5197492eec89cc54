"""AD and GAD of the toy words with a SentencePiece model of their own, exported; and text to add to them."""

from __future__ import annotations

import random
from pathlib import Path

from fairseq_ext.corpora.normalise import Normalise
from fairseq_ext.corpora.subwords import DICT_FILE, SentencePiece, train_sentencepiece
from fairseq_ext.corpora.text_files import write_lines
from fairseq_ext.runtime.manifest import Manifest
from fairseq_ext.translators.exported import Parts, writing
from tests import toy, toy_systems

LANGUAGES = ("en", "pl")


def write_text(prefix: Path, count: int, seed: int = 3) -> Path:
    """Pairs of the toy world in ``PREFIX.en`` and ``PREFIX.pl``."""
    pairs = toy.random_pairs(count, random.Random(seed))
    for side, lang in enumerate(LANGUAGES):
        write_lines(prefix.with_name(f"{prefix.name}.{lang}"), (pair[side] for pair in pairs))
    return prefix


def write_exports(root: Path) -> Path:
    """Export each as ``NAME``; returns the directory."""
    data = root / "data"
    data.mkdir(parents=True)
    text = write_text(root / "text", 300)
    files = [[text.with_name(f"text.{lang}") for lang in LANGUAGES]]
    tags = [f"<domain:{name}>" for name in toy.DOMAINS]
    train_sentencepiece(data, files, tags, options=SentencePiece(vocab_size=30), seed=1)
    for lang in LANGUAGES:
        (data / f"dict.{lang}.txt").write_bytes((data / DICT_FILE).read_bytes())
    write_lines(data / "domains.txt", toy.DOMAINS)
    for name in ("ad", "gad"):
        _, args, model = toy_systems.make_system(data, name, "--source-lang", "en", "--target-lang", "pl")
        checkpoint = toy.write_checkpoint(root / "systems" / name / "model.pt", args, model)
        architecture = toy_systems.ARCHITECTURES[name][0]
        manifest = Manifest(name, LANGUAGES, tuple(toy.DOMAINS), architecture, text=Normalise())
        with writing(root / name) as folder:
            Parts(checkpoint, data).write(folder, manifest)
    return root
