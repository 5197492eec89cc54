"""The messages that docs/installing.md explains are messages of the code."""

from __future__ import annotations

import ast
import functools
import re

import pytest

from tests.documents.blocks import ROOT

PAGE = (ROOT / "docs" / "installing.md").read_text(encoding="utf-8").partition("## Dependencies")[0]
MESSAGES = re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE)


def template(node: ast.expr) -> str:
    """A text with … for each value in it."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join("…" if isinstance(part, ast.FormattedValue) else template(part) for part in node.values)
    return ""


@functools.cache
def templates() -> frozenset[str]:
    """All texts of the package and the scripts."""
    files = [*(ROOT / "fairseq_ext").rglob("*.py"), *(ROOT / "scripts").glob("*.py")]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in files]
    shell = [line for path in (ROOT / "scripts").glob("*.sh") for line in path.read_text(encoding="utf-8").splitlines()]
    nodes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant | ast.JoinedStr))
    return frozenset([*map(template, nodes), *shell])


def test_the_page_explains_some() -> None:
    assert len(MESSAGES) >= 20
    assert len(set(MESSAGES)) == len(MESSAGES)


@pytest.mark.parametrize("message", MESSAGES)
def test_messages_are_those_of_the_code(message: str) -> None:
    assert any(message in each for each in templates())
