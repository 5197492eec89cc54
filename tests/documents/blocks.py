"""The code blocks of README and docs: what they are, whether they are run, and the commands in them.

A block is a fence that names its language. What is not marked is run: ``sh`` by bash, ``python`` in one namespace a
page, each page in a project folder of its own (``project.py``). A comment on the line before leaves a block out::

    <!-- not run: takes long -->

for one of ``REASONS``. Every shell block, run or not, is parsed: scripts and configurations that it names exist,
and the tools take its options. Every Python block compiles, and what it imports is there; every YAML block keeps to the
schema of a kind of experiment. ``text`` is output or a file's contents, and not looked at.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LANGUAGES = ("sh", "python", "yaml", "text")
REASONS = (
    "an excerpt",  # with … for what is left to the reader
    "installs",  # into an environment or an image
    "needs a file of yours",  # a checkpoint, a language model, corpora
    "needs a GPU",
    "needs a network",
    "needs a server",  # that runs until it is stopped, or is one
    "needs another program",
    "needs several machines",
    "needs Slurm",
    "takes long",  # minutes to hours
)
_MARK = re.compile(r"<!-- not run: (.*) -->")
_SEPARATORS = set(";|&()<>")
_PYTHONS = ("python", "python3", "$python", ".venv/bin/python")
_KEYWORDS = ("do", "done", "then", "exec", "while", "for", "in", "bash", "nohup")
_ASSIGNMENT = re.compile(r"\w+=.*")


@dataclass(frozen=True)
class Block:
    """A code block."""

    page: Path
    line: int  # of the fence, from 1
    language: str  # as the fence names it; empty for an indented block
    text: str
    reason: str | None  # why it is not run; None if it is

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_in(page: Path) -> list[Block]:
    """The code blocks of a page, in order."""
    blocks: list[Block] = []
    reason = None
    for token in MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8")):
        if token.type in ("fence", "code_block"):
            assert token.map is not None
            blocks.append(Block(page, token.map[0] + 1, token.info.strip(), token.content, reason))
        mark = _MARK.fullmatch(token.content.strip()) if token.type == "html_block" else None
        reason = mark[1] if mark else None
    return blocks


def commands_in(text: str) -> Iterator[list[str]]:
    """The words of each command, its program first: a script, a module (``-m NAME``) or a tool's name."""
    for line in re.sub(r"\$\([^)]*\)", "…", text.replace("\\\n", " ")).splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        command: list[str] = []
        for word in [*words, ";"]:
            if not set(word) <= _SEPARATORS:
                command.append(word)
            elif word.strip("<>"):  # a redirection does not end a command
                yield from filter(None, [_without_prefix(command)])
                command = []


def _without_prefix(words: list[str]) -> list[str]:
    """A command less keywords of the shell, assignments and Python in front of a script or module."""
    while words and (words[0] in (*_KEYWORDS, *_PYTHONS) or _ASSIGNMENT.fullmatch(words[0])):
        words = words[1:]
    return words[1:] if words[:1] == ["-m"] else words
