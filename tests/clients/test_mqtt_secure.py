"""`kafkaesque up --secure` with a port for MQTT: mqtt.js logs in by SCRAM."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.node_client import missing, run_node
from tests.clients.test_up_secure import SecureUp, librdkafka

pytestmark = [
    pytest.mark.extended,
    pytest.mark.skipif(bool(missing()), reason=missing()),
]


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureUp]:
    found = SecureUp(tmp_path_factory.mktemp("secure") / "data", "--secure", brokers=1)
    try:
        assert found.event("ready")["is_secure"] is True
        yield found
    finally:
        found.close()


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("", {"is_proved": True, "refused": 0, "received": "by SCRAM"}),
        ("wrong", {"is_proved": False, "refused": 0x87, "received": ""}),
    ],
)
def test_mqtt_js_by_scram(up: SecureUp, word: str, found: dict[str, object]) -> None:
    options = librdkafka(up)
    said = run_node(
        "mqtt-scram",
        up.bootstrap,
        url=f"mqtts://127.0.0.1:{up.ports['mqtt']}",
        ca=str(up.data / "certs" / "ca.pem"),
        method=options["sasl.mechanisms"],
        user=options["sasl.username"],
        password=word or options["sasl.password"],
        topic="app-rooms/1",
    )
    assert said == found
