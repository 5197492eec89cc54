"""Reading a YAML file as plain data: text, finite numbers, true and false, null, lists and mappings, and nothing else.

A file is small and its values are, too. So all that a later reader does with a value, such as printing it, takes
bounded time and memory.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from fairseq_ext.inputs.errors import InputError, shown

_LARGEST_FILE = 1 << 20  # bytes
_DEEPEST = 30
# Characters and nodes of a file with every alias written out.
_LARGEST_CONTENT = 1 << 18
_LARGEST_NUMBER = 1 << 63
_LONGEST_NUMBER = 100  # characters

_TAG = "tag:yaml.org,2002:"
_NUMBERS = {_TAG + "int": "whole number", _TAG + "float": "number"}
_MERGE = _TAG + "merge"  # of the key <<
_SCALARS = {_TAG + "null", _TAG + "bool", _TAG + "str", _MERGE, *_NUMBERS}
_TAGS: dict[type[Node], set[str]] = {ScalarNode: _SCALARS, SequenceNode: {_TAG + "seq"}, MappingNode: {_TAG + "map"}}
_NO_NAME = 'in "<unicode string>", '  # what PyYAML calls a file that it has not opened itself
# Control characters but the tab, line breaks of all kinds, and halves of characters.
_NO_TEXT = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def load_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file whose top level is a mapping.

    Raises:
        InputError: if it cannot be read, is no YAML, repeats a key, or holds what is no plain data or too much of it.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_FILE + 1)
        if len(data) > _LARGEST_FILE:
            raise InputError(f"{path}: is larger than {_LARGEST_FILE >> 20} MiB; give an experiment file")
        content = yaml.load(data.decode("utf-8"), Loader=_PlainLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    except yaml.YAMLError as error:
        raise InputError(f"{path}: is not valid YAML: {' '.join(str(error).replace(_NO_NAME, '').split())}") from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected keys and values, got {shown(content)}")
    return content


class _PlainLoader(yaml.SafeLoader):
    """A loader that refuses what is not plain, is nested deeply or grows beyond bounds as aliases are written out.

    All is checked as nodes are composed: merging mappings and making values then take bounded time.
    """

    # A date is text, and so is "=".
    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag in _SCALARS]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0
        # With aliases written out: characters and nodes, and levels.
        self._sizes: dict[Node, int] = {}
        self._heights: dict[Node, int] = {}

    def compose_node(self, parent: Node | None, index: Any) -> Node:
        """Compose a node and all below it, and check them."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        is_alias = isinstance(event, yaml.AliasEvent)
        if self._depth == _DEEPEST:
            raise _error(f"is nested deeper than {_DEEPEST}", event)
        self._depth += 1
        node: Node = super().compose_node(parent, index)  # type: ignore[assignment]
        self._depth -= 1
        if is_alias and node not in self._sizes:
            raise _error("holds an alias of itself", node)
        if not is_alias:
            self._check(node)
            self._measure(node)
        if self._depth + self._heights[node] > _DEEPEST:
            raise _error(f"is nested deeper than {_DEEPEST} with its aliases written out", event)
        return node

    def _check(self, node: Node) -> None:
        if node.tag not in _TAGS[type(node)]:
            raise _error(f"has the tag {shown(node.tag)}, which is none of plain data", node)
        if isinstance(node, ScalarNode) and node.tag != _MERGE:
            self._check_scalar(node)
        if isinstance(node, MappingNode):
            self._check_keys(node)

    def _check_scalar(self, node: ScalarNode) -> None:
        if node.tag in _NUMBERS and len(node.value) > _LONGEST_NUMBER:
            raise _error(f"{shown(node.value)} is too long for a number", node)
        try:
            value = self.construct_object(node)  # type: ignore[no-untyped-call]
        except (ValueError, LookupError, ArithmeticError):
            raise _error(f"{shown(node.value)} is no {_NUMBERS.get(node.tag, 'true or false')}", node) from None
        if problem := _problem_of(value):
            raise _error(f"{shown(value)} {problem}", node)

    def _check_keys(self, node: MappingNode) -> None:
        """Check that keys are words, and differ; PyYAML keeps the last of two equal ones without a word.

        One that comes with ``<<: *other`` may be repeated, as it is there to be changed.
        """
        seen = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, ScalarNode):
                raise _error("a key is no plain word", key_node)
            key = _MERGE if key_node.tag == _MERGE else self.construct_object(key_node)  # type: ignore[no-untyped-call]
            if key in seen:
                raise _error(f"repeated key {shown(key_node.value)}", key_node)
            seen.add(key)

    def _measure(self, node: Node) -> None:
        pairs = node.value if isinstance(node, MappingNode) else []
        below = node.value if isinstance(node, SequenceNode) else [item for pair in pairs for item in pair]
        own = len(node.value) if isinstance(node, ScalarNode) else 0
        self._sizes[node] = 1 + own + sum(self._sizes[item] for item in below)
        self._heights[node] = 1 + max((self._heights[item] for item in below), default=0)
        if self._sizes[node] > _LARGEST_CONTENT:
            raise _error(f"is more than {_LARGEST_CONTENT:,} characters with its aliases written out", node)


def _error(problem: str, where: Any) -> ConstructorError:
    return ConstructorError(None, None, problem, where.start_mark)


def _problem_of(value: Any) -> str | None:
    """What keeps a scalar from being plain."""
    if isinstance(value, str) and _NO_TEXT.search(value):
        return "holds a line break or control character; take it out"
    if isinstance(value, float) and not math.isfinite(value):
        return "is no finite number"
    if isinstance(value, int) and abs(value) >= _LARGEST_NUMBER:
        return "is too large"
    return None
