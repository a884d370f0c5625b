from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.env.worlds import RealWorld, World


@pytest.fixture(params=["real"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made: World = RealWorld(tmp_path / "data")
    yield made
    made.close()
