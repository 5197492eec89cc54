"""The commands of old do what took their place, for files that do not yet say their kind, and say that they go."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fairseq_ext.experiments import old_names, prepare, run
from fairseq_ext.inputs.errors import InputError
from tests.experiments.classification.small_classification_experiment import write_classification_experiment
from tests.experiments.small_lm_experiment import write_lm_experiment
from tests.experiments.topics.small_topic_experiment import write_topic_experiment
from tests.recipes.recurrent.small_experiment import write_file

ROOT = Path(__file__).resolve().parents[2]


def write_word_lm_experiment(folder: Path) -> Path:
    for split in ("train", "valid", "test"):
        (folder / f"{split}.txt").write_text("the cat\n", encoding="utf-8")
    system = {"arch": "dagru_lm_tiny", "combination": "none"}
    return write_file(folder, train={"systems": {"plain": system}})


CASES = [
    ("run_lm_experiment.sh", write_lm_experiment, run.main, ()),
    ("run_lm_experiment.sh", write_topic_experiment, run.main, ()),
    ("run_dagru_experiment.sh", write_word_lm_experiment, run.main, ()),
    ("run_classification_experiment.sh", write_classification_experiment, run.main, ()),
    ("evaluate_topics.py", write_topic_experiment, run.main, ("--from", "topics")),
    ("prepare_lm.py", write_lm_experiment, prepare.main, ()),
    ("prepare_lm.py", write_topic_experiment, prepare.main, ()),
    ("prepare_classification.py", write_classification_experiment, prepare.main, ()),
]


def outcome(main: Callable[[Sequence[str]], None], arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The plan that a command prints, or what hinders it."""
    capsys.readouterr()
    try:
        main(arguments)
    except InputError as error:
        return str(error)
    return capsys.readouterr().out


@pytest.mark.parametrize(("name", "write", "main", "more"), CASES)
def test_it_does_what_took_its_place(
    name: str,
    write: Callable[[Path], Path],
    main: Callable[[Sequence[str]], None],
    more: Sequence[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write(tmp_path)
    plan = outcome(main, [str(path), "--dry-run", *more], capsys)
    assert str(tmp_path / "work") in plan
    # A file of then has no kind.
    path.write_text("".join(line for line in path.open(encoding="utf-8") if not line.startswith("kind:")))
    assert outcome(old_names.main, [name, str(path), "--dry-run"], capsys) == plan


def test_every_old_name_is_among_the_cases() -> None:
    assert {name for name, *_ in CASES} == old_names.OLD_NAMES.keys()


@pytest.mark.parametrize("name", old_names.OLD_NAMES)
def test_it_says_what_took_its_place(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.yaml").write_text("{}")
    with pytest.raises(InputError):
        old_names.main([name, str(tmp_path / "empty.yaml")])
    said = capsys.readouterr().err
    now = "data-prep/prepare.py" if name.startswith("prepare") else "scripts/run_experiment.sh"
    assert said.startswith(f"{name} is now {now} FILE")
    assert said.endswith("this name goes with the next release.\n")


@pytest.mark.slow
@pytest.mark.parametrize("name", old_names.OLD_NAMES)
def test_its_script_calls_it_by_its_name(name: str) -> None:
    path = ROOT / ("data-prep" if name.startswith("prepare") else "scripts") / name
    assert name in path.read_text(encoding="utf-8").splitlines()[-1]
    command = [sys.executable] if path.suffix == ".py" else ["bash"]
    result = subprocess.run([*command, str(path), "--help"], capture_output=True, text=True, check=True)
    assert result.stderr.startswith(f"{name} is now ")
    assert result.stdout.startswith("usage: ")
