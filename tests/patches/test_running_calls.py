"""No call in fairseq's source or ours runs what a file holds: each is listed with the reason, a new one is found."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import fairseq
import fairseq_cli
import pytest

from tests.patches.running_calls import running_calls

TABLE = Path(__file__).with_name("running_calls.txt")
ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {
    "fairseq": Path(fairseq.__file__).parent,
    "fairseq_cli": Path(fairseq_cli.__file__).parent,
    "fairseq_ext": ROOT / "fairseq_ext",
    "scripts": ROOT / "scripts",
    "data-prep": ROOT / "data-prep",
}


def listed() -> dict[str, Counter[str]]:
    """The calls below each reason."""
    reasons: dict[str, Counter[str]] = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            calls = reasons[line.removeprefix("# ")] = Counter()
        elif reasons and line:
            number, _, call = line.partition("  ")
            calls[call] += int(number)
    return reasons


@pytest.mark.parametrize("name", [pytest.param("fairseq", marks=pytest.mark.slow), *list(FOLDERS)[1:]])
def test_every_call_is_listed_with_a_reason(name: str) -> None:
    known = Counter(
        {call: n for calls in listed().values() for call, n in calls.items() if call.startswith(f"{name}/")}
    )
    found = Counter({f"{name}/{call}": n for call, n in running_calls(FOLDERS[name]).items()})
    assert found - known == Counter()
    assert known - found == Counter()


def test_what_the_reasons_say_holds() -> None:
    reasons = listed()
    assert all(len(reason) > 10 for reason in reasons)
    for reason, calls in reasons.items():
        for call in calls:
            if reason.startswith("eval is evaluate_literal"):
                assert ": eval(" in call
            if "weights_only" in reason:
                assert "weights_only=False" not in call
            if "without a shell" in reason:
                assert "shell=True" not in call
    ours = [call for calls in reasons.values() for call in calls if not call.startswith("fairseq")]
    ours += [call for calls in reasons.values() for call in calls if call.startswith("fairseq_ext/")]
    assert not [call for call in ours if "eval(" in call or " exec(" in call or "pickle" in call]


def test_nothing_beside_fairseq_is_imported() -> None:
    import fairseq_ext.registration  # noqa: F401

    assert not [name for name in sys.modules if name.split(".")[0] == "examples" or name.startswith("fairseq.examples")]


def test_a_new_call_is_found_however_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text(
        "import torch as t, numpy as np, builtins, yaml\n"
        "from pickle import loads as read\n"
        "from subprocess import check_output\n"
        "from importlib import import_module as get\n"
        "t.load(path)\nt.jit.load(path)\nread(data)\nget(name)\ncheck_output(command, shell=True)\n"
        "np.load(path, allow_pickle=True)\nnp.load(path, **options)\nnp.load(path)\nnp.load(path, allow_pickle=False)\n"
        "builtins.eval(text)\nlist(map(eval, texts))\nrun = exec\nyaml.load(text, Loader=yaml.Loader)\n"
        "model.load(path)\nmodel.eval()\nre.compile(text)\n"
    )
    assert {call.removeprefix("new.py: ") for call in running_calls(tmp_path)} == {
        "t.load(path)", "t.jit.load(path)", "read(data)", "get(name)", "check_output(command, shell=True)",
        "np.load(path, allow_pickle=True)", "np.load(path, **options)", "builtins.eval(text)", "map(eval, texts)",
        "run = exec", "yaml.load(text, Loader=yaml.Loader)",
    }  # fmt: skip
