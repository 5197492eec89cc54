"""Read a YAML file as plain data: only text, finite numbers, booleans, null, lists and mappings.

The sizes of files and values are limited, so that processing them takes bounded time and memory.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, ScalarNode

from fairseq_ext.base.errors import InputError, shown

_LARGEST_FILE = 1 << 20  # bytes
_DEEPEST = 30
# Limit of characters and nodes with all aliases expanded.
_LARGEST_CONTENT = 1 << 18
_LARGEST_NUMBER = 1 << 63

_SCALARS = {f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "str", "int", "float", "merge")}
_TAGS = _SCALARS | {"tag:yaml.org,2002:seq", "tag:yaml.org,2002:map"}
_NO_NAME = 'in "<unicode string>", '  # PyYAML's name for text without a file
# Control characters except the tab, all kinds of line breaks, and surrogates.
_NO_TEXT = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def load_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file whose top level is a mapping."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    if len(data) > _LARGEST_FILE:
        raise InputError(f"{path}: is larger than {_LARGEST_FILE >> 20} MiB; give an experiment file")
    return parse_yaml(data, str(path))


def parse_yaml(data: bytes, where: str) -> dict[str, Any]:
    """Parse a mapping; ``where`` names its place in error messages."""
    try:
        content = _Reader(data.decode("utf-8")).content()
    except RecursionError:
        raise InputError(f"{where}: is nested deeper than {_DEEPEST}") from None
    except yaml.YAMLError as error:
        raise InputError(f"{where}: is not valid YAML: {' '.join(str(error).replace(_NO_NAME, '').split())}") from None
    except (ValueError, LookupError, ArithmeticError) as error:
        raise InputError(f"{where}: cannot be read ({error})") from None
    if not isinstance(content, dict):
        raise InputError(f"{where}: expected keys and values, got {shown(content)}")
    return content


class _Reader(yaml.SafeLoader):
    """A safe loader that checks nodes before constructing values."""

    # Without the resolvers for dates and "=", which are read as text.
    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag in _SCALARS]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def content(self) -> Any:
        """Return the value of the whole file."""
        self._left = _LARGEST_CONTENT
        node = self.get_single_node()  # type: ignore[no-untyped-call]
        if node is None:
            return None
        self._check(node, 0)
        return self.construct_document(node)  # type: ignore[no-untyped-call]

    def fetch_flow_collection_start(self, token: Any) -> None:
        """Read a bracket. PyYAML's time is quadratic in the depth of brackets, so it is checked here already."""
        if self.flow_level > _DEEPEST:
            raise ConstructorError(None, None, f"is nested deeper than {_DEEPEST}", self.get_mark())  # type: ignore[no-untyped-call]
        super().fetch_flow_collection_start(token)  # type: ignore[no-untyped-call]

    def _check(self, node: Any, depth: int) -> None:
        """Check a node and its children, counting aliases as expanded, so that limits hold for constructed values."""
        self._left -= 1 + (len(node.value) if isinstance(node, ScalarNode) else 0)
        if self._left < 0:
            raise _error(f"has more than {_LARGEST_CONTENT:,} characters with aliases expanded", node)
        if depth == _DEEPEST:
            raise _error(f"is nested deeper than {_DEEPEST}", node)
        if node.tag not in _TAGS:
            raise _error(f"has the tag {shown(node.tag)}, which is not supported; remove it", node)
        if isinstance(node, ScalarNode):
            return
        inner = node.value
        if isinstance(node, MappingNode):
            counts = Counter(key.value for key, _ in node.value if isinstance(key, ScalarNode))
            for key, count in counts.items():
                if count > 1:
                    raise _error(f"repeated key {shown(key)}", node)
            inner = chain.from_iterable(node.value)
        for each in inner:
            self._check(each, depth + 1)

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        """Return the value of a node; text must be a single line, and numbers finite."""
        value = super().construct_object(node, deep)  # type: ignore[no-untyped-call]
        if isinstance(value, str) and _NO_TEXT.search(value):
            raise _error(f"{shown(value)} has a line break or control character; remove it", node)
        if isinstance(value, int | float) and not abs(value) < _LARGEST_NUMBER:
            raise _error(f"{shown(node.value)} is too large or not a number", node)
        return value


def _error(problem: str, where: Any) -> ConstructorError:
    return ConstructorError(None, None, problem, where.start_mark)
