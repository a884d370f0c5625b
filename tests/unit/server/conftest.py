import pytest

from tests.certificates import TestAuthority


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    return TestAuthority(tmp_path_factory.mktemp("authority") / "ca")


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    """Another authority for a cluster of the same name."""
    return TestAuthority(tmp_path_factory.mktemp("other") / "ca")
