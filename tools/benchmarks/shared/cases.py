"""Cases of a verb, each of which does the same work in every round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Figures = Mapping[str, float]


class MissingError(Exception):
    """Raised if the measured code does not support a case; the message gives the reason."""


@dataclass(frozen=True)
class Ready:
    """A case with its models and files prepared.

    Attributes:
        run: function that does the work of one round. The figures that it returns are added to the round's figures, and
            override those of the same name: ``wall`` and ``cpu`` seconds, ``rate`` (work per second), ``peak`` (MiB).
        facts: figures that are the same in every round.
        close: function called after the last round.
    """

    run: Callable[[], Figures | None]
    facts: Figures = field(default_factory=dict)
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Case:
    """One thing to measure, in a process with the code of one checkout on its path.

    Attributes:
        name: name, unique within the verb.
        prepare: function that prepares the case in a separate empty folder, and imports heavy modules. It may only use
            features of the oldest checkout to compare, and raises :class:`MissingError` otherwise.
        amount: work per round, for the rate; None if seconds are reported.
        baselines: names of cases of the same group and code, relative to which the rate is reported.
        group: name of a group; cases of a group alternate, and groups run one after the other.
        own_process: whether to also run one round in a separate process, for its peak memory.
    """

    name: str
    prepare: Callable[[Path], Ready]
    amount: float | None = None
    baselines: tuple[str, ...] = ()
    group: str = ""
    own_process: bool = False
