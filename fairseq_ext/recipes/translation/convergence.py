"""Check whether a training has converged, from the validation loss in its log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

Curve = Mapping[int, float]  # by update the validation loss, bits a token

_VALID = re.compile(r"\| valid on 'valid' subset \|.*?\| nll_loss (\S+) .*?\| num_updates (\d+)")
_LAST = 0.1  # share of the updates that is looked at
_FALL = 0.01  # of perplexity in that share, relative: a training whose loss falls faster has not converged
_GAIN = 0.03  # of perplexity, relative: a base model that gains more by further training has not converged


def read_curve(log: Path) -> Curve:
    """Read the curve from a training's log file. If an update occurs twice, after a restart, the last one counts."""
    text = log.read_text(encoding="utf-8", errors="replace")
    return dict(sorted({int(update): float(bits) for bits, update in _VALID.findall(text)}.items()))


def warning(name: str, curve: Curve) -> str | None:
    """A warning if the base model's loss still fell at the end of its training, or None."""
    last = max(curve, default=0)
    before = [bits for update, bits in curve.items() if update <= (1 - _LAST) * last]
    after = [bits for update, bits in curve.items() if update > (1 - _LAST) * last]
    fall = 1 - 2 ** (min(after) - min(before)) if before and after else 0
    if fall <= _FALL:
        return None
    why = f"in the last tenth of its {last:,} updates its validation perplexity still fell by {100 * fall:.0f} %"
    return _not_converged(name, why)


def warning_of_control(name: str, curve: Curve, base: str, base_curve: Curve) -> str | None:
    """A warning if the base model gains from further training, or None.

    Every loss levels off when the learning rate goes to zero, so the control is the better test.
    """
    fall = 1 - 2 ** (min(curve.values()) - min(base_curve.values()))
    if fall <= _GAIN:
        return None
    more = f"{name}, {max(curve):,} updates more, has {100 * fall:.0f} % less validation perplexity"
    return _not_converged(base, more)


def _not_converged(base: str, why: str) -> str:
    return (
        f"{base} has not converged: {why}. Train it longer first: adapters compared with it look better than they are"
    )
