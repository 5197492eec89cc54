from pathlib import Path

import pytest

from tests import toy_systems
from tests.translators import small_systems


@pytest.fixture(scope="session")
def exported(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``NAME`` for MIX, TAG, AD and GAD."""
    root = tmp_path_factory.mktemp("exported")
    systems = toy_systems.write_systems(data, root / "trained")
    return small_systems.export_all(systems, data, root)
