from __future__ import annotations

from pathlib import Path

import pytest

from tests import toy_systems


@pytest.fixture(scope="session")
def systems(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Path:
    """Checkpoints ``NAME/model.pt`` of MIX, TAG, AD and GAD on one base."""
    return toy_systems.write_systems(data, tmp_path_factory.mktemp("systems"))
