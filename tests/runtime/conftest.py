from tests.translators.conftest import exported  # noqa: F401  a fixture
