"""The control of an experiment with adapters: its base model, trained further on all domains.

Adapters are trained on top of a finished base model. Whatever further training alone would have gained is no merit of
theirs, so they are compared with the same base model after as many more updates.
"""

from __future__ import annotations

from collections.abc import Mapping

from fairseq_ext.engine.fairseq_cli import option_of
from fairseq_ext.experiments.translation.systems import TranslationSystem

# Architectures that add adapters to a base model; names of fairseq's presets begin with their model's.
_ADAPTERS = ("transformer_domain_adapter", "transformer_gated_adapter")

Systems = Mapping[str, TranslationSystem]


def has_adapters(system: TranslationSystem) -> bool:
    """Whether a system is a base model with adapters."""
    return _arch(system).startswith(_ADAPTERS)


def base_of(systems: Systems, name: str) -> str | None:
    """The system whose model a system with adapters was put on; None if it has no adapters, or no such system."""
    if not has_adapters(systems[name]):
        return None
    start = systems[name].start
    while start is not None and has_adapters(systems[start]):
        start = systems[start].start
    return start


def base_systems(systems: Systems) -> list[str]:
    """The systems that adapters were put on, in the order of the file."""
    found = {base_of(systems, name) for name in systems}
    return [name for name in systems if name in found]


def continued_systems(systems: Systems) -> dict[str, str]:
    """The controls, by name: which base model each of them continues, on all domains."""
    bases = base_systems(systems)
    return {
        name: system.start
        for name, system in systems.items()
        if system.start in bases
        and _arch(system) == _arch(systems[system.start])
        and not system.per_domain
        and option_of(system.options, "train-domains") is None
        and system.has_tags == systems[system.start].has_tags
    }


def _arch(system: TranslationSystem) -> str:
    return str(option_of(system.options, "arch"))
