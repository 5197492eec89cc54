"""Before the first update from a base, training says whether dropout disturbs the base, and changes nothing."""

import math
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.distributed import utils as distributed_utils
from fairseq_cli import train

from fairseq_ext.patches import first_batch
from tests import toy

AD = "transformer_domain_adapter"


@pytest.fixture(scope="module")
def bases(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Bases by their rate of dropout; they know the training text by heart, without dropout."""
    folder, found = tmp_path_factory.mktemp("bases"), {}
    run(data, folder, "--dropout", "0", arch="transformer_tiny", updates=60)
    weights = torch.load(folder / "checkpoint_last.pt", weights_only=True)["model"]
    for rate in ("0", "0.3"):
        task, args = toy.make_task(data, "--dropout", rate, arch="transformer_tiny")
        model = toy.make_model(task, args)
        model.load_state_dict(weights)
        found[rate] = toy.write_checkpoint(folder / f"{rate}.pt", args, model)
    return found


def run(data: Path, folder: Path, *arguments: str, arch: str = AD, updates: int = 2) -> None:
    line = ["--save-dir", str(folder), "--max-update", str(updates), "--num-workers", "0", *arguments]
    args = toy.train_args(data, *line, "--criterion", "label_smoothed_cross_entropy", "--disable-validation", arch=arch)
    distributed_utils.call_main(toy.composed(args), train.main)


class Said(list[str]):
    """The lines since the last call."""

    def __call__(self) -> list[str]:
        found = self.copy()
        self.clear()
        return found


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Said:
    lines = Said()
    monkeypatch.setattr(first_batch._log, "warning", lines.append)
    return lines


@pytest.mark.slow
def test_dropout_of_the_base_is_warned_of_once_and_not_when_resumed(
    data: Path, bases: dict[str, Path], tmp_path: Path, said: Said
) -> None:
    start = ["--finetune-from-model", str(bases["0.3"])]
    run(data, tmp_path, *start)
    (line,) = said()
    assert line.startswith(f"{bases['0.3']} has a loss of ")
    assert line.endswith("set --dropout 0 or --frozen-mode eval")
    run(data, tmp_path, *start, updates=4)
    assert said() == []
    run(data, tmp_path / "mix", *start, arch="transformer_tiny")
    assert said()[0].endswith("set --dropout 0")
    run(data, tmp_path / "restored", "--restore-file", str(bases["0.3"]), "--reset-optimizer", arch="transformer_tiny")
    assert len(said()) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "options"),
    [("0", ()), ("0.3", ("--dropout", "0")), ("0.3", ("--frozen-mode", "eval")), (None, ("--dropout", "0.5"))],
)
def test_no_warning_without_a_base_or_without_dropout(
    rate: str | None,
    options: tuple[str, ...],
    data: Path,
    bases: dict[str, Path],
    tmp_path: Path,
    said: Said,
) -> None:
    start = ["--finetune-from-model", str(bases[rate])] if rate else []
    run(data, tmp_path, *start, *options, arch=AD if rate else "transformer_tiny")
    assert said() == []


@pytest.mark.slow
def test_label_smoothing_on_a_base_without_dropout_is_warned_of(
    data: Path, bases: dict[str, Path], tmp_path: Path, said: Said
) -> None:
    for rate, lines in (("0", 1), ("0.3", 0)):
        start = ["--finetune-from-model", str(bases[rate]), "--frozen-mode", "eval", "--label-smoothing", "0.1"]
        run(data, tmp_path / rate, *start)
        found = said()
        assert len(found) == lines
        assert all(line.startswith("--label-smoothing 0.1: ") for line in found)


@pytest.mark.slow
def test_checking_the_first_batch_changes_no_weight(
    data: Path, bases: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def weights(folder: Path) -> dict[str, Any]:
        start = ["--finetune-from-model", str(bases["0.3"]), "--adapter-dropout", "0.1"]
        run(data, folder, *start)
        model: dict[str, Any] = torch.load(folder / "checkpoint_last.pt", weights_only=True)["model"]
        return model

    checked = weights(tmp_path / "checked")
    monkeypatch.setattr(first_batch, "_about_modes", lambda *_: None)
    unchecked = weights(tmp_path / "unchecked")
    assert all(torch.equal(value, unchecked[name]) for name, value in checked.items())


class Doubled(torch.nn.Module):
    """A model whose loss is 8 bits in evaluation mode and another in training mode."""

    def __init__(self, in_training: float) -> None:
        super().__init__()
        self.in_training = in_training

    def loss(self, sample: Any) -> tuple[Any, int, dict]:
        bits = self.in_training if self.training else 8.0
        total = torch.tensor(bits * math.log(2) * sample["ntokens"])
        return total, 1, {"loss": 0.0, "nll_loss": total, "ntokens": sample["ntokens"]}


@pytest.mark.parametrize(("in_training", "is_said"), [(8.7, False), (7.3, False), (9.0, True), (7.0, True)])
def test_only_the_first_process_warns_of_a_difference_of_a_tenth(in_training: float, is_said: bool, said: Said) -> None:
    model = Doubled(in_training)
    trainer: Any = SimpleNamespace(
        unchecked_base="base.pt", model=model, criterion=torch.nn.Identity(), cuda=False, is_data_parallel_master=True
    )
    trainer.criterion.forward = lambda model, sample: model.loss(sample)
    trainer.cfg = SimpleNamespace(model=None)
    trainer._prepare_sample, trainer.get_model = lambda sample: (sample, False), lambda: model
    step = partial(first_batch._train_step, lambda *_: "stepped")
    assert step(trainer, [{"ntokens": 5, "net_input": {}}]) == "stepped"
    line = f"base.pt has a loss of {in_training:.2f} bits in training mode but 8.00 in evaluation mode"
    assert [text.startswith(line) for text in said()] == [True] * is_said
    trainer.unchecked_base, trainer.is_data_parallel_master = "base.pt", False
    step(trainer, [{"ntokens": 5, "net_input": {}}])
    assert said() == []
    trainer.unchecked_base, trainer.is_data_parallel_master = "base.pt", True
    assert step(trainer, [{"a-b": {"ntokens": 5}, "b-a": {"ntokens": 5}}]) == "stepped"
    assert said() == []
