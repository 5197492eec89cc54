"""Gates that may choose the base learn it from general text beside the domains."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_ext.base.errors import InputError
from tests import toy

ARCH = "transformer_gated_adapter_tiny"
GATES = ["--gate-base", "--gate-inputs", "source", "--gate-pairs", "0", "--dropout", "0"]
CRITERION = "label_smoothed_cross_entropy_with_kd_gate"
GENERAL = [(f"w1{n} w1{n + 1} w1{n}", f"w1{n} w1{n}") for n in range(8)]


@pytest.fixture(scope="module")
def general(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy data, whose domains have other words than its general text."""
    folder = Path(shutil.copytree(data, tmp_path_factory.mktemp("general") / "data-bin"))
    dictionary = toy.make_dictionary()
    for number, name in enumerate(toy.DOMAINS):
        pairs = [(f"w{3 * number} w{3 * number + 1}", f"w{3 * number}")] * 6
        toy.write_split(folder / name, "train", pairs, dictionary)
    toy.write_split(folder / "base", "train", GENERAL, dictionary)
    return folder


def begin(data: Path, *options: str) -> tuple[Any, Any, Any]:
    task, args = toy.make_task(data, "--criterion", CRITERION, *GATES, *options, arch=ARCH)
    model = toy.make_model(task, args, train=True)
    return task, model, task.build_criterion(toy.composed(args).criterion)


def batch_of(task: Any) -> dict[str, Any]:
    task.load_dataset("train", combine=True)
    dataset = task.datasets["train"]
    rows: dict[str, Any] = dataset.collater([dataset[row] for row in range(len(dataset))])
    return rows


def test_general_text_is_certainly_of_the_base(general: Path, tmp_path: Path) -> None:
    teacher = toy.make_teacher(tmp_path, sizes=(6, 6, 6), has_base=True)
    task, _, _ = begin(general, "--teacher-dir", str(teacher))
    rows = batch_of(task)
    is_base = rows["domain_ids"] == 3
    assert is_base.sum() == len(GENERAL)
    assert rows["teacher_probs"][is_base].tolist() == [[0, 0, 0, 1]] * len(GENERAL)
    assert (rows["net_input"]["domain_ids"][is_base] == -1).all()
    assert (rows["domain_ids"][~is_base] < 3).all()
    task.load_dataset("valid")  # has the domains only
    assert len(task.datasets["valid"]) == 15


@pytest.mark.slow
def test_gates_find_what_is_of_no_domain(general: Path) -> None:
    task, model, criterion = begin(general, "--gate-target", "domain", "--gate-loss-temperature", "1")
    rows = batch_of(task)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], 0.01)
    for _ in range(120):
        optimizer.zero_grad()
        criterion(model, rows)[0].backward()
        optimizer.step()
    inputs = rows["net_input"]
    weights = model.eval().gate_weights(inputs, inputs["prev_output_tokens"])["source"].squeeze(1)  # B×D
    is_base = rows["domain_ids"] == 3
    assert (weights[is_base].sum(1) < 0.3).all()
    assert (weights[~is_base].sum(1) > 0.7).all()
    assert (weights[~is_base].argmax(1) == rows["domain_ids"][~is_base]).all()


def test_gate_base_needs_general_text_and_a_class_base(general: Path, data: Path, tmp_path: Path) -> None:
    task, _, _ = begin(data)
    with pytest.raises(InputError, match="--gate-base: .*base has no train set; binarise general text"):
        task.load_dataset("train", combine=True)
    teacher = toy.make_teacher(tmp_path, sizes=(6, 6, 6))
    task, _, _ = begin(general, "--teacher-dir", str(teacher))
    with pytest.raises(InputError, match="--gate-base: the teacher has no class base; .*base_text"):
        task.load_dataset("train", combine=True)
