"""What the log file of a training says: perplexity by epoch, and time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_VALID = re.compile(r"epoch (\d+) \| valid on 'valid' subset \|.*?\| ppl (\S+)")
_TRAIN = re.compile(r"epoch (\d+) \|.*\| train_wall (\S+).*\| wall (\d+)")


@dataclass(frozen=True)
class TrainingLog:
    """What is told at the ends of epochs.

    Attributes:
        valid: perplexity of the validation set by epoch, counted from 1.
        seconds: the training took; what it took before it was stopped is in it. None if no epoch has ended.
    """

    valid: Mapping[int, float]
    seconds: int | None

    @property
    def best_epoch(self) -> int | None:
        """With the lowest perplexity; None without any."""
        return min(self.valid, key=lambda epoch: self.valid[epoch], default=None)


def read_training_log(path: Path) -> TrainingLog:
    """Read the log file of a training, which may have been stopped and gone on; of a repeated epoch the last counts.

    Raises:
        OSError: if it cannot be read.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    valid = {int(epoch): float(ppl) for epoch, ppl in _VALID.findall(text)}
    seconds = [int(wall) for _, _, wall in _TRAIN.findall(text)]
    return TrainingLog(valid, seconds[-1] if seconds else None)
