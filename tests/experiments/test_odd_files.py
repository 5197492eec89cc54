"""Whatever an experiment file holds: its command goes through or says one line, in bounded time, and writes nothing.

Of small experiments of all kinds, values and keys are replaced at random, and planned as ``--dry-run`` does. The
variable ``ODD_FILES`` says how many are tried; each of them is as odd as it is the next time.
"""

import contextlib
import io
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairseq_ext.base import fairseq_options
from fairseq_ext.base.errors import run_command
from tests.odd_files import LONGEST_LINE, changed, time_limit
from tests.recorded.record import WRITERS
from tests.verbs import verb

EXAMPLES = int(os.environ.get("ODD_FILES", "200"))

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
    *("#", "'", "]", ",", "\t", "%", "a: b"),
    "[&a [x,x,x,x,x,x,x,x,x], &b [*a,*a,*a,*a,*a,*a,*a,*a], &c [*b,*b,*b,*b,*b,*b,*b,*b], [*c,*c,*c,*c,*c,*c,*c,*c]]",
]


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
def test_odd_values_are_planned_or_named_in_one_line(experiments: dict[str, Path], kind: str) -> None:
    rng, text = random.Random(1), experiments[kind].read_text(encoding="utf-8")
    for _ in range(EXAMPLES // len(WRITERS)):
        snippets = [rng.choice(rng.choice((WRONG, WRONG, ODD))) for _ in range(rng.randint(1, 2))]
        odd = changed(yaml.safe_load(text), snippets, rng)
        line = plan(odd.encode("utf-8", "surrogatepass"))
        assert line is None or (line.isprintable() and 0 < len(line) <= LONGEST_LINE), odd


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
