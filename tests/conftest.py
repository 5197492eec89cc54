"""What all tests share. It imports neither torch nor fairseq, so that a test of text or files starts at once."""

import functools
import gc
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.fork_server import PYTHON, preloaded_commands

os.environ.setdefault("OMP_NUM_THREADS", "1")

# The benchmark's modules without the tools beside them: `adapters` is also the name of a library.
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(Path(__file__).parents[1] / "tools"))
    import benchmarks  # noqa: F401


def pytest_collection_finish() -> None:
    """Modules and tests stay to the end: no collection of garbage looks at them again."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first, so that no process is left alone with one of them at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Only slow tests start commands."""
    if item.get_closest_marker("slow"):
        start_commands_at_once(item.config)


@functools.cache
def start_commands_at_once(config: pytest.Config) -> None:
    """From now on, fork commands of fairseq's and of this project, where a process may be forked."""
    import torch

    if not hasattr(os, "pidfd_open") or torch.cuda.is_available():
        return
    stack = ExitStack()
    config.add_cleanup(stack.close)
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    stack.enter_context(preloaded_commands(Path(folder)))


@pytest.fixture(scope="session", autouse=True)
def _one_worker() -> Iterator[None]:
    """Steps start no processes of their own unless a test says how many: each would import torch and fairseq."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
        yield


@pytest.fixture
def true_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands are what they are for a user: processes that begin with nothing."""
    monkeypatch.setattr(sys, "executable", PYTHON)


@pytest.fixture(autouse=True)
def read_options_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let fairseq's parsers read options in this process, which loads fairseq once, not in one for each test."""
    from fairseq_ext.base import fairseq_options

    def first_mistake_in(commands: list) -> fairseq_options.Mistake | None:
        import tests.fairseq_ready  # noqa: F401

        return fairseq_options.first_mistake(commands)

    monkeypatch.setattr(fairseq_options, "first_mistake_in", first_mistake_in)


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A binarised toy corpus of three domains."""
    from tests import toy

    return toy.make_data(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Binarised toy text of three domains, for language models."""
    from tests import toy_text

    return toy_text.make_text(tmp_path_factory.mktemp("toy-text"))


@pytest.fixture(scope="session")
def systems(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``NAME/model.pt`` for MIX, TAG, AD and GAD."""
    from tests import toy_systems

    return toy_systems.write_systems(data, tmp_path_factory.mktemp("systems"))


@pytest.fixture(scope="session")
def exported(systems: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Exported as ``NAME``."""
    from tests.serve.graphs import small_systems

    return small_systems.export_all(systems, data, tmp_path_factory.mktemp("exported"))


@pytest.fixture(scope="session")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Teacher labels for it."""
    from tests import toy

    return toy.make_teacher(tmp_path_factory.mktemp("toy-teacher"))
