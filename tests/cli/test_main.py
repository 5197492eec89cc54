"""Verbs: the help of each, what is refused, and that nothing else reads command lines."""

from __future__ import annotations

import argparse
import importlib.abc
import pkgutil
import re
import sys
import tomllib
from pathlib import Path

import pytest

import fairseq_ext
from fairseq_ext.cli.__main__ import main
from fairseq_ext.cli.main import PROGRAM, PURPOSES, VERBS, overview
from fairseq_ext.inputs.errors import InputError
from tests.verbs import verb

PACKAGE = Path(fairseq_ext.__file__).parent
# fairseq's own parsers: the options that a model or a task adds to them, and what they say of an experiment's.
OF_FAIRSEQ = {
    "adapters/training.py",
    "models/adapter_transformer.py",
    "models/roberta_houlsby_adapter.py",
    "patches/usual_task.py",
}
COMMANDS = [(name, *below) for name, each in VERBS.items() for below in [(), *((inner,) for inner in each.verbs)]]


def test_the_installed_package_has_the_program() -> None:
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {name: pkgutil.resolve_name(place) for name, place in project["scripts"].items()} == {PROGRAM: main}


def test_a_stop_while_the_program_loads_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Stopping(importlib.abc.MetaPathFinder):
        def find_spec(self, name: str, *_: object) -> None:
            if name == "fairseq_ext.cli.main":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "fairseq_ext.cli.main")
    monkeypatch.setattr(sys, "meta_path", [Stopping(), *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "stopped\n"


def test_command_lines_are_read_here_alone() -> None:
    found = {path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if "ArgumentParser" in path.read_text("utf-8")}
    assert {str(path) for path in found if path.parts[0] != "cli"} == OF_FAIRSEQ


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_verb_has_help(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        verb(*command)(["--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: fairseq-ext {' '.join(command)} ")


@pytest.mark.parametrize("name", VERBS)
def test_every_option_of_every_verb_is_explained(name: str) -> None:
    parsers = [VERBS[name].parser(name)]
    for parser in parsers:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                parsers += action.choices.values()
            else:
                assert action.help, (parser.prog, action.dest)


def test_the_overview_has_every_verb_by_purpose(capsys: pytest.CaptureFixture[str]) -> None:
    verb()(["--help"])
    assert capsys.readouterr().out == f"{overview()}\n"
    assert re.findall(r"^  ([\w-]+)  ", overview(), re.MULTILINE) == list(VERBS)
    assert sum(map(len, PURPOSES.values())) == len(VERBS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian"], "no verb 'trian'; did you mean train"),
        (["run"], "the following arguments are required: config"),
        (["run", "x.yaml", "--job", "2"], "unrecognized arguments: --job 2"),
        (["run", "x.yaml", "--jobs", "0"], "--jobs: 0: give 1 or more"),
        (["run", "x.yaml", "--jobs", "1.5"], "--jobs: "),
        (["prepare", "x.yaml", "--workers", "-1"], "--workers: -1: give 0 or more"),
        (["import", "tables"], "'tables'"),
        (["translate", "x.yaml", "gad", "--input", "a"], "gad: "),
        (["translate", "x.yaml", "--fp16", "--input", "a"], "--fp16: "),
        (["export", "x.yaml"], "give CONFIG, SYSTEM and DIRECTORY"),
    ],
)
def test_what_cannot_be_is_one_line(words: list[str], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        verb()(words)
    assert "\n" not in str(caught.value)
