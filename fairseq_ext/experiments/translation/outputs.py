"""Outputs of a translation experiment: entries of ``translate: outputs``, each a way to use a system.

An output is made once with every run of its system, and named like it: ``gad``, ``gad@2`` for one of several seeds,
``ft@LAW`` for one of the domains.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairseq_ext.engine.fairseq_cli import option_of
from fairseq_ext.experiments.systems import named_entries, place_of, take
from fairseq_ext.experiments.translation.systems import TranslationSystem
from fairseq_ext.inputs.errors import InputError, shown
from fairseq_ext.inputs.sections import as_mapping
from fairseq_ext.recipes.config import Place, Run


@dataclass(frozen=True)
class Output:
    """A way to use a system.

    Attributes:
        name: its name.
        system: what translates.
        gates: whether the gates' weights are wanted.
        options: fairseq-generate's.
        entry: what the file says, ``translate: common`` included; finished translations are recognised by it.
        place: where the file says it.
    """

    name: str
    system: TranslationSystem
    gates: bool
    options: Mapping[str, Any]
    entry: Mapping[str, Any]
    place: Place

    @property
    def domain_source(self) -> str:
        """Where the domain comes from, as fairseq-generate is told; ``none`` also for what needs none."""
        source = str(option_of(self.options, "domain-source") or "oracle")
        is_given = option_of(self.options, "domain") or not self.system.needs_domain
        return "none" if source == "oracle" and is_given else source

    @property
    def uses_classifier(self) -> bool:
        """Whether the classifier's labels say by which adapters it translates."""
        return self.domain_source.startswith("classifier")

    @property
    def is_told(self) -> bool:
        """Whether it rests on knowing every sentence's domain."""
        return self.system.per_domain or self.domain_source == "oracle"

    def can_translate(self, domain: str | None) -> bool:
        """Whether it can translate text that is not in the data directory: all of one domain, or of no known one.

        Such text is typed, and typed lines can name a domain, but no weights.
        """
        return self.domain_source != "classifier-soft" and (domain is not None or not self.is_told)


@dataclass(frozen=True)
class OutputRun:
    """The translations that one run makes.

    Attributes:
        name: of the translations and their directory.
        output: the way in which they are made.
        run: the run that translates.
    """

    name: str
    output: Output
    run: Run

    @classmethod
    def of(cls, output: Output, run: Run) -> OutputRun:
        """An output made with one run of its system."""
        return cls(output.name + run.name.removeprefix(run.system.name), output, run)


def read_outputs(section: Mapping[str, Any], where: str, systems: Mapping[str, TranslationSystem]) -> dict[str, Output]:
    """The outputs of a section ``translate``, each with the options of ``translate: common`` first.

    Args:
        section: its content.
        where: the file and ``translate``, for messages.
        systems: the experiment's.

    Raises:
        InputError: naming a key that is not allowed or missing, or one of our own whose value cannot be used.
    """
    entries = named_entries(section, "outputs", where, others=["examples"])
    return {
        name: _read_output(name, entry, place_of(section, "outputs", name, where), systems)
        for name, entry in entries.items()
    }


def _read_output(name: str, entry: Mapping[str, Any], place: Place, systems: Mapping[str, TranslationSystem]) -> Output:
    where, options = place.where, dict(entry)
    system = take(options, "system", str, None, where)
    if not system:
        raise InputError(f"{where}: the key 'system' is missing")
    if "@" in system:
        raise InputError(f"{where}: system: give the system's name, not that of its run {system!r}")
    if system not in systems:
        raise InputError(f"{where}: system: no {system!r} under train: systems; there are {_listed(systems)}")
    return Output(name, systems[system], take(options, "gates", bool, False, where), options, entry, place)


def read_examples(section: Mapping[str, Any], where: str, outputs: Mapping[str, Output]) -> dict[str, list[str]]:
    """The lines to translate under ``translate: examples``, by output or run of one.

    Raises:
        InputError: naming an entry that is not a list of lines, or not of an output.
    """
    where = f"{where}: examples"
    examples = as_mapping(section.get("examples") or {}, where)
    for name, lines in examples.items():
        if not isinstance(lines, list) or not lines or not all(isinstance(line, str) for line in lines):
            raise InputError(f"{where}: {name}: expected a list of lines, got {shown(lines)}")
        check_output(name.partition("@")[0], outputs, where)
    return examples


def check_output(name: str, outputs: Mapping[str, Output], where: str) -> None:
    """Check that there is an output of this name.

    Raises:
        InputError: naming ``where`` and the name, otherwise.
    """
    if name not in outputs:
        raise InputError(f"{where}: no output {name!r}; there are {_listed(outputs)}")


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(names) or "none"
