"""Text that goes on from batch to batch, through the task and through fairseq's command lines."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fairseq_ext.inputs.errors import InputError
from fairseq_ext.tasks.contiguous_language_modeling import ContiguousSegments
from tests import toy_stream
from tests.integration.test_command_lines import run_well, weights

TASK = ["--task", "contiguous_language_modeling", "--tokens-per-sample", "6"]
COMMON = ["--batch-size", "3", "--optimizer", "sgd", "--lr", "0.5", "--criterion", "cross_entropy", "--sentence-avg",
          "--cpu", "--no-epoch-checkpoints", "--log-format", "simple", "--num-workers", "0", "--arch", "dagru_lm_tiny",
          "--clip-norm", "5"]  # fmt: skip


PAD, EOS = 1, 2


def segments(count: int, rows: int, length: int) -> ContiguousSegments:
    return ContiguousSegments(np.arange(10, 10 + count, dtype=np.uint16), rows, length, PAD, EOS)


def in_rows(tokens: list[int], rows: int) -> Tensor:
    """B×W, row after row, the rest padded."""
    width = -(-len(tokens) // rows)
    return torch.tensor(tokens + [PAD] * (rows * width - len(tokens))).view(rows, width)


def test_rows_lie_side_by_side() -> None:
    first, second = segments(11, rows=2, length=4)[0], segments(11, rows=2, length=4)[1]
    assert first["target"].tolist() == [[10, 11, 12, 13], [16, 17, 18, 19]]
    assert first["net_input"]["src_tokens"].tolist() == [[EOS, 10, 11, 12], [15, 16, 17, 18]]
    assert second["target"].tolist() == [[14, 15], [20, PAD]]
    assert second["net_input"]["src_tokens"].tolist() == [[13, 14], [19, PAD]]
    assert second["net_input"]["src_lengths"].tolist() == [2, 1]
    assert (first["net_input"]["segment"], second["net_input"]["segment"]) == (0, 1)
    assert (first["ntokens"], second["ntokens"]) == (8, 3)


@pytest.mark.parametrize(("count", "rows", "length"), [(11, 2, 4), (12, 3, 4), (1, 1, 40), (41, 20, 40), (999, 20, 7)])
def test_segments_are_parts_of_the_whole_text_in_rows(count: int, rows: int, length: int) -> None:
    data, text = segments(count, rows, length), list(range(10, 10 + count))
    parts = [data[index] for index in range(len(data))]
    source = torch.cat([part["net_input"]["src_tokens"] for part in parts], 1)
    assert torch.equal(torch.cat([part["target"] for part in parts], 1), in_rows(text, rows))
    assert torch.equal(source, in_rows([EOS, *text[:-1]], rows))


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_stream.make_stream(tmp_path_factory.mktemp("stream"))


def batches(task: Any, split: str, **options: Any) -> list[dict]:
    task.load_dataset(split)
    return list(task.get_batch_iterator(task.dataset(split), **options).next_epoch_itr(shuffle=True))


@pytest.mark.parametrize("epoch", [1, 2])
def test_batches_come_in_the_order_of_the_text(stream: Path, epoch: int) -> None:
    task, _ = toy_stream.make_task(stream)
    found = batches(task, "train", epoch=epoch, max_tokens=None, max_sentences=3)
    assert [batch["net_input"]["segment"] for batch in found] == list(range(len(found)))
    text = torch.cat([batch["target"] for batch in found], 1)
    assert text.shape[0] == 3
    assert text[text.ne(1)].tolist() == task.dataset("train").tokens.tolist()


def test_mistakes_are_named(stream: Path) -> None:
    task, _ = toy_stream.make_task(stream)
    with pytest.raises(InputError, match="^2 processes: "):
        batches(task, "train", num_shards=2)
    task, _ = toy_stream.make_task(stream, "--batch-size", "5000")
    with pytest.raises(InputError, match=r"train.bin: \d+ tokens are too few for --batch-size 5000"):
        task.load_dataset("train")


@pytest.fixture(scope="module")
def trained(stream: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model trained without a stop, and one that was stopped within its first epoch."""
    root = tmp_path_factory.mktemp("trained-stream")
    vectors = toy_stream.write_vectors(root / "v.txt")
    common = [str(stream), *TASK, *COMMON, "--word-vectors", str(vectors)]
    run_well("train", *common, "--max-epoch", "1", "--save-dir", "whole", cwd=root)
    run_well("train", *common, "--max-update", "5", "--save-dir", "parts", cwd=root)
    vectors.unlink()  # a checkpoint needs its file no more, but to go on a training must have it
    return root


@pytest.mark.slow
def test_training_stopped_within_an_epoch_goes_on(stream: Path, trained: Path) -> None:
    vectors = toy_stream.write_vectors(trained / "v.txt")
    common = [str(stream), *TASK, *COMMON, "--word-vectors", str(vectors), "--max-epoch", "1"]
    run_well("train", *common, "--save-dir", "parts", cwd=trained)
    whole, parts = (weights(trained / name / "checkpoint_last.pt") for name in ("whole", "parts"))
    carried = [found.pop("decoder._extra_state")["state"] for found in (whole, parts)]
    assert torch.equal(*carried)
    assert all(torch.equal(value, parts[name]) for name, value in whole.items())


@pytest.mark.slow
def test_scoring_carries_the_state_over(stream: Path, trained: Path) -> None:
    def loss(*extra: str) -> float:
        printed = run_well(
            "eval_lm", str(stream), *TASK, "--path", "whole/checkpoint_best.pt", "--cpu", *extra, cwd=trained
        )
        match = re.search(r"Loss \(base 2\): ([\d.]+), Perplexity", printed)
        assert match is not None
        return float(match[1])

    # In one row it makes no difference into which segments a text is cut.
    assert math.isclose(loss("--batch-size", "1"), loss("--batch-size", "1", "--tokens-per-sample", "50"), abs_tol=1e-3)
