"""FindCoordinator, asked of real brokers."""

from __future__ import annotations

from typing import Any

import pytest

from kafkaesque.broker.controller.client import OnOutcome
from kafkaesque.broker.coordinators import table_host, table_hosts
from kafkaesque.model.errors import InvalidReplicationFactor
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.find_coordinator_request import FindCoordinatorRequest
from tests.unit.gateway_kafka.live import LiveCluster, versions_of

VERSION_WITH_BATCHES = 4


def ask_for(live: LiveCluster, key: str, version: int) -> Any:
    """Return the answer for one group, which has the same fields in all versions."""
    if version < VERSION_WITH_BATCHES:
        return live.ask(FindCoordinatorRequest(key=key), version)
    (found,) = live.ask(FindCoordinatorRequest(coordinator_keys=[key]), version).coordinators
    assert found.key == key
    return found


@pytest.mark.parametrize("version", versions_of(ApiKey.FIND_COORDINATOR))
def test_the_first_who_asks_waits_until_there_is_a_coordinator(
    live: LiveCluster, version: int
) -> None:
    assert not live.broker.state.topics
    answer = ask_for(live, "readers", version)
    assert answer.error_code == 0
    assert (answer.node_id, answer.host, answer.port) == (1, *live.broker.config.kafka_address)


@pytest.mark.parametrize("version", versions_of(ApiKey.FIND_COORDINATOR))
def test_nobody_waits_for_long_for_a_topic_that_cannot_be_made(
    live: LiveCluster, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    def submit(command: object, timeout_ms: int, on_done: OnOutcome) -> None:
        on_done(InvalidReplicationFactor("there are too few brokers"))

    monkeypatch.setattr(live.broker.controller_client, "submit", submit)
    monkeypatch.setattr(table_hosts, "NEW_WAIT_MS_MAX", 20)
    answer = ask_for(live, "readers", version)
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (answer.node_id, answer.host, answer.port) == (-1, "", -1)
    if version >= 1:
        assert answer.error_message


def test_every_key_of_a_batch_is_answered_by_the_leader_of_its_partition(
    live_trio: LiveCluster,
) -> None:
    live = live_trio
    keys = [f"group-{number}" for number in range(20)]
    request = FindCoordinatorRequest(coordinator_keys=keys)
    answer = live.ask(request)
    assert not any(found.error_code for found in answer.coordinators)
    assert [found.key for found in answer.coordinators] == keys
    for found in answer.coordinators:
        where = live.broker.group_coordinators.find(found.key)
        assert found.node_id == live.leader(where.topic, where.partition)
        assert live.nodes[found.node_id].broker.config.kafka_address.port == found.port
    assert len({found.node_id for found in answer.coordinators}) == 3


def test_a_group_without_leader_is_not_available(live: LiveCluster) -> None:
    request = FindCoordinatorRequest(coordinator_keys=["readers"])
    assert live.ask(request).coordinators[0].error_code == 0
    where = live.broker.group_coordinators.find("readers")
    live.broker.leaders.retire(live.broker.state.partition(where).group, 9)
    begun = live.loop.time()
    (found,) = live.ask(request).coordinators
    # At once: it is not new, and nobody knows when it will have a leader again.
    assert live.loop.time() - begun < table_host.NEW_WAIT_MS_MAX / 1000
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert f"__consumer_offsets-{where.partition}" in found.error_message


@pytest.mark.parametrize(
    ("key_type", "code"),
    [
        (2, ErrorCode.INVALID_REQUEST),
        (9, ErrorCode.INVALID_REQUEST),
    ],
)
def test_other_coordinators_do_not_exist(live: LiveCluster, key_type: int, code: ErrorCode) -> None:
    answer = live.ask(FindCoordinatorRequest(key="mine", key_type=key_type), 3)
    assert (answer.error_code, answer.node_id) == (code, -1)
    assert answer.error_message
