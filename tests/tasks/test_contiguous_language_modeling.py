"""Text that goes on from batch to batch, through the task and through fairseq's command lines."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fairseq_ext.base.errors import InputError
from fairseq_ext.tasks.contiguous_language_modeling import ContiguousSegments
from tests import toy_stream
from tests.integration.test_command_lines import run_well, weights

COMMON = ["--task", "contiguous_language_modeling", "--tokens-per-sample", "6", "--arch", "dagru_lm_tiny",
          "--batch-size", "3", "--optimizer", "sgd", "--lr", "0.5", "--criterion", "cross_entropy", "--sentence-avg",
          "--cpu", "--no-epoch-checkpoints", "--num-workers", "0", "--clip-norm", "5"]  # fmt: skip
PAD, EOS = 1, 2


def segments(count: int, rows: int, length: int) -> ContiguousSegments:
    return ContiguousSegments(np.arange(10, 10 + count, dtype=np.uint16), rows, length, PAD, EOS)


def in_rows(tokens: list[int], rows: int) -> Tensor:
    """B×W, row after row, the rest padded."""
    width = -(-len(tokens) // rows)
    return torch.tensor(tokens + [PAD] * (rows * width - len(tokens))).view(rows, width)


@pytest.mark.parametrize(("count", "rows", "length"), [(11, 2, 4), (12, 3, 4), (1, 1, 40), (41, 20, 40), (999, 20, 7)])
def test_segments_are_parts_of_the_whole_text_in_rows(count: int, rows: int, length: int) -> None:
    data, text = segments(count, rows, length), list(range(10, 10 + count))
    parts = [data[index] for index in range(len(data))]
    source = torch.cat([part["net_input"]["src_tokens"] for part in parts], 1)
    assert torch.equal(torch.cat([part["target"] for part in parts], 1), in_rows(text, rows))
    assert torch.equal(source, in_rows([EOS, *text[:-1]], rows))
    for index, part in enumerate(parts):
        tokens = part["net_input"]["src_tokens"]
        assert part["net_input"]["segment"] == index
        assert torch.equal(part["net_input"]["src_lengths"], tokens.ne(PAD).sum(1))
        assert part["ntokens"] == tokens.ne(PAD).sum()


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


@pytest.mark.slow
def test_training_stopped_within_an_epoch_goes_on(stream: Path, tmp_path: Path) -> None:
    vectors = toy_stream.write_vectors(tmp_path / "v.txt")
    common = ["train", str(stream), *COMMON, "--word-vectors", str(vectors)]
    run_well(*common, "--max-epoch", "1", "--save-dir", "whole", cwd=tmp_path)
    run_well(*common, "--max-update", "5", "--save-dir", "parts", cwd=tmp_path)
    run_well(*common, "--max-epoch", "1", "--save-dir", "parts", cwd=tmp_path)
    whole, parts = (weights(tmp_path / name / "checkpoint_last.pt") for name in ("whole", "parts"))
    carried = [found.pop("decoder._extra_state")["state"] for found in (whole, parts)]
    assert torch.equal(*carried)
    assert all(torch.equal(value, parts[name]) for name, value in whole.items())
