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

AD, MIX = "transformer_domain_adapter", "transformer_tiny"


@pytest.fixture(scope="module")
def bases(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Bases by their rate of dropout; they know the training text by heart, without dropout."""
    folder, found = tmp_path_factory.mktemp("bases"), {}
    run(data, folder, "--dropout", "0", arch=MIX, updates=60)
    weights = torch.load(folder / "checkpoint_last.pt", weights_only=True)["model"]
    for rate in ("0", "0.3"):
        task, args = toy.make_task(data, "--dropout", rate, arch=MIX)
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
@pytest.mark.parametrize(
    ("rate", "arch", "options", "advice"),
    [
        ("0.3", AD, [], "set --dropout 0 or --frozen-mode eval"),
        ("0.3", MIX, [], "set --dropout 0"),
        ("0.3", AD, ["--dropout", "0"], None),
        ("0.3", AD, ["--frozen-mode", "eval"], None),
        ("0.3", AD, ["--frozen-mode", "eval", "--label-smoothing", "0.1"], None),
        ("0", AD, [], None),
        ("0", AD, ["--frozen-mode", "eval", "--label-smoothing", "0.1"], "set --label-smoothing 0"),
        (None, MIX, ["--dropout", "0.5"], None),
    ],
)
def test_what_disturbs_a_base_is_warned_of(
    rate: str | None, arch: str, options: list[str], advice: str | None,
    data: Path, bases: dict[str, Path], tmp_path: Path, said: Said,
) -> None:  # fmt: skip
    start = ["--finetune-from-model", str(bases[rate])] if rate else []
    run(data, tmp_path, *start, *options, arch=arch)
    lines = said()
    assert [line.endswith(f"; {advice}") and str(bases[rate]) in line for line in lines] == [True] * bool(advice)


@pytest.mark.slow
def test_a_base_is_warned_of_once_and_not_when_training_is_resumed(
    data: Path, bases: dict[str, Path], tmp_path: Path, said: Said
) -> None:
    for updates, expected in ((2, 1), (4, 0)):
        run(data, tmp_path, "--finetune-from-model", str(bases["0.3"]), updates=updates)
        assert len(said()) == expected
    run(data, tmp_path / "restored", "--restore-file", str(bases["0.3"]), "--reset-optimizer", arch=MIX)
    assert len(said()) == 1


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
