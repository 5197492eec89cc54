"""A small re-ranking experiment, on the folder of a small translation experiment of two domains."""

from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from fairseq_ext.text.subwords import MODEL_FILE, SentencePiece, encode_lines, load_subwords, train_sentencepiece
from fairseq_ext.text.text_files import read_lines, write_lines
from tests.experiments.experiment_file import write_experiment
from tests.experiments.reranking.made_up import as_printed, make_list

COMMON = {
    "arch": "dagru_lm_tiny", "optimizer": "sgd", "lr": 1, "lr-scheduler": "fixed", "sentence-avg": True, "clip-norm": 5,
    "criterion": "cross_entropy", "batch-size": 4, "tokens-per-sample": 7, "max-epoch": 2, "cpu": True,
    "num-workers": 0,
}  # fmt: skip
TRANSLATION: dict[str, Any] = {
    "run": "mix", "target_lang": "de", "nbest": 4, "options": {"max-tokens": 400, "cpu": True, "max-len-b": 12},
}  # fmt: skip

# Of the made-up lists, by domain.
SENTENCES = {"bank": 40, "garden": 10}


def write_file(folder: Path, **changes: Any) -> Path:
    """Write the experiment file; the translation experiment works in ``work`` beside it."""
    settings: dict[str, Any] = {
        "kind": "reranking",
        "work_dir": str(folder / "reranking"),
        "translation": {"work_dir": str(folder / "work"), **TRANSLATION},
        "word_vectors": {"dim": 8, "epochs": 1},
        "kneser_ney": {"order": 2},
        "train": {"common": COMMON, "systems": {"standard": {"combination": "none", "embed-dim": 8}, "dagru": {}}},
        "rerank": {"restarts": 2, "resamples": 50, "cpu": True},
    }
    return write_experiment(folder / "reranking.yaml", settings, changes)


def write_made_up_lists(folder: Path) -> None:
    """Write lists, references and subwords, as if they had been translated and prepared."""
    work = folder / "work"
    write_lines(work / "data-bin/domains.txt", SENTENCES)
    for seed, split in enumerate(("train", "valid", "test"), start=1):
        nbest, references, _ = make_list(seed, sentences=sum(SENTENCES.values()))
        write_lines(folder / "reranking/nbest" / split / "nbest.txt", as_printed(nbest).splitlines())
        ends = accumulate(SENTENCES.values(), initial=0)
        for domain, (start, end) in zip(SENTENCES, pairwise(ends), strict=True):
            write_lines(work / "splits" / domain / f"{split}.de", references[start:end])
            output = [line.replace("w1", "w2") for line in references[start:end]]
            write_lines(work / "translations/mix" / f"{domain}.de", output)
    texts = sorted(work.glob("splits/*/*.de"))
    train_sentencepiece(work / "data-bin", [[path] for path in texts], [], options=SentencePiece(vocab_size=18), seed=1)
    processor = load_subwords(work / "data-bin" / MODEL_FILE)
    for path in texts:
        write_lines(work / "encoded" / path.parent.name / path.name, encode_lines(processor, read_lines(path)))
