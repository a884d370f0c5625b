import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.env.worlds import RealWorld, SimWorld, World


@pytest.fixture(params=["uvloop", "asyncio", "sim 1", "sim 2"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made: World
    if request.param == "uvloop":
        made = RealWorld(tmp_path / "data")
    elif request.param == "asyncio":
        made = RealWorld(tmp_path / "data", asyncio.new_event_loop())
    else:
        made = SimWorld(int(request.param.split()[1]))
    yield made
    made.close()
