"""Systems of a translation experiment: what its models must be told of the text they translate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fairseq_ext.engine.fairseq_cli import option_of
from fairseq_ext.experiments.systems import take
from fairseq_ext.inputs.errors import InputError, shown
from fairseq_ext.recipes.config import System, read_systems

# Models whose ``needs_domains`` holds; the names of fairseq's presets begin with their model's. The models themselves
# cannot be asked without loading torch, which no plan should wait for.
_TOLD_THE_DOMAIN = ("transformer_domain_adapter",)


class TranslationSystem(System):
    """A system that translates."""

    needs_domain: bool = False
    """Whether it must be told the domain of what it translates; where the file does not say, this follows from its tags
    and its architecture."""
    label_noise: float = 0.0
    """Share of the training sentences, from 0 to 1, whose label is made wrong."""
    unlabelled: list[str] = []
    """Domains whose training sentences have no label."""

    @property
    def has_tags(self) -> bool:
        """Whether a domain tag opens its sentences."""
        return bool(option_of(self.options, "domain-tags"))


def read_translation_systems(section: Mapping[str, Any], where: str) -> dict[str, TranslationSystem]:
    """The systems of a section ``train``; see :func:`~fairseq_ext.recipes.config.read_systems`.

    Raises:
        InputError: naming a key, value or system that cannot be used.
    """
    systems = read_systems(section, where)
    return {name: _read(system, f"{where}: systems: {name}") for name, system in systems.items()}


def _read(system: System, where: str) -> TranslationSystem:
    options = dict(system.options)
    given = take(options, "needs_domain", bool, None, where)
    needs_domain = implies_domain(options) if given is None else given
    values = {key: options.pop(key, None) for key in _LABELS}
    labels = {key: _LABELS[key](value, system, f"{where}: {key}") for key, value in values.items() if value is not None}
    return TranslationSystem.model_construct(
        **{**vars(system), "options": options}, needs_domain=needs_domain, **labels
    )


def _noise(value: Any, system: System, where: str) -> float:
    """The share of labels to make wrong.

    Raises:
        InputError: naming ``where``, if it is no share, or the system learns no labels of the classifier.
    """
    if not _is_number(value) or not 0 <= value <= 1:
        raise InputError(f"{where}: expected a share from 0 to 1, got {shown(value)}")
    _check_learns_labels(system, where)
    return float(value)


def _unlabelled(value: Any, system: System, where: str) -> list[str]:
    """The domains without labels; whether there are such is seen when these are known.

    Raises:
        InputError: naming ``where``, if it is no list of names, or the system learns no labels of the classifier.
    """
    names = value if isinstance(value, list) else [value]
    if not all(isinstance(name, str) for name in names):
        raise InputError(f"{where}: expected names of domains, got {shown(value)}")
    _check_learns_labels(system, where)
    return names


def _check_learns_labels(system: System, where: str) -> None:
    """
    Raises:
        InputError: naming ``where``, if the system is not given the classifier's labels, or does not look at them.
    """
    if not system.uses_teacher:
        raise InputError(f"{where}: is of the classifier's labels; write uses_teacher: true")
    if option_of(system.options, "gate-target") == "domain":
        raise InputError(f"{where}: with gate-target domain no label is learnt; take one of them out")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)  # isinstance(True, int) holds


# What an entry may say of the labels that its system learns.
_LABELS: Mapping[str, Callable[[Any, System, str], Any]] = {
    "label_noise": _noise,
    "unlabelled": _unlabelled,
}


def implies_domain(options: Mapping[str, Any]) -> bool:
    """Whether a system with these options of fairseq-train must be told the domain of what it translates."""
    arch = str(option_of(options, "arch"))
    return bool(option_of(options, "domain-tags")) or arch.startswith(_TOLD_THE_DOMAIN)
