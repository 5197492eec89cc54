"""A base model that was stopped early is warned of; one that has settled is not."""

import math
from pathlib import Path

import pytest

from fairseq_ext.experiments.metrics.records import Record, Records
from fairseq_ext.experiments.train import TrainingLog, read_training_log
from fairseq_ext.experiments.translation.convergence import BITS_BY_UPDATE, warning, warning_of_control, warnings_of
from tests.experiments.translation.test_outputs import AD, MIX, MORE, config_of

LOG = """\
INFO | train_inner | epoch {epoch:03d}:    100 / 200 loss=9.1, ppl=550.1, wall=9
INFO | valid | epoch {epoch:03d} | valid on 'valid' subset | nll_loss {bits:.3f} | ppl {ppl:g} | num_updates {update}
INFO | train | epoch {epoch:03d} | nll_loss 6.3 | ppl 70.5 | num_updates 77 | train_wall 40 | wall {wall}
"""


def log(first_epoch: int, curve: dict[int, float]) -> str:
    """What fairseq logs at the ends of epochs, with the loss by update."""
    return "".join(
        LOG.format(epoch=epoch, update=update, bits=bits, ppl=2**bits, wall=50 * epoch)
        for epoch, (update, bits) in enumerate(curve.items(), start=first_epoch)
    )


def test_validations_are_read_and_those_of_a_resumed_training_replaced(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(log(1, {100: 5.0, 200: 4.5}) + log(2, {200: 4.0, 300: 3.0}), encoding="utf-8")
    found = read_training_log(path)
    assert found == TrainingLog({1: 32.0, 2: 16.0, 3: 8.0}, {100: 5.0, 200: 4.0, 300: 3.0}, 150)


@pytest.mark.parametrize(
    ("curve", "falls"),
    [
        ({900: 4.0, 1000: 4.0 - math.log2(1.02)}, True),
        ({900: 4.0, 1000: 4.0 - math.log2(1.005)}, False),
        ({800: 4.0, 900: 4.1, 950: 4.2, 1000: 4.3}, False),  # rises
        ({1000: 4.0}, False),  # validated once
        ({}, False),
        ({950: 4.0, 1000: 3.0}, False),  # not validated before the last tenth
    ],
)
def test_falling_loss_at_the_end_is_warned_of(curve: dict[int, float], falls: bool) -> None:
    assert bool(warning("mix", curve)) == falls


@pytest.mark.parametrize(("start", "warned"), [({}, True), ({"finetune-from-model": "there.pt"}, False)])
def test_models_trained_elsewhere_are_not_judged(start: dict[str, str], warned: bool, tmp_path: Path) -> None:
    systems = {"mix": {**MIX, **start}, "mix-continued": MORE, "ad": AD}
    curves = {"mix": {900: 4.0, 1000: 3.5}, "mix-continued": {100: 3.0}}
    records = [
        Record(run=run, metric=BITS_BY_UPDATE, value=bits, dims={"update": update})
        for run, curve in curves.items()
        for update, bits in curve.items()
    ]
    found = warnings_of(config_of(tmp_path, systems, {}), Records(records))
    assert len(found) == (2 if warned else 0)


def test_a_base_that_gains_by_further_training_has_not_converged() -> None:
    assert warning_of_control("more", {100: 3.9}, "mix", {1000: 4.0})
    assert warning_of_control("more", {100: 3.97}, "mix", {1000: 4.0}) is None
