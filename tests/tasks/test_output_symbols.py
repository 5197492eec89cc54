"""Training over the symbols of the text: what counts, and that the loss is fairseq's where all symbols are drawn."""

from pathlib import Path
from typing import Any

import pytest
import torch

from fairseq_ext.base.errors import InputError
from fairseq_ext.tasks import output_symbols
from fairseq_ext.tasks.output_symbols import sampled_output, symbol_counts
from tests import toy

PLAIN, GATES = "label_smoothed_cross_entropy", "label_smoothed_cross_entropy_with_kd_gate"
SYSTEMS = [
    ("transformer_tiny", PLAIN),
    ("transformer_domain_adapter_tiny", PLAIN),
    ("transformer_gated_adapter_tiny", GATES),
]
TEXT = ["--output-symbols", "text"]


def begin(data: Path, arch: str, criterion: str, *options: str) -> tuple[Any, Any, Any, Any]:
    """The task, a model, the criterion and a batch."""
    task, args = toy.make_task(data, "--criterion", criterion, "--dropout", "0", *options, arch=arch)
    torch.manual_seed(1)
    model = toy.make_model(task, args, train=True)
    task.load_dataset("train", combine=True)
    dataset = task.datasets["train"]
    return (
        task,
        model,
        task.build_criterion(toy.composed(args).criterion),
        dataset.collater([dataset[i] for i in range(20)]),
    )


class Optimizer:
    backward = staticmethod(torch.Tensor.backward)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize(("arch", "criterion"), SYSTEMS)
def test_the_loss_with_all_symbols_drawn_is_fairseqs(
    arch: str, criterion: str, precision: str, data: Path, teacher: Path
) -> None:
    options = [*(["--teacher-dir", str(teacher)] if criterion == GATES else []), "--cpu-precision", precision]
    found = []
    for more in ([], TEXT):
        task, model, own, batch = begin(data, arch, criterion, *options, *more)
        task.begin_epoch(1, model)
        task.train_step(batch, model, own, Optimizer(), 0)
        _, _, log = task.train_step(batch, model, own, Optimizer(), 0)
        own.eval()
        valid = own(model.eval(), batch)[2]
        gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        found.append((log, valid, gradients))
    (log, valid, gradients), (text_log, text_valid, text_gradients) = found
    tolerance = 1e-5 if precision == "float32" else 2e-2
    assert text_log.keys() == log.keys()
    assert {name: float(value) for name, value in text_log.items()} == pytest.approx(
        {name: float(value) for name, value in log.items()}, rel=tolerance
    )
    assert {name: float(value) for name, value in text_valid.items()} == {
        name: float(value) for name, value in valid.items()
    }
    assert text_gradients.keys() == gradients.keys()
    for name, value in gradients.items():
        assert (text_gradients[name] - value).norm() <= 10 * tolerance * value.norm() + 1e-5, name


def test_no_logits_of_all_symbols_are_computed(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task, model, criterion, batch = begin(data, *SYSTEMS[1], *TEXT)
    task.begin_epoch(1, model)
    monkeypatch.setattr(type(model.decoder), "output_layer", None)
    task.train_step(batch, model, criterion, Optimizer(), 0)


@pytest.mark.parametrize("impl", ["mmap", "cached"])
def test_symbols_are_counted_in_the_training_text(impl: str, tmp_path: Path) -> None:
    data = toy.make_data(tmp_path, sizes=(2, 1, 1), impl=impl)
    task, _ = toy.make_task(data, "--train-domains", "law,sub", "--dataset-impl", impl)
    task.load_dataset("train", combine=True)
    rows = [example for name in ("law", "sub") for example in pairs(data, task, name)]
    counts = symbol_counts(task.datasets["train"], len(task.target_dictionary))
    assert counts.tolist() == torch.cat(rows).bincount(minlength=len(counts)).tolist()


def test_frequent_symbols_are_fixed_and_others_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_symbols, "_MOST_FREQUENT", 5)
    output = sampled_output(torch.tensor([0, 0, 9, 0, 2, 0, 5, 3, 0]), num_special=4)
    (rare, _), (others, _) = output.groups
    assert [output.fixed.tolist(), rare.tolist(), others.tolist()] == [[0, 1, 2, 3, 6], [7, 4], [5, 8]]


def pairs(data: Path, task: Any, domain: str) -> list[torch.Tensor]:
    task.load_dataset(f"train:{domain}")
    dataset = task.datasets[f"train:{domain}"]
    if dataset.supports_prefetch:
        dataset.prefetch(range(len(dataset)))
    return [dataset[i]["target"] for i in range(len(dataset))]


@pytest.mark.parametrize(
    ("criterion", "options", "line"),
    [
        (PLAIN, ["--label-smoothing", "0.1"], "cannot be used with --label-smoothing; remove it, or set all"),
        (GATES, ["--report-accuracy"], "cannot be used with --report-accuracy"),
        (PLAIN, ["--ignore-prefix-size", "1"], "cannot be used with --ignore-prefix-size"),
        ("cross_entropy", [], "needs --criterion label_smoothed_cross_entropy"),
    ],
)
def test_what_needs_all_symbols_is_refused(criterion: str, options: list[str], line: str, data: Path) -> None:
    task, args = toy.make_task(data, "--criterion", criterion, *options, *TEXT)
    with pytest.raises(InputError, match=f"--output-symbols text: {line}"):
        task.build_criterion(toy.composed(args).criterion)
