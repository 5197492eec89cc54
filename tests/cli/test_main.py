"""Verbs: the help of each, what is refused, and that nothing else reads command lines."""

import argparse
import pkgutil
import re
import tomllib
from pathlib import Path

import pytest

import fairseq_ext
from fairseq_ext.base.errors import InputError
from fairseq_ext.cli.main import PROGRAM, PURPOSES, VERBS, main, overview
from tests.verbs import verb

PACKAGE = Path(fairseq_ext.__file__).parent


def test_the_installed_package_has_the_program() -> None:
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {name: pkgutil.resolve_name(place) for name, place in project["scripts"].items()} == {PROGRAM: main}


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_and_option_is_explained(name: str) -> None:
    parsers = [VERBS[name].parser(f"{PROGRAM} {name}")]
    for parser in parsers:
        assert parser.format_help().startswith(f"usage: {parser.prog} ")
        assert (parser.description or "").endswith(".")
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                parsers += action.choices.values()
            else:
                assert action.help, (parser.prog, action.dest)


def test_the_overview_has_every_verb_by_purpose(capsys: pytest.CaptureFixture[str]) -> None:
    for option, text in (("--help", overview()), ("--version", f"fairseq-ext {fairseq_ext.__version__}")):
        verb()([option])
        assert capsys.readouterr().out == f"{text}\n"
    assert "Finished steps are skipped" in VERBS["run"].parser("run").format_help()  # from its docstring
    assert re.findall(r"^  ([\w-]+)  ", overview(), re.MULTILINE) == list(VERBS)
    assert sum(map(len, PURPOSES.values())) == len(VERBS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian"], "unknown verb 'trian'; did you mean train"),
        (["run"], "the following arguments are required: config"),
        (["run", "x.yaml", "--job", "2"], "unrecognized arguments: --job 2"),
        (["run", "x.yaml", "--jobs", "0"], "--jobs: 0: give 1 or more"),
        (["prepare", "x.yaml", "--workers", "-1"], "--workers: -1: give 0 or more"),
        (["translate", "x.yaml", "gad", "--input", "a"], "unrecognized arguments: gad"),
        (["translate", "x.yaml", "--fp16"], "unrecognized arguments: --fp16"),
        (["decode", "x.yaml", "gad"], "x.yaml: cannot be read"),
        (["export", "x.yaml"], "CONFIG, SYSTEM and DIRECTORY: give all three"),
    ],
)
def test_what_cannot_be_is_one_line(words: list[str], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        verb()(words)
    assert "\n" not in str(caught.value)
