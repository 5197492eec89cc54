"""What a verb measures: cases, each of which does the same work in every round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Figures = Mapping[str, float]


class MissingError(Exception):
    """The code at hand has not what a case measures; the message says what."""


@dataclass(frozen=True)
class Ready:
    """A case whose models and files are there.

    Attributes:
        run: does the work of one round. What it returns joins the round's figures, in place of those of the same name
            that were taken around it: ``wall`` and ``cpu`` seconds, ``rate`` (work a second), ``peak``
            (MiB).
        facts: figures that are the same in every round.
        close: called when no round is left.
    """

    run: Callable[[], Figures | None]
    facts: Figures = field(default_factory=dict)
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Case:
    """One thing to measure, in a process that has the code of one checkout on its path.

    Attributes:
        name: unique within the verb.
        prepare: makes it ready, in an empty folder of its own; imports what is heavy. It may use only what the oldest
            checkout to compare with has, and raises :class:`MissingError` for the rest.
        amount: work of a round, for the rate; None where seconds are what is told.
        baselines: names of the cases whose rates this one's is told by, in the same code; of the same group.
        group: cases of one group take turns; those of another begin when all of its rounds are done.
        own_process: also run one round in a process of its own, for its peak memory.
    """

    name: str
    prepare: Callable[[Path], Ready]
    amount: float | None = None
    baselines: tuple[str, ...] = ()
    group: str = ""
    own_process: bool = False
