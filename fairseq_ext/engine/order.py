"""Which steps are made from which, and which of them may run beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeVar


class Made(Protocol):
    """What is made at one place from what lies at others."""

    @property
    def output(self) -> Path: ...

    @property
    def inputs(self) -> Sequence[Path]: ...


M = TypeVar("M", bound=Made)


def made_from(steps: Sequence[Made]) -> list[set[int]]:
    """Of each step the numbers of those before it whose outputs are among its inputs."""
    numbers = {step.output: number for number, step in enumerate(steps)}
    found = [
        {numbers[path] for given in step.inputs for path in (given, *given.parents) if path in numbers}
        for step in steps
    ]
    return [{other for other in others if other < number} for number, others in enumerate(found)]


def with_company(steps: Sequence[M]) -> Iterator[list[M]]:
    """The steps in their order; alone is what all others lead to or wait for."""
    before = made_from(steps)
    for others in before:
        others |= {further for other in others for further in before[other]}
    group: list[M] = []
    for number, step in enumerate(steps):
        if len(before[number]) == number and all(number in later for later in before[number + 1 :]):
            if group:
                yield group
            yield [step]
            group = []
        else:
            group.append(step)
    if group:
        yield group
