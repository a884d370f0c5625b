"""Spark reads a cluster of `kafkaesque up --secure`, by the file of options it makes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.test_up_secure import SecureUp

TOPIC, FORBIDDEN = "app-flights", "salaries"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureUp]:
    data = tmp_path_factory.mktemp("secure") / "data"
    found = SecureUp(data, 0, "--secure", brokers=1)
    try:
        found.event("ready")
        for user, topic in (("app", TOPIC), ("admin", FORBIDDEN)):
            assert found.command(user, "topic", "create", topic).returncode == 0
            assert found.command(user, "publish", topic, "one").returncode == 0
        yield found
    finally:
        found.close()


def options_of(up: SecureUp, path: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads(path.read_text())
    return found


def test_spark_reads_by_its_file(up: SecureUp, spark: Any) -> None:
    options = options_of(up, up.client("app_spark.json"))
    source = spark.read.format("kafkaesque").options(**options)
    values = sorted(bytes(row.value) for row in source.option("subscribe", TOPIC).load().collect())
    assert values == [b"one"]
    with pytest.raises(Exception, match=FORBIDDEN):
        source.option("subscribe", FORBIDDEN).load().collect()
