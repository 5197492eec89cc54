"""Whatever an experiment file holds: its command goes through or says one line, in bounded time.

The shipped files of all kinds are taken, with values or keys replaced at random, and planned as ``--dry-run`` does. The
variable ``ODD_FILES`` says how many are tried; each of them is as odd as it is the next time.
"""

from __future__ import annotations

import contextlib
import functools
import io
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
from fairseq_ext.inputs.errors import run_command
from tests.verbs import verb

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
EXAMPLES = int(os.environ.get("ODD_FILES", "200"))
SECONDS = 5  # for one file; it takes a fiftieth of a second
LONGEST_LINE = 1500

KINDS: dict[str, tuple[str, Callable[[list[str]], None]]] = {
    "translation": ("template.yaml", verb("run")),
    "hierarchical": ("hier/mono-small.yaml", verb("run")),
    "topics": ("topics/reviews-small.yaml", verb("run")),
    "classification": ("houlsby/classification-small.yaml", verb("run")),
    "words": ("dagru/ptb-small.yaml", verb("run")),
    "cleaning": ("data.yaml", verb("prepare")),
}

# What could stand there, but mostly does not fit.
_WORDS = """
null true false 0 -1 1 2 0.5 1e-3 5000000000 [] {} [1] [[]] [null] a no '' a@b ../x -x @ x.{lang} gettext==1
/dev/null transformer_lm_hier_adapter roberta_houlsby_adapter dagru_lm base mix mix@2 gad tfidf report tree all none
adapters-64 en corpora data/mono/train corpora/a.{lang} corpora/a.en 2020-01-01 1:30 1_000
"""
WRONG = [*_WORDS.split(), "[1, 2]", "[a, b]", "[1, a]", "[a, a]", "{a: 1}", "{a: {b: 1}}", "a b"]

# What readers of YAML and of paths stumble over.
ODD = [
    *("", "~", "5e9", ".nan", ".inf", "1e400", "9" * 5000, "<<", "!!int foo", "!unknown x", "*nothing", "&a [*a]"),
    *("!!python/object/apply:os.system [touch odd]", "{1: 2}", "{a: 1, a: 2}", "[" * 3000, "[" * 40 + "]" * 40),
    *('"\\0"', '"\\ud800"', '"a\\nb"', '"\\e[31m"', "x" * 300, "x/" * 3000, "é" * 200),
    *("#", "'", "]", ",", "\t", "%", "a: b"),
]


@dataclass(frozen=True)
class Change:
    """A snippet in place of a value, or of a key (``is_key``); places are numbered round and round."""

    place: int
    snippet: str
    is_key: bool


_snippets = st.sampled_from(WRONG) | st.sampled_from(ODD)
_change = st.builds(Change, st.integers(0, 10_000), _snippets, st.sampled_from([False] * 9 + [True]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The current directory, with the files that the experiments name."""
    folder = tmp_path_factory.mktemp("odd")
    files = [f"corpora/{name}.{lang}" for name in "ab" for lang in ("en", "pl")]
    files += ["data/mono/train/a.txt", "data/mono/unseen/b.txt", "configs/hier/manual-tree.json"]
    files += [path.name for path in CONFIGS.glob("*/*.md")]
    files += [word for kind in KINDS for word in _text(kind).split() if re.fullmatch(r"data/.*\.(tsv|txt)", word)]
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x\n", encoding="utf-8")
    (folder / "configs/hier/manual-tree.json").write_bytes((CONFIGS / "hier/manual-tree.json").read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        # It takes ten times as long as all else, and has tests of its own.
        patch.setattr(fairseq_options, "first_mistake_in", lambda commands: None)
        yield folder


@pytest.mark.slow
@given(st.sampled_from(list(KINDS)), st.lists(_change, min_size=1, max_size=2))
@settings(
    max_examples=EXAMPLES, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
def test_odd_values_are_planned_or_named_in_one_line(folder: Path, kind: str, changes: list[Change]) -> None:
    path = folder / "odd.yaml"
    path.write_bytes(changed(json.loads(_tree(kind)), changes).encode("utf-8", "surrogatepass"))
    line = None
    try:
        with time_limit(), contextlib.redirect_stdout(io.StringIO()):
            run_command(lambda: KINDS[kind][1]([str(path), "--dry-run"]))
    except SystemExit as end:
        line = end.code
        assert isinstance(line, str)
    assert line is None or (line and line.isprintable() and len(line) <= LONGEST_LINE)


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
    """An experiment file as JSON, with its first five systems: planning all says no more and takes longer."""
    tree = yaml.safe_load(_text(kind))
    systems = tree.get("train", {}).get("systems", {})
    if len(systems) > 5:
        tree["train"]["systems"] = dict(list(systems.items())[:5])
    return json.dumps(tree)


def _text(kind: str) -> str:
    text = (CONFIGS / KINDS[kind][0]).read_text(encoding="utf-8").replace("../shared/data", "data")
    return re.sub(r"- corpora/\S+", "- corpora/a.{lang}", text)


@contextlib.contextmanager
def time_limit() -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TimeoutError(f"not done after {SECONDS} s")

    # Time of this process, and again and again: what garbage collection raises is lost.
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
