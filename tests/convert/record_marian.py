"""Record what real Marian computes, which is no dependency of this project.

    python -m tests.convert.record_marian ENVIRONMENT [FORM …]

ENVIRONMENT is a virtual environment with pymarian, which is made if it does not exist, by a Python 3.10 to 3.12;
``--python`` names one. A tiny model of each form is trained, and written to tests/convert/marian/FORM with its
vocabularies and ``expected.json``: sources, translations by beam 1 and 4 with their log-probabilities, and those of
given targets.
"""

import gzip
import itertools
import json
import random
import shutil
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import sentencepiece
import yaml

FOLDER = Path(__file__).resolve().parent / "marian"
PYMARIAN = "pymarian==1.12.42"
WORDS = {
    "cat": "gato", "dog": "cão", "house": "casa", "tree": "árvore", "river": "rio", "bird": "ave", "stone": "pedra",
    "sees": "vê", "likes": "quer", "finds": "acha", "red": "rubra", "big": "grande", "old": "velha",
}  # fmt: skip
NOUNS, VERBS, ADJECTIVES = list(WORDS)[:7], list(WORDS)[7:10], list(WORDS)[10:]
PRE_NORM = "--transformer-preprocess n --transformer-postprocess da --transformer-postprocess-top n"
SSRU = "--transformer-decoder-autoreg rnn --dec-cell ssru"
# Options of training, and how the files lie in the folder: as Marian leaves them, as OPUS-MT or as Firefox ships them,
# the latter with one vocabulary or two.
FORMS = {
    "ssru": (f"--enc-depth 2 --dec-depth 2 {SSRU} --tied-embeddings-all --transformer-ffn-activation relu", "firefox"),
    "ssru-pre-norm": (f"--enc-depth 1 --dec-depth 2 {SSRU} --tied-embeddings {PRE_NORM}", "firefox-two"),
    "post-norm": ("--enc-depth 1 --dec-depth 1 --tied-embeddings-all", "opus"),
    "pre-norm": (
        f"--enc-depth 1 --dec-depth 1 {PRE_NORM} --tied-embeddings-src --transformer-ffn-activation gelu",
        "marian",
    ),
    "separate": (
        "--enc-depth 3 --dec-depth 1 --transformer-decoder-dim-ffn 12 --transformer-ffn-activation relu",
        "firefox-two",
    ),
    "tied-layers": (
        "--enc-depth 1 --dec-depth 3 --tied-embeddings-all --transformer-tied-layers 1 2 1 --transformer-no-projection "
        "--output-omit-bias --transformer-postprocess-emb nd",
        "firefox",
    ),
    "no-positions": (
        f"--enc-depth 1 --dec-depth 1 {SSRU} --tied-embeddings-all --transformer-disable-position-embeddings",
        "marian",
    ),
}
# Marian's search (1.12.42) does not norm the earlier positions of such a decoder, unlike its training and its scores.
NO_SEARCH = ("pre-norm",)
TRAINING = (
    "--type transformer --dim-emb 8 --transformer-heads 2 --transformer-dim-ffn 16 --mini-batch 64 --maxi-batch 10 "
    "--after-batches 600 --learn-rate 0.01 --lr-warmup 100 --lr-decay-inv-sqrt 200 --disp-freq 500 --save-freq 100000 "
    "--seed 1 --cpu-threads 1 --workspace 200 --quiet --overwrite"
)


def sentences(count: int, seed: int) -> tuple[list[str], list[str]]:
    """Sentences of a small language, in which adjectives follow nouns, and their translations."""
    chance = random.Random(seed)
    sources, targets = [], []
    for _ in range(count):
        source, target = [], []
        for verb in (chance.choice(VERBS), None):
            noun, adjectives = chance.choice(NOUNS), chance.sample(ADJECTIVES, chance.choice((0, 0, 1, 2)))
            source += [*adjectives, noun, *([verb] if verb else [])]
            target += [WORDS[word] for word in (noun, *adjectives, *([verb] if verb else []))]
        sources.append(" ".join(source))
        targets.append(" ".join(target))
    return sources, targets


def write_vocabularies(folder: Path, kind: str) -> list[str]:
    """Write the vocabularies of both sides, and return the names of their files."""
    names = ("source", "target") if kind == "opus" else ("srcvocab.xxyy", "trgvocab.xxyy")
    texts = {name: [file] for name, file in zip(names, ("train.src", "train.tgt"), strict=True)}
    if kind in ("firefox", "marian"):
        texts = {"vocab.xxyy": ["train.src", "train.tgt"]}
    for name, files in texts.items():
        sentencepiece.SentencePieceTrainer.train(
            input=",".join(str(folder / file) for file in files), model_prefix=str(folder / name), vocab_size=44,
            bos_id=-1, eos_id=0, unk_id=1, pad_id=-1, hard_vocab_limit=False, num_threads=1, minloglevel=2,
            normalization_rule_name="identity",
        )  # fmt: skip
        (folder / f"{name}.model").rename(folder / f"{name}.spm")
    if kind != "opus":
        return [f"{name}.spm" for name in texts] * (2 // len(texts))
    # OPUS-MT numbers the pieces of both models together.
    models = [sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{name}.spm")) for name in texts]
    pieces = dict.fromkeys(model.id_to_piece(number) for model in models for number in range(len(model)))
    lines = (f"{json.dumps(piece, ensure_ascii=False)}: {number}\n" for number, piece in enumerate(pieces))
    (folder / "opus.vocab.yml").write_text("".join(lines))
    return ["opus.vocab.yml"] * 2


class Marian:
    """Real Marian in an environment of its own, and a folder of files."""

    def __init__(self, environment: Path, folder: Path) -> None:
        self.program, self.folder = environment / "bin" / "pymarian", folder

    def run(self, command: str, *more: str, text: str | None = None) -> list[str]:
        line = [str(self.program), *command.split(), *more]
        found = subprocess.run(line, cwd=self.folder, input=text, capture_output=True, text=True, check=True)
        return found.stdout.splitlines()


def record(environment: Path, name: str) -> None:
    """Train a form, and write its files and what Marian computes with them."""
    options, kind = FORMS[name]
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        marian = Marian(environment, folder)
        for ending, lines in zip(("src", "tgt"), sentences(4000, seed=1), strict=True):
            (folder / f"train.{ending}").write_text("\n".join(lines) + "\n")
        vocabularies = write_vocabularies(folder, kind)
        given = ["--vocabs", *vocabularies]
        pieces = [*(f"{side}.spm" for side in ("source", "target"))] if kind == "opus" else []
        encoders = [sentencepiece.SentencePieceProcessor(model_file=str(folder / piece)) for piece in pieces]
        if encoders:
            for ending, encoder in zip(("src", "tgt"), encoders, strict=True):
                split_file(folder / f"train.{ending}", encoder)
        marian.run(f"train {TRAINING} --model model.npz --train-sets train.src train.tgt {options}", *given)
        expected = outputs(marian, given, encoders, () if name in NO_SEARCH else (1, 4))
        out = FOLDER / name
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        write_model(marian, out, kind)
        for file in sorted({*vocabularies, *pieces}):
            copy(folder / file, out, is_packed=kind.startswith("firefox"))
        (out / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")
        print(f"{name}: {sum(path.stat().st_size for path in out.iterdir())} bytes", file=sys.stderr)


def split_file(path: Path, encoder: sentencepiece.SentencePieceProcessor) -> None:
    path.write_text("".join(f"{split(line, encoder)}\n" for line in path.read_text().splitlines()))


def split(line: str, encoder: sentencepiece.SentencePieceProcessor) -> str:
    return " ".join(encoder.encode(line, out_type=str))


def outputs(
    marian: Marian, given: list[str], encoders: list[sentencepiece.SentencePieceProcessor], beams: tuple[int, ...]
) -> dict:
    """Translations and log-probabilities of new sentences; targets are right for half of the sources."""
    sources, targets = sentences(12, seed=2)
    sources = [*sources, "zebra sees house"]  # with an unknown letter
    targets = [*targets[:6], *targets[:6], "ave vê casa"]
    told, asked = sources, targets
    if encoders:
        told, asked = (
            [split(line, encoder) for line in side] for side, encoder in zip((sources, targets), encoders, strict=True)
        )
    for name, lines in (("test.src", told), ("test.tgt", asked)):
        (marian.folder / name).write_text("\n".join(lines) + "\n")
    found: dict = {"source": sources, "target": targets}
    common = ["-m", "model.npz", "--cpu-threads", "1", "--quiet", "--workspace", "200"]
    scores = marian.run("score -t test.src test.tgt", *common, *given)
    found["scores"] = [float(line) for line in scores]
    for beam in beams:
        lines = marian.run(f"decode --beam-size {beam} --n-best", *common, *given, text="\n".join(told) + "\n")
        best = [
            next(rows) for _, rows in itertools.groupby((line.split(" ||| ") for line in lines), key=lambda row: row[0])
        ]
        texts = [row[1].replace(" ", "").replace("▁", " ").strip() if encoders else row[1] for row in best]
        found[f"beam {beam}"] = [[text, float(row[-1])] for text, row in zip(texts, best, strict=True)]
    return found


def write_model(marian: Marian, out: Path, kind: str) -> None:
    """Write the model in the form of its kind, with the other files of such folders."""
    folder = marian.folder
    if kind.startswith("firefox"):
        marian.run("convert --from model.npz --to model.xxyy.bin --gemm-type float32")
        copy(folder / "model.xxyy.bin", out, is_packed=True)
        (out / "metadata.json").write_text(json.dumps({"sourceLanguage": "xx", "targetLanguage": "yy"}))
        return
    with np.load(folder / "model.npz") as arrays:
        np.savez_compressed(out / "model.npz", **arrays)
    name = "decoder.yml" if kind == "opus" else "model.npz.decoder.yml"
    copy(folder / "model.npz.decoder.yml", out).rename(out / name)
    if kind == "marian":
        training = yaml.safe_load((folder / "model.npz.yml").read_text())
        kept = {key: value for key, value in training.items() if "dropout" in key}
        (out / "model.npz.yml").write_text(yaml.safe_dump(kept))


def copy(path: Path, folder: Path, is_packed: bool = False) -> Path:
    if not is_packed:
        return Path(shutil.copy(path, folder))
    (folder / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    return folder


def main() -> None:
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("environment", type=Path)
    parser.add_argument("names", nargs="*", help="forms (default: all)")
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    environment = options.environment.absolute()
    if not environment.exists():
        subprocess.run([options.python, "-m", "venv", str(environment)], check=True)
        subprocess.run([str(environment / "bin" / "pip"), "install", "-q", PYMARIAN], check=True)
    for name in options.names or FORMS:
        record(environment, name)


if __name__ == "__main__":
    main()
