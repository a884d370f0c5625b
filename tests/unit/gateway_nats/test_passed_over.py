"""A consumer of few subjects of a wide stream, whose closed segments have indexes of their keys."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kafkaesque.broker.partitions import forwarder
from kafkaesque.broker.requests.commands import ForwardFetch
from kafkaesque.storage import key_index_builder
from tests.unit.gateway_nats.kit import Ground
from tests.unit.gateway_nats.test_few_names import SECOND
from tests.unit.gateway_nats.test_jetstream import Api, new_consumer, new_stream

#: Enough for some segments of 32 KiB.
COUNT = 2_000


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> Ground:
    monkeypatch.setattr(key_index_builder, "BLOCK_BYTES", 500)
    return Ground(seed=5, brokers=3)


def counted(ground: Ground) -> tuple[int, int]:
    """Return how many indexes were made, and how many records passed over by them."""
    found = [each.store.statistics for each in ground.cluster.brokers.values()]
    return (
        sum(each.key_indexes_built for each in found),
        sum(each.records_passed_over for each in found),
    )


def publish_wide(api: Api, stream: str, wanted: dict[int, bytes]) -> None:
    """Publish `COUNT` messages in batches that have few names each."""
    for number in range(COUNT):
        subject = f"{stream}.wanted" if number in wanted else f"{stream}.other.{number // 50}"
        api.client.publish(subject, wanted.get(number, b"nobody's"))
        if number % 50 == 49:
            api.client.flush()
    api.client.flush()


def read(api: Api, stream: str, consumer: str, wanted: dict[int, bytes]) -> None:
    """See that a consumer gets what it wants, with the sequences that it has."""
    api.pull(stream, consumer, batch=len(wanted), expires=20 * SECOND)
    found = [api.client.message() for _ in wanted]
    heard = {int(reply.split(".")[5]) - 1: payload for _, _, reply, _, payload in found}
    assert heard == wanted
    for each in found:
        api.ack(each[2])


def test_what_is_not_wanted_is_not_read(three: Ground) -> None:
    api = Api(three)
    stream = new_stream(api)
    wanted = {7: b"first", 900: b"second", 901: b"third", COUNT - 1: b"last"}
    publish_wide(api, stream, wanted)
    read(api, stream, new_consumer(api, stream, filter_subject=f"{stream}.wanted"), wanted)
    three.wait(5_000)
    built, before = counted(three)
    assert built >= 3
    read(api, stream, new_consumer(api, stream, filter_subject=f"{stream}.wanted"), wanted)
    _, passed = counted(three)
    assert passed - before > COUNT // 2
    some = dict.fromkeys(range(600, 650), b"nobody's")
    read(api, stream, new_consumer(api, stream, filter_subject=f"{stream}.*.12"), some)
    nobody = new_consumer(api, stream, filter_subject=f"{stream}.nobody")
    api.pull(stream, nobody, batch=1, expires=SECOND)
    assert api.status().startswith("NATS/1.0 408")


def test_nothing_is_made_for_topics_that_nobody_reads_by_names(three: Ground) -> None:
    api = Api(three)
    stream = new_stream(api)
    publish_wide(api, stream, {3: b"first"})
    consumer = new_consumer(api, stream)
    api.pull(stream, consumer, batch=100, expires=5 * SECOND)
    for _ in range(100):
        api.client.message()
    three.wait(5_000)
    assert counted(three) == (0, 0)


def test_a_leader_of_an_earlier_release_leaves_nothing_out(
    three: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve = forwarder.Forwarder.serve_fetch

    def serve_as_before(self: forwarder.Forwarder, request: ForwardFetch, on_done: Any) -> None:
        serve(self, replace(request, names=msgspec.UNSET), on_done)

    monkeypatch.setattr(forwarder.Forwarder, "serve_fetch", serve_as_before)
    api = Api(three)
    stream = new_stream(api)
    wanted = {7: b"first", COUNT - 1: b"last"}
    publish_wide(api, stream, wanted)
    read(api, stream, new_consumer(api, stream, filter_subject=f"{stream}.wanted"), wanted)
    assert counted(three) == (0, 0)
