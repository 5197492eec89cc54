"""Convergence of training runs: records of validation loss, and warnings about base models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from fairseq_ext.experiments.metrics.records import Record, Records
from fairseq_ext.experiments.train import LOG_FILE, read_training_log, system_dir
from fairseq_ext.experiments.translation.config import Translation

UPDATES, BITS, BITS_BY_UPDATE = "updates", "validation bits", "validation bits by update"  # metrics
_LAST = 0.1  # share of updates, at the end, that is examined
_FALL = 0.01  # relative decrease in perplexity over that share above which a run has not converged
_GAIN = 0.03  # relative gain in perplexity by further training above which a base model has not converged

Curve = Mapping[int, float]  # validation loss by update, in bits per token


def curve_records(config: Translation) -> Iterator[Record]:
    """Yield the updates, lowest validation loss and validation loss by update of each run."""
    for run in config.all_runs:
        log = system_dir(config, run.name) / LOG_FILE
        curve = read_training_log(log).bits if log.is_file() else {}
        if curve:
            of = partial(Record, system=run.system.name, run=run.name, seed=run.seed)
            yield of(metric=UPDATES, value=max(curve))
            yield of(metric=BITS, value=min(curve.values()))
            for update, bits in curve.items():
                yield of(metric=BITS_BY_UPDATE, value=bits, dims={"update": update})


def curves_of(records: Records) -> dict[str, dict[int, float]]:
    """Return the validation loss by update of each run."""
    curves: dict[str, dict[int, float]] = {}
    for record in records.select(BITS_BY_UPDATE):
        curves.setdefault(record.run, {})[int(record.dims["update"])] = record.value
    return curves


def warnings_of(config: Translation, records: Records) -> list[str]:
    """Return warnings about base models that have not converged.

    A model that starts from one trained elsewhere is useful as soon as it is better, so there are none about it.
    """
    curves, bases = curves_of(records), list(filter(config.starts_here, config.base_systems))
    warnings = [warning(name, curves[name]) for name in curves if name.partition("@")[0] in bases]
    for system, base in config.continued_systems.items():
        if base not in bases:
            continue
        name, base_name = config.runs_of(system)[0].name, config.runs_of(base)[0].name
        if name in curves and base_name in curves:
            warnings.append(warning_of_control(name, curves[name], base_name, curves[base_name]))
    return [text for text in warnings if text]


def warning(name: str, curve: Curve) -> str | None:
    """Return a warning if the base model's loss was still falling at the end of training, or None."""
    last = max(curve, default=0)
    before = [bits for update, bits in curve.items() if update <= (1 - _LAST) * last]
    after = [bits for update, bits in curve.items() if update > (1 - _LAST) * last]
    fall = 1 - 2 ** (min(after) - min(before)) if before and after else 0
    why = f"in the last tenth of its {last:,} updates its validation perplexity still fell by {100 * fall:.0f} %"
    return _not_converged(name, why) if fall > _FALL else None


def warning_of_control(name: str, curve: Curve, base: str, base_curve: Curve) -> str | None:
    """Return a warning if the base model gains from further training, or None.

    Every loss levels off when the learning rate goes to zero, so the control is the better test.
    """
    fall = 1 - 2 ** (min(curve.values()) - min(base_curve.values()))
    more = f"{name}, trained for {max(curve):,} more updates, has {100 * fall:.0f} % less validation perplexity"
    return _not_converged(base, more) if fall > _GAIN else None


def _not_converged(base: str, why: str) -> str:
    return f"{base} has not converged: {why}. Train it longer first: otherwise the gain of adapters is overestimated"
