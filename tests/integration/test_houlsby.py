"""fairseq's own command lines with a masked language model and the tasks that go on it, as a user types them."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
import torch
from fairseq import options
from fairseq_cli import preprocess

from fairseq_ext.classifiers.task_adapters import load_task_model
from tests.integration.test_command_lines import TINY, run_well, weights

pytestmark = pytest.mark.slow

COLOURS = ["blue", "red"]
RELATIONS = ["less", "more", "same"]
WORDS = [f"w{n}" for n in range(20)] + COLOURS
INPUT = ["--task", "sentence_prediction", "--criterion", "sentence_prediction", "--max-positions", "24",
         "--init-token", "0", "--separator-token", "2", "--batch-size", "8"]  # fmt: skip
COMMON = [*INPUT, "--required-batch-size-multiple", "1", *TINY]
ADAPTED = ["--arch", "roberta_houlsby_adapter_tiny", "--bottleneck-dim", "8"]
COLOUR = ["tasks/colour", *COMMON, "--num-classes", "2", "--classification-head-name", "colour"]
RELATION = ["tasks/relation", *COMMON, "--num-classes", "3", "--classification-head-name", "relation"]
BEST = ["--best-checkpoint-metric", "accuracy", "--maximize-best-checkpoint-metric"]
BASE = ["--finetune-from-model", "base/checkpoint_best.pt"]


def binarise(root: Path, where: str, sets: dict[str, list[str]], *extra: str) -> None:
    """Write texts and binarise them as ``fairseq-preprocess`` does, in this process."""
    folder = root / "text" / where
    folder.mkdir(parents=True)
    for split, lines in sets.items():
        (folder / split).write_text("".join(f"{line}\n" for line in lines))
    prefixes = [word for split in sets for word in (f"--{split}pref", str(folder / split))]
    words = ["--only-source", *prefixes, "--destdir", str(root / where), *extra]
    preprocess.main(options.get_preprocessing_parser().parse_args(words))


def make_texts(count: int, rng: random.Random) -> list[str]:
    return [" ".join(rng.choices(WORDS[:20], k=rng.randint(2, 8))) for _ in range(count)]


def make_colours(count: int, rng: random.Random) -> tuple[list[str], list[str]]:
    """Texts that name their label, often."""
    labels = [COLOURS[n % 2] for n in range(count)]
    return [f"{text} {4 * f'{label} '}" for text, label in zip(make_texts(count, rng), labels, strict=True)], labels


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text, a task of single texts, one of pairs, a regression; and the base."""
    root, rng = tmp_path_factory.mktemp("houlsby"), random.Random(5)
    sizes = {"train": 64, "valid": 16}
    binarise(root, "mlm", {split: [" ".join(WORDS), *make_texts(count, rng)] for split, count in sizes.items()})
    words = ["--srcdict", str(root / "mlm/dict.txt")]
    colours = {split: make_colours(count, rng) for split, count in sizes.items()}
    binarise(root, "tasks/colour/input0", {split: texts for split, (texts, _) in colours.items()}, *words)
    binarise(root, "tasks/colour/label", {split: labels for split, (_, labels) in colours.items()})
    pairs = {split: (make_texts(count, rng), make_texts(count, rng)) for split, count in sizes.items()}
    for task in ("relation", "score"):
        for side in (0, 1):
            binarise(root, f"tasks/{task}/input{side}", {split: pair[side] for split, pair in pairs.items()}, *words)
    relations = {s: [RELATIONS[(len(a) > len(b)) + 2 * (len(a) == len(b))] for a, b in zip(*p, strict=True)]
                 for s, p in pairs.items()}  # fmt: skip
    binarise(root, "tasks/relation/label", relations)
    (root / "tasks/score/label").mkdir()
    for split, (one, other) in pairs.items():
        numbers = [len(a) / max(len(a), len(b)) for a, b in zip(one, other, strict=True)]
        (root / f"tasks/score/label/{split}.label").write_text("".join(f"{number}\n" for number in numbers))
    run_well(
        "train", "mlm", "--task", "masked_lm", "--criterion", "masked_lm", "--arch", "roberta_tiny",
        "--tokens-per-sample", "24", "--sample-break-mode", "eos", *TINY, "--save-dir", "base", cwd=root,
    )  # fmt: skip
    return root


def train(root: Path, *words: str) -> str:
    return run_well("train", *words, cwd=root)


@pytest.fixture(scope="module")
def sequence(root: Path) -> Path:
    """One file a task later than the one before: colour, relation, score."""
    log = train(root, *COLOUR, *ADAPTED, *BASE, *BEST, "--max-epoch", "20", "--save-dir", "one")
    adapters, norms, head = 4 * (2 * 8 * 32 + 32 + 8), 5 * 2 * 32, 32 * 32 + 32 + 2 * 32 + 2
    assert f"(num. trained: {adapters + norms + head:,})" in log
    accuracies = [float(number) for number in re.findall(r"valid on 'valid' .* accuracy ([\d.]+)", log)]
    assert max(accuracies) == 100  # chance is 50
    train(root, *RELATION, *ADAPTED, "--finetune-from-model", "one/checkpoint_best.pt", *BEST, "--save-dir", "two")
    score = ["tasks/score", *COMMON, "--num-classes", "1", "--regression-target", "--classification-head-name", "score"]
    log = train(root, *score, *ADAPTED, "--finetune-from-model", "two/checkpoint_best.pt", "--tuning", "norms",
                "--report-pearson-and-spearman", "--save-dir", "three")  # fmt: skip
    assert "spearman" in log
    return root


def test_tasks_one_after_the_other_in_one_file(sequence: Path) -> None:
    base, one, three = (weights(sequence / f"{d}/checkpoint_best.pt") for d in ("base", "one", "three"))
    assert all(torch.equal(three[key], value) for key, value in base.items())
    assert all(torch.equal(three[key], value) for key, value in one.items())
    first, last = (load_task_model(sequence / f"{d}/checkpoint_best.pt", sequence / "mlm") for d in ("one", "three"))
    tokens = torch.tensor([[0, 7, 9, 12, 2], [0, 8, 8, 2, 1]])
    assert torch.equal(*(model(tokens, classification_head_name="colour")[0] for model in (first, last)))
    labels = {name: task.labels for name, task in last.tasks.items()}
    assert {name: sorted(given) for name, given in labels.items()} == {
        "colour": COLOURS,
        "relation": RELATIONS,
        "score": [],
    }


def test_the_top_layers_are_tuned_alone(root: Path) -> None:
    train(root, *COLOUR, *ADAPTED, *BASE, "--tuning", "top", "--save-dir", "top")
    base, tuned = weights(root / "base/checkpoint_best.pt"), weights(root / "top/checkpoint_last.pt")
    moved = {key.split(".")[2] for key, value in base.items() if not torch.equal(tuned[key], value)}
    assert "layers" in moved
    assert "embed_tokens" not in moved


def test_stopped_training_goes_on_to_the_same_weights(sequence: Path) -> None:
    """From a file with another task in it."""
    start = [*RELATION, *ADAPTED, *BEST, "--finetune-from-model", "one/checkpoint_best.pt", "--save-dir", "resumed"]
    train(sequence, *start, "--max-epoch", "1")
    train(sequence, *start)
    whole, resumed = (weights(sequence / f"{d}/checkpoint_last.pt") for d in ("two", "resumed"))
    assert whole.keys() == resumed.keys()
    assert all(torch.equal(resumed[key], value) for key, value in whole.items())
