import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.certificates import TestAuthority
from tests.unit.env.worlds import RealWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RealWorld]:
    made = RealWorld(tmp_path / "data")
    yield made
    made.close()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    return TestAuthority(tmp_path_factory.mktemp("authority") / "ca")


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 5000:
        pytest.skip("this machine allows too few open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (5000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
