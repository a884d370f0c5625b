"""Consumers that are changed, and acknowledgements that are repeated, where brokers are several."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.gateway_nats.kit import Ground
from tests.unit.gateway_nats.test_jetstream import Api, new_consumer, new_stream

SECOND = 1_000_000_000


@pytest.fixture
def three() -> Ground:
    return Ground(seed=3, brokers=3)


def change(api: Api, stream: str, consumer: str, **config: Any) -> dict[str, Any]:
    settings = {"durable_name": consumer, "ack_policy": "explicit", **config}
    operation = f"CONSUMER.CREATE.{stream}.{consumer}"
    return api.ask(operation, stream_name=stream, action="update", config=settings)


def test_all_brokers_go_by_new_filters_when_the_change_is_answered(three: Ground) -> None:
    apis = [Api(three, broker) for broker in (1, 2, 3)]
    stream = new_stream(apis[0])
    target = f"{stream}-pushed"
    pushed = new_consumer(
        apis[0], stream, deliver_subject=target, filter_subject=f"{stream}.a", max_ack_pending=1
    )
    pulled = new_consumer(apis[0], stream, filter_subject=f"{stream}.a")
    listener = three.client(2)
    listener.subscribe(target)
    apis[1].pull(stream, pulled, batch=1, expires=60 * SECOND)
    for body in (b"1", b"2"):
        # The second one waits: only one may be out.
        apis[0].publish(f"{stream}.a", body)
    first = listener.message()
    assert (first[4], apis[1].client.message()[4]) == (b"1", b"1")
    apis[1].pull(stream, pulled, batch=2, expires=60 * SECOND)
    assert apis[1].client.message()[4] == b"2"
    for consumer, more in ((pushed, {"deliver_subject": target}), (pulled, {})):
        said = change(apis[2], stream, consumer, filter_subject=f"{stream}.b", **more)
        assert said["config"]["filter_subject"] == f"{stream}.b"
    apis[0].publish(f"{stream}.a", b"3")
    apis[0].publish(f"{stream}.b", b"4")
    apis[0].ack(first[2])
    assert (listener.message()[4], apis[1].client.message()[4]) == (b"4", b"4")


def test_a_repeated_acknowledgement_is_confirmed_by_another_leader(three: Ground) -> None:
    api = Api(three, 2)
    stream = new_stream(api)
    consumer = new_consumer(api, stream)
    api.publish(f"{stream}.a", b"x")
    api.pull(stream, consumer, batch=1, expires=5 * SECOND)
    token = api.client.message()[2]
    api.ack(token)
    leader = api.ask(f"CONSUMER.INFO.{stream}.{consumer}")["cluster"]["leader"]
    number = int(leader.rpartition("-")[2])
    three.kill(number)
    elsewhere = Api(three, number % 3 + 1)
    elsewhere.ack(token)
    elsewhere.pull(stream, consumer, batch=1, no_wait=True)
    assert elsewhere.status() == "NATS/1.0 404 No Messages"


def test_many_repeats_come_together(three: Ground) -> None:
    api = Api(three)
    stream = new_stream(api)
    consumer = new_consumer(api, stream)
    for number in range(20):
        api.publish(f"{stream}.a", b"%d" % number)
    api.pull(stream, consumer, batch=20, expires=5 * SECOND)
    tokens = [api.client.message()[2] for _ in range(20)]
    for _ in range(2):
        # The last one is still out when the others come again.
        for number, token in enumerate(tokens[:-1]):
            api.client.publish(token, b"+ACK", f"{api.inbox}.acked{number}")
        found = {api.client.message()[0] for _ in tokens[:-1]}
        assert found == {f"{api.inbox}.acked{number}" for number in range(19)}
    assert api.ask(f"CONSUMER.INFO.{stream}.{consumer}")["num_ack_pending"] == 1


def test_a_reader_that_waits_finds_what_its_new_filter_wants(three: Ground) -> None:
    """What is being read for the old filter passes over it."""
    api = Api(three)
    stream = new_stream(api)
    config = {"name": "R", "ack_policy": "none", "filter_subject": f"{stream}.b"}
    for subject in ("a", "b", "a"):
        api.publish(f"{stream}.{subject}", subject.encode())
    api.ask(f"CONSUMER.CREATE.{stream}.R", stream_name=stream, config=config)
    # Nobody has asked yet, so nothing is passed over.
    config["filter_subject"] = f"{stream}.a"
    api.ask(f"CONSUMER.CREATE.{stream}.R", stream_name=stream, action="update", config=config)
    api.pull(stream, "R", batch=3, expires=5 * SECOND)
    tokens = [api.client.message()[2].split(".")[5:7] for _ in range(2)]
    assert tokens == [["1", "1"], ["3", "2"]]
    # The pull waits: what comes now is passed over.
    api.publish(f"{stream}.b", b"b")
    three.wait(100)
    config["filter_subject"] = f"{stream}.*"
    api.ask(f"CONSUMER.CREATE.{stream}.R", stream_name=stream, action="update", config=config)
    api.publish(f"{stream}.b", b"last")
    assert api.client.message()[4] == b"last"


def test_a_consumer_that_nobody_asks_goes_though_no_leader_lasts_for_so_long() -> None:
    ground = Ground()
    api = Api(ground)
    stream = new_stream(api)
    asked, idle = (new_consumer(api, stream, inactive_threshold=250 * SECOND) for _ in range(2))
    machine = ground.cluster._machines[ground.cluster.names[0]]
    for ms in (130_000, 100_000):
        ground.wait(ms)
        # Who is silent for so long is cut off.
        api = Api(ground)
        api.pull(stream, asked, batch=1, no_wait=True)
        assert "404" in api.status()
        ground.cluster.restart(machine)
        ground.loop.run_until(lambda: ground.cluster.is_back(machine), 60_000)
    ground.wait(90_000)
    found = Api(ground).ask(f"CONSUMER.NAMES.{stream}")["consumers"]
    assert (asked in found, idle in found) == (True, False)
