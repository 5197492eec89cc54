"""Check whether a training has converged, from the validation loss in its log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_VALID = re.compile(r"\| valid on 'valid' subset \|.*?\| nll_loss (\S+) .*?\| num_updates (\d+)")
_LAST = 0.1  # share of the updates that is looked at
_FALL = 0.01  # of perplexity in that share, relative: a training whose loss falls faster has not converged
_GAIN = 0.03  # of perplexity, relative: a base model that gains more by further training has not converged


@dataclass(frozen=True)
class ValidationCurve:
    """The validation loss over the course of a training.

    Attributes:
        updates: of the measurements, in order.
        bits: negative log-likelihood, bits a token.
    """

    updates: Sequence[int]
    bits: Sequence[float]

    @property
    def fall(self) -> float | None:
        """The relative fall of perplexity in the last tenth of the updates, or None."""
        first = (1 - _LAST) * self.updates[-1] if self.updates else 0
        before = [bits for update, bits in zip(self.updates, self.bits, strict=True) if update <= first]
        after = [bits for update, bits in zip(self.updates, self.bits, strict=True) if update > first]
        return 1 - 2 ** (min(after) - min(before)) if before and after else None

    @property
    def still_falls(self) -> bool:
        """Whether the loss still fell at the end of the training."""
        return self.fall is not None and self.fall > _FALL


def read_curve(log: Path) -> ValidationCurve:
    """Read the curve from a training's log file. If an update occurs twice, after a restart, the last one counts."""
    text = log.read_text(encoding="utf-8", errors="replace")
    found = {int(update): float(bits) for bits, update in _VALID.findall(text)}
    updates = sorted(found)
    return ValidationCurve(updates, [found[update] for update in updates])


def warning(name: str, curve: ValidationCurve) -> str | None:
    """A warning if the base model's loss still fell at the end of its training, or None."""
    if not curve.still_falls:
        return None
    return _not_converged(
        name,
        f"in the last tenth of its {curve.updates[-1]:,} updates its validation perplexity still fell by "
        f"{100 * (curve.fall or 0):.0f} %",
    )


def warning_of_control(name: str, curve: ValidationCurve, base: str, base_curve: ValidationCurve) -> str | None:
    """A warning if the base model gains from further training, or None.

    Every loss levels off when the learning rate goes to zero, so the control is the better test.
    """
    fall = 1 - 2 ** (min(curve.bits) - min(base_curve.bits))
    if fall <= _GAIN:
        return None
    more = f"{name}, {curve.updates[-1]:,} updates more, has {100 * fall:.0f} % less validation perplexity"
    return _not_converged(base, more)


def _not_converged(base: str, why: str) -> str:
    return (
        f"{base} has not converged: {why}. Train it longer first: adapters compared with it look better than they are"
    )
