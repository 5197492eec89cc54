#!/usr/bin/env python3
"""Write ``docs/api.md``: the Python interface, and classes registered with fairseq, from docstrings and options."""

import argparse
import dataclasses
import importlib
import inspect
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from fairseq_ext.base.own_python import use_own_python

use_own_python()

from fairseq_ext.base.errors import run_command

PAGE = ROOT / "docs" / "api.md"
# The stable public interface.
INTERFACE = {
    "fairseq_ext.hub": ["DomainTranslator"],
    "fairseq_ext.serve": ["SystemTranslator", "Request", "Answer", "Candidate"],
    "fairseq_ext.base.errors": ["InputError"],
}
# Public methods that only the commands and the server need.
INNER = {"count_pieces", "extra_work", "divided"}
_SECTIONS = ("Args", "Attributes", "Raises", "Returns", "Shape", "Yields")


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=PAGE, help="file to write (default: docs/api.md)")
    parser.parse_args().output.write_text(reference(), encoding="utf-8")


def reference() -> str:
    """Return the page."""
    parts = [
        "# Python interface and registered components",
        "`tools/write_reference.py` makes this page from docstrings and options, and a test compares them. "
        "[From Python](using.md#from-python) and [Adapters and gates](gated-adapters.md) say how to use it.",
        *_interface(),
        *_registered(),
    ]
    return "\n\n".join(parts) + "\n"


def _interface() -> Iterator[str]:
    """Yield classes by module, with their public methods."""
    yield "## From Python"
    for module_name, names in INTERFACE.items():
        module = importlib.import_module(module_name)
        for name in names:
            owner = getattr(module, name)
            yield f"### `{module_name}.{name}`"
            yield markdown(owner)
            for method, function in _methods(owner):
                yield f"**`{method}{_signature(function)}`**"
                yield markdown(function)


def _methods(owner: type) -> Iterator[tuple[str, Any]]:
    """Yield the documented methods of a class, in source order."""
    for name, value in vars(owner).items():
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if not name.startswith("_") and name not in INNER and inspect.isfunction(function) and function.__doc__:
            yield name, function


def _signature(function: Any) -> str:
    """Return the signature without types."""
    signature = inspect.signature(function)
    own = [value for name, value in signature.parameters.items() if name not in ("self", "cls")]
    bare = [value.replace(annotation=inspect.Parameter.empty) for value in own]
    return re.sub(r"<function .*? at 0x[0-9a-f]+>", "…", str(inspect.Signature(bare)))


def markdown(owner: Any) -> str:
    """Convert a Google-style docstring to Markdown: roles and double backticks become code, sections become lists."""
    text = re.sub(r":\w+:`~?([^`]*)`", r"`\1`", inspect.getdoc(owner) or "").replace("``", "`")
    text = re.sub(
        r"^::\n\n((?: {4}.*\n)+)", lambda literal: f"```text\n{dedent(literal[1])}```\n", text, flags=re.MULTILINE
    )
    lines: list[str] = []
    in_section = False
    for line in text.splitlines():
        if line.rstrip(":") in _SECTIONS and line.endswith(":"):
            lines += [f"*{line[:-1]}*", ""]
            in_section = True
        elif in_section and re.match(r" {4}\S", line):
            name, colon, rest = line.strip().partition(": ")
            lines.append(f"* `{name}`: {rest}" if colon else f"* {line.strip()}")
        elif in_section and not line.startswith(" ") and line:
            lines.append(line)
            in_section = False
        else:
            lines.append(f"  {line.strip()}" if in_section and line else line)
    return "\n".join(lines)


@dataclasses.dataclass(frozen=True)
class Component:
    """A class registered with fairseq."""

    name: str
    presets: list[str]
    text: str
    options: list[tuple[str, str]]  # with their help

    def section(self, shared: Mapping[tuple[str, str], int]) -> Iterator[str]:
        """Yield paragraphs; shared options by name only."""
        yield f"### `{self.name}`"
        if self.presets:
            yield "Presets: " + ", ".join(f"`{preset}`" for preset in self.presets) + "."
        yield self.text
        if own := [option for option in self.options if shared[option] == 1]:
            yield option_list(own)
        if names := [f"`--{option[0]}`" for option in self.options if shared[option] > 1]:
            yield f"Shared options: {', '.join(names)}."


def _registered() -> Iterator[str]:
    """Yield architectures, criterions and tasks, each with its options; shared ones once."""
    registration = importlib.import_module("fairseq_ext.registration")
    for kind, package in (("arch", "models"), ("criterion", "criterions"), ("task", "tasks")):
        modules = [
            module
            for module in _modules(getattr(registration, package))
            if f"@register_{kind.replace('arch', 'model')}(" in inspect.getsource(module)
        ]
        components = [_component(module) for module in modules]
        shared = Counter(option for each in components for option in each.options)
        yield f"## `--{kind}`"
        if several := [option for option, count in shared.items() if count > 1]:
            yield f"Shared options:\n\n{option_list(several)}"
        for each in components:
            yield from each.section(shared)


def option_list(options: Iterable[tuple[str, str]]) -> str:
    """Return options with their help as a list."""
    return "\n".join(f"* `--{name}`: {words}" for name, words in options)


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    for path in sorted(Path(str(package.__file__)).parent.glob("[a-z]*.py")):
        yield importlib.import_module(f"{package.__name__}.{path.stem}")


def _component(module: ModuleType) -> Component:
    """Return the component that a module registers under its own name; of architectures the first paragraph."""
    name = module.__name__.rpartition(".")[2]
    own = [each for each in vars(module).values() if inspect.isclass(each) and each.__module__ == module.__name__]
    configs = [each for each in own if dataclasses.is_dataclass(each)]
    component = next(
        each for each in own if each not in configs and re.search("(Model|Criterion|Task|LM)$", each.__name__)
    )
    registry = importlib.import_module("fairseq.models").ARCH_MODEL_INV_REGISTRY
    config = getattr(component, "config_class", None) or next(reversed(configs), None)
    text = markdown(component).partition("\n\n*Attributes*" if registry.get(name) is None else "\n\n")[0]
    return Component(name, sorted(set(registry.get(name, [])) - {name}), text, [*options_of(config)] if config else [])


def options_of(config: type) -> Iterator[tuple[str, str]]:
    """Yield the options that a dataclass has from this package, with their help."""
    ours = [each for each in config.__mro__ if each.__module__.startswith("fairseq_ext.")]
    names = {name for each in ours for name in vars(each).get("__annotations__", {})}
    for item in dataclasses.fields(config):
        if item.name in names and "help" in item.metadata:
            yield item.name.replace("_", "-"), item.metadata["help"]


if __name__ == "__main__":
    run_command(main)
