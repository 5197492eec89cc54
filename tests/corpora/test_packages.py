"""Fetching packages, with pip replaced by a stand-in: no test needs the network."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from fairseq_ext.corpora import packages
from fairseq_ext.corpora.packages import fetch_packages, find_wheel
from fairseq_ext.inputs.errors import InputError


class Pip:
    """Puts wheels where pip is told to, or fails as pip does: always, or where a package is among the bad ones."""

    def __init__(self, error: str = "", bad: str = "") -> None:
        self.commands: list[list[str]] = []
        self.error = error
        self.bad = bad

    def __call__(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        place = command.index("--dest") + 1
        requirements = command[place + 1 :]
        fails = bool(self.error) and (not self.bad or self.bad in requirements)
        for name, version in (requirement.split("==") for requirement in ([] if fails else requirements)):
            wheel = f"{name.replace('.', '_').lower()}-{version}-py3-none-any.whl"
            (Path(command[place]) / wheel).write_bytes(b"wheel")
        return subprocess.CompletedProcess(command, int(fails), "", self.error if fails else "")


def test_wheel_is_fetched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip = Pip()
    monkeypatch.setattr(packages, "run_child", pip)
    for _ in range(2):
        wheels = fetch_packages(["Plone.app==7.0"], tmp_path)
        assert wheels == {"Plone.app==7.0": tmp_path / "plone_app-7.0-py3-none-any.whl"}
    assert len(pip.commands) == 1
    # So no code of the package runs.
    assert {"--only-binary=:all:", "--no-deps", "download"} <= set(pip.commands[0])
    assert [path.name for path in tmp_path.iterdir()] == ["plone_app-7.0-py3-none-any.whl"]


def test_failure_is_one_line_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = "WARNING: retrying\nERROR: first\nERROR: No matching distribution found for a==1\n"
    monkeypatch.setattr(packages, "run_child", Pip(error))
    with pytest.raises(InputError, match=r"a==1: cannot be fetched \(No matching distribution") as caught:
        fetch_packages(["a==1"], tmp_path)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_only_the_pinned_version_is_found(tmp_path: Path) -> None:
    (tmp_path / "a-1.0-py3-none-any.whl").write_bytes(b"")
    (tmp_path / "a_b-1.0-py3-none-any.whl").write_bytes(b"")
    assert find_wheel("A==1.0", tmp_path) == tmp_path / "a-1.0-py3-none-any.whl"
    assert find_wheel("a.b==1.0", tmp_path) == tmp_path / "a_b-1.0-py3-none-any.whl"
    assert find_wheel("a==1", tmp_path) == tmp_path / "a-1.0-py3-none-any.whl"
    assert find_wheel("a==1.1", tmp_path) is None


def test_one_that_is_refused_is_named_and_those_before_it_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "run_child", Pip("ERROR: No matching distribution found for bad==1", "bad==1"))
    with pytest.raises(InputError, match="bad==1: cannot be fetched"):
        fetch_packages(["new==1", "bad==1"], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["new-1-py3-none-any.whl"]
