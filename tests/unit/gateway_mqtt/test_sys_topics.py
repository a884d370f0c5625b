"""`$SYS`: a broker's own numbers."""

from __future__ import annotations

from kafkaesque import __version__
from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt.reasons import ReasonCode as R
from tests.unit.gateway_mqtt.kit import Ground, MqttClient, new_name


def numbers(client: MqttClient) -> dict[str, str]:
    """Return what has come."""
    client.ground.wait(100)
    client._take()
    found = [each for each in client.waiting if isinstance(each, p.Publish)]
    client.waiting.clear()
    assert all(each.retain and each.qos == 0 for each in found)
    return {each.topic.removeprefix("$SYS/broker/"): each.payload.decode() for each in found}


def test_numbers_come_at_once_and_when_they_change() -> None:
    ground = Ground(seed=12)
    client = ground.client(new_name())
    assert client.subscribe("$SYS/#", qos=2) == (R.SUCCESS,)
    first = numbers(client)
    assert first["version"] == f"Kafkaesque {__version__}"
    assert (first["clients/connected"], first["messages/received"]) == ("1", "0")
    other = ground.client(new_name())
    other.publish("a", b"x")
    ground.wait(10_000)
    changed = numbers(client)
    assert (changed["clients/connected"], changed["messages/received"]) == ("2", "1")
    assert int(changed["uptime"].split()[0]) >= 10
    assert "version" not in changed
    client.unsubscribe("$SYS/#")
    ground.wait(20_000)
    assert numbers(client) == {}


def test_a_filter_chooses_among_them() -> None:
    ground = Ground(seed=13)
    client = ground.client(new_name())
    wanted = p.Subscription(topic_filter="$SYS/broker/+/connected", qos=1)
    client.subscribe(wanted, "#", "+/broker/#")
    assert list(numbers(client)) == ["clients/connected"]


def test_they_are_not_shared(ground: Ground) -> None:
    client = ground.client(new_name())
    assert client.subscribe("$share/g/$SYS/#") == (R.TOPIC_FILTER_INVALID,)
