"""Whatever an experiment file holds: its command goes through or says one line, in bounded time, and writes nothing.

Of small experiments of all kinds, values and keys are replaced at random, and planned as ``--dry-run`` does. The
variable ``ODD_FILES`` says how many are tried; each of them is as odd as it is the next time.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairseq_ext.engine import fairseq_options
from fairseq_ext.inputs.errors import run_command
from tests.recorded.record import WRITERS
from tests.verbs import verb

EXAMPLES = int(os.environ.get("ODD_FILES", "200"))
SECONDS = 5  # for one file; it takes a fiftieth of a second
LONGEST_LINE = 1500

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


class Change(NamedTuple):
    """A snippet in place of a value, or of a key (``is_key``); places are numbered round and round."""

    place: int
    snippet: str
    is_key: bool


_snippets = st.sampled_from(WRONG) | st.sampled_from(WRONG) | st.sampled_from(ODD)
_is_key = st.sampled_from([False] * 9 + [True])
_changes = st.lists(st.builds(Change, st.integers(0, 10_000), _snippets, _is_key), min_size=1, max_size=2)


@pytest.fixture(scope="module")
def experiments(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """A small experiment's file of each kind; where they lie is the current directory."""
    folder = tmp_path_factory.mktemp("odd")
    for kind in WRITERS:
        (folder / kind).mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        # That fairseq reads the options takes ten times as long as all else; tests/engine tests it.
        patch.setattr(fairseq_options, "first_mistake_in", lambda commands: None)
        paths = {kind: write(folder / kind) for kind, write in WRITERS.items()}
        assert all(plan(path.read_bytes()) is None for path in paths.values())
        yield paths


@pytest.mark.slow
@pytest.mark.parametrize("kind", WRITERS)
@given(changes=_changes)
@settings(max_examples=EXAMPLES // len(WRITERS), derandomize=True, database=None, deadline=None,
          suppress_health_check=list(HealthCheck))  # fmt: skip
def test_odd_values_are_planned_or_named_in_one_line(
    experiments: dict[str, Path], kind: str, changes: list[Change]
) -> None:
    text = experiments[kind].read_text(encoding="utf-8")
    line = plan(changed(yaml.safe_load(text), changes).encode("utf-8", "surrogatepass"))
    if line is not None:
        assert line.isprintable()
        assert 0 < len(line) <= LONGEST_LINE


def plan(data: bytes) -> Any:
    """What the command line ends with: None if it went through."""
    path = Path("odd.yaml")
    path.write_bytes(data)
    before = set(Path().rglob("*"))
    try:
        with time_limit(), contextlib.redirect_stdout(io.StringIO()):
            run_command(lambda: verb("run")([str(path), "--dry-run"]))
    except SystemExit as end:
        return end.code
    finally:
        assert set(Path().rglob("*")) == before
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
