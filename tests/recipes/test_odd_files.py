"""Whatever an experiment file holds: its command goes through or says one line, in bounded time, and writes nothing.

The shipped files of all kinds are taken, with values, keys or bytes replaced at random, and planned as ``--dry-run``
does. The variable ``ODD_FILES`` says how many are tried; each of them is as odd as it is the next time.
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairseq_ext.engine import fairseq_options
from fairseq_ext.engine.fairseq_options import first_mistake
from fairseq_ext.inputs.errors import run_command
from tests.verbs import verb

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
EXAMPLES = int(os.environ.get("ODD_FILES", "200"))
SECONDS = 5  # for one file; it takes a fiftieth of a second
LONGEST_LINE = 1500
EXAMPLES_READ = 16

KINDS: dict[str, tuple[str, Callable[[list[str]], None]]] = {
    "translation": ("template.yaml", verb("run")),
    "hierarchical": ("hier/mono-small.yaml", verb("run")),
    "topics": ("topics/reviews-small.yaml", verb("run")),
    "classification": ("houlsby/classification-small.yaml", verb("run")),
    "words": ("dagru/ptb-small.yaml", verb("run")),
    "cleaning": ("data.yaml", verb("prepare")),
}

# Of the larger files, the systems that are kept: planning all of them says no more and takes longer.
KEPT = {
    "hierarchical": ["base", "manual", "single", "induced"],
    "topics": ["base", "fine-tuned-products", "output-products", "topics-10-products", "topics-10-movies"],
    "classification": ["base", "full", "top-1", "adapters-64"],
}

# What could stand there, but mostly does not fit.
_WRONG_WORDS = """
null true 0 -1 2 0.5 1e-3 9223372036854775807 [] {} [[]] [null] a no '' a@b ../x -x @ x.{lang} gettext==1 opus:a/b
/dev/null transformer_lm_hier_adapter transformer_lm_topic roberta_houlsby_adapter dagru_lm transformer base mix@2 gad
prepare report tree none adapters-64 en corpora data/mono/train corpora/a.{lang} 2020-01-01 1:30 1_000 [1,a] {a:{b:1}}
"""
WRONG = _WRONG_WORDS.split()

# What readers of YAML and of paths stumble over.
ODD = [
    *("", "null", "~", "yes", "-1", "0.5", "5e9", "5000000000", ".nan", ".inf", "1e400", "9" * 5000, "2020-01-01"),
    *("<<", "!!int foo", "!!binary foo", "!!set {a, b}", "!unknown x", "*nothing", "&a [*a]"),
    *("!!python/object/apply:os.system [touch odd]", "[]", "{}", "[{}]", "[1, a]", "[a, a]", "{1: 2}", "{a: 1, a: 2}"),
    *("[" * 3000, "[" * 40 + "]" * 40, '"\\0"', '"\\ud800"', '"a\\nb"', '"\\e[31m"', "x" * 300, "x/" * 3000, "é" * 200),
    *("a@b", "../x", "/dev/null", "x.{lang}", "gettext==1", "opus:a/b", "-x", "#", "'", "]", ",", "\t", "%", "a: b"),
    "[&a [x,x,x,x,x,x,x,x,x], &b [*a,*a,*a,*a,*a,*a,*a,*a], &c [*b,*b,*b,*b,*b,*b,*b,*b], [*c,*c,*c,*c,*c,*c,*c,*c]]",
]


_snippets = st.sampled_from(WRONG) | st.sampled_from(WRONG) | st.sampled_from(ODD)


@dataclass(frozen=True)
class Change:
    """A snippet in place of a value, or of a key (``is_key``); places are numbered round and round."""

    place: int
    snippet: str
    is_key: bool


_changes = st.lists(st.builds(Change, st.integers(0, 10_000), _snippets, st.sampled_from([False] * 9 + [True])),
                    min_size=1, max_size=2)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The current directory, with all files that the experiments name."""
    folder = tmp_path_factory.mktemp("odd")
    corpora = [f"corpora/{name}.{lang}" for name in "ab" for lang in ("en", "pl")]
    for name in [*corpora, "data/mono/train/a.txt", "data/mono/unseen/b.txt"]:
        _touch(folder / name)
    for path in CONFIGS.glob("*/*.md"):
        _touch(folder / path.name)
    for kind in KINDS:
        for word in _text(kind).split():
            if word.startswith("data/") and Path(word).suffix in (".tsv", ".txt"):
                _touch(folder / word)
    tree = folder / "configs/hier/manual-tree.json"
    tree.parent.mkdir(parents=True)
    tree.write_bytes((CONFIGS / "hier/manual-tree.json").read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


@pytest.fixture
def read_some_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let fairseq read the options of one file in so many: that takes ten times as long as all else."""
    numbers = itertools.count()

    def read(commands: Any) -> Any:
        return None if next(numbers) % EXAMPLES_READ else first_mistake(commands)

    monkeypatch.setattr(fairseq_options, "first_mistake_in", read)


@pytest.mark.parametrize("kind", KINDS)
def test_shipped_files_are_planned(kind: str, folder: Path) -> None:
    assert plan(kind, _tree(kind).encode(), folder) is None


@pytest.mark.slow
@given(st.sampled_from(list(KINDS)), _changes)
@settings(max_examples=EXAMPLES, derandomize=True, database=None, deadline=None,
          suppress_health_check=list(HealthCheck))  # fmt: skip
@pytest.mark.usefixtures("read_some_options")
def test_odd_values_are_planned_or_named_in_one_line(folder: Path, kind: str, changes: list[Change]) -> None:
    line = plan(kind, changed(json.loads(_tree(kind)), changes).encode("utf-8", "surrogatepass"), folder)
    if line is not None:
        assert line.isprintable()
        assert 0 < len(line) <= LONGEST_LINE


def plan(kind: str, data: bytes, folder: Path) -> Any:
    """What the command line ends with: None if it went through."""
    path = folder / "odd.yaml"
    path.write_bytes(data)
    before = _contents(folder)
    try:
        with time_limit(), contextlib.redirect_stdout(io.StringIO()):
            run_command(lambda: KINDS[kind][1]([str(path), "--dry-run"]))
    except SystemExit as end:
        return end.code
    finally:
        assert _contents(folder) == before
    return None


def changed(tree: Any, changes: list[Change]) -> str:
    """The tree as YAML, with the changes made."""
    snippets: dict[str, str] = {}
    for change in changes:
        mark = f"MARK{len(snippets)}"
        snippets[json.dumps(mark)] = change.snippet
        places = list(_places(tree))
        container, key = places[change.place % len(places)]
        if change.is_key and isinstance(container, dict):
            container[mark] = container.pop(key)
        else:
            container[key] = mark
    text = json.dumps(tree)
    for mark, snippet in snippets.items():
        text = text.replace(mark, snippet)
    return text


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield tree, key
        yield from _places(value)


@functools.cache
def _tree(kind: str) -> str:
    """An experiment file as JSON."""
    tree = yaml.safe_load(_text(kind))
    if kind in KEPT:
        systems = tree["train"]["systems"]
        tree["train"]["systems"] = {name: systems[name] for name in KEPT[kind]}
    return json.dumps(tree)


def _text(kind: str) -> str:
    text = (CONFIGS / KINDS[kind][0]).read_text(encoding="utf-8").replace("../shared/data", "data")
    return re.sub(r"- corpora/\S+", "- corpora/a.{lang}", text)


def _touch(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x\n", encoding="utf-8")


def _contents(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        entry.path: (entry.stat().st_size, entry.stat().st_mtime_ns)
        for root, _, _ in os.walk(folder)
        for entry in os.scandir(root)
    }


@contextlib.contextmanager
def time_limit() -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TimeoutError(f"not planned after {SECONDS} s")

    # Time of this process, and again and again: what garbage collection raises is lost.
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
