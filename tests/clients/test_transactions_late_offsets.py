"""Offsets that come late, when their transaction is over and the next one has begun."""

from __future__ import annotations

import pytest

from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.clients.kafka_helpers import TopicMaker, unique
from tests.clients.raw_transactions import GROUP, Raw, RawProducer, settled
from tests.waiting import eventually

E = ErrorCode


def committed(raw: Raw, group: str, topic: str) -> int:
    """Returns the offset that is committed and stable, -1 if there is none."""
    asked = OffsetFetchRequestTopics(name=topic, partition_indexes=[0])
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group, topics=[asked])], require_stable=True
    )
    answer = raw.ask(raw.coordinator(group, GROUP), ApiKey.OFFSET_FETCH, 8, request)
    offset: int = answer.groups[0].topics[0].partitions[0].committed_offset
    return offset


@pytest.mark.parametrize("version", [0, 4])
def test_offsets_of_the_transaction_before_are_not_taken_into_the_next_one(
    bootstrap_servers: str, topic_maker: TopicMaker, version: int
) -> None:
    topic, group = topic_maker("late", partitions=1), unique("group")
    with Raw(bootstrap_servers) as older, Raw(bootstrap_servers) as newer:
        producer = RawProducer(older)

        def commit(offset: int) -> ErrorCode:
            (code,) = producer.commit_offsets(group, {(topic, 0): offset}, version=version)
            return code

        assert settled(producer.init) is E.NONE
        assert settled(lambda: producer.add_offsets(group)) is E.NONE
        assert settled(lambda: commit(5)) is E.NONE
        assert settled(lambda: producer.end(is_commit=True)) is E.NONE

        # The client takes its connections for lost, and goes on over others.
        producer.raw = newer
        assert settled(lambda: producer.add_offsets(group)) is E.NONE
        assert settled(lambda: commit(9)) is E.NONE
        # What it sent over an old one comes to light.
        producer.raw = older
        assert commit(5) is E.INVALID_PRODUCER_EPOCH
        producer.raw = newer
        assert settled(lambda: producer.end(is_commit=True)) is E.NONE
        eventually(lambda: committed(newer, group, topic) == 9, "the newer offset")
