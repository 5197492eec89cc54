"""Reading a YAML file as plain data: text, finite numbers, true and false, null, lists and mappings, and nothing else.

A file is small and its values are, too. So all that a later reader does with a value takes bounded time and memory.
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
    """Read a YAML file whose top level is a mapping."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_FILE + 1)
        if len(data) > _LARGEST_FILE:
            raise InputError(f"{path}: is larger than {_LARGEST_FILE >> 20} MiB; give an experiment file")
        content = _Reader(data.decode("utf-8")).content()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    except RecursionError:
        raise InputError(f"{path}: is nested deeper than {_DEEPEST}") from None
    except yaml.YAMLError as error:
        raise InputError(f"{path}: is not valid YAML: {' '.join(str(error).replace(_NO_NAME, '').split())}") from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: expected keys and values, got {shown(content)}")
    return content


class _Reader(yaml.SafeLoader):
    """Makes values of nodes. Each alias is written out, so bounds of depth and size hold for what comes out."""

    # A date is text, and so is "=".
    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag in _SCALARS]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def content(self) -> Any:
        """The value of the whole file."""
        self._left = _LARGEST_CONTENT
        node = self.get_single_node()  # type: ignore[no-untyped-call]
        return None if node is None else self._value(node, 0)

    def _value(self, node: Any, depth: int) -> Any:
        self._left -= 1 + (len(node.value) if isinstance(node, ScalarNode) else 0)
        if self._left < 0:
            raise _error(f"is more than {_LARGEST_CONTENT:,} characters with its aliases written out", node)
        if depth == _DEEPEST:
            raise _error(f"is nested deeper than {_DEEPEST}", node)
        if node.tag not in _TAGS[type(node)]:
            raise _error(f"has the tag {shown(node.tag)}, which is none of plain data", node)
        if isinstance(node, ScalarNode):
            return self._scalar(node)
        if isinstance(node, SequenceNode):
            return [self._value(item, depth + 1) for item in node.value]
        return self._mapping(node, depth)

    def _scalar(self, node: ScalarNode) -> Any:
        if node.tag in _NUMBERS and len(node.value) > _LONGEST_NUMBER:
            raise _error(f"{shown(node.value)} is too long for a number", node)
        if node.tag == _MERGE:
            return node.value
        try:
            value = self.construct_object(node)  # type: ignore[no-untyped-call]
        except (ValueError, LookupError, ArithmeticError):
            raise _error(f"{shown(node.value)} is no {_NUMBERS.get(node.tag, 'true or false')}", node) from None
        if problem := _problem_of(value):
            raise _error(f"{shown(value)} {problem}", node)
        return value

    def _mapping(self, node: MappingNode, depth: int) -> dict[Any, Any]:
        """Keys are words and differ; those that come with ``<<: *other`` may be given again, as they may be changed."""
        own: dict[Any, Any] = {}
        merged: dict[Any, Any] = {}
        seen = set()
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                raise _error("a key is no plain word", key_node)
            key, value = self._value(key_node, depth + 1), self._value(value_node, depth + 1)
            if key in seen:
                raise _error(f"repeated key {shown(key_node.value)}", key_node)
            seen.add(key)
            if key_node.tag != _MERGE:
                own[key] = value
                continue
            for other in value if isinstance(value, list) else [value]:
                if not isinstance(other, dict):
                    raise _error(f"expected a mapping after <<, got {shown(other)}", value_node)
                merged = {**other, **merged}
        return {**merged, **own}


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
