"""fairseq is imported first, as on its command lines, so that ``--user-dir`` registers everything."""

import os
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore", module="hydra")

import fairseq  # noqa: E402, F401
import pytest  # noqa: E402


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A binarised toy corpus of three domains."""
    from tests import toy

    return toy.make_data(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="session")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Teacher labels for it."""
    from tests import toy

    return toy.make_teacher(tmp_path_factory.mktemp("toy-teacher"))
