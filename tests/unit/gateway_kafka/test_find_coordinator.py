"""FindCoordinator, asked of real brokers."""

from __future__ import annotations

import pytest

from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.find_coordinator_request import FindCoordinatorRequest
from tests.unit.gateway_kafka.live import LiveCluster, versions_of

VERSION_WITH_BATCHES = 4


@pytest.mark.parametrize("version", versions_of(ApiKey.FIND_COORDINATOR))
def test_a_group_is_found_after_a_while(live: LiveCluster, version: int) -> None:
    if version < VERSION_WITH_BATCHES:
        request = FindCoordinatorRequest(key="readers")
        first = live.ask(request, version)
        answer = live.ask_until(request, lambda answer: answer.error_code == 0, version)
    else:
        request = FindCoordinatorRequest(coordinator_keys=["readers"])
        first = live.ask(request, version).coordinators[0]
        accepted = live.ask_until(
            request, lambda answer: answer.coordinators[0].error_code == 0, version
        )
        (answer,) = accepted.coordinators
        assert answer.key == "readers"
    assert first.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (first.node_id, first.host, first.port) == (-1, "", -1)
    if version >= 1:
        assert first.error_message
    assert (answer.node_id, answer.host, answer.port) == (1, *live.broker.config.kafka_address)


def test_every_key_of_a_batch_is_answered_by_the_leader_of_its_partition(
    live_trio: LiveCluster,
) -> None:
    live = live_trio
    keys = [f"group-{number}" for number in range(20)]
    request = FindCoordinatorRequest(coordinator_keys=keys)
    answer = live.ask_until(
        request, lambda answer: not any(found.error_code for found in answer.coordinators)
    )
    assert [found.key for found in answer.coordinators] == keys
    for found in answer.coordinators:
        where = live.broker.coordinators.find(found.key)
        assert found.node_id == live.leader(where.topic, where.partition)
        assert live.nodes[found.node_id].broker.config.kafka_address.port == found.port
    assert len({found.node_id for found in answer.coordinators}) == 3


def test_a_group_without_leader_is_not_available(live: LiveCluster) -> None:
    request = FindCoordinatorRequest(coordinator_keys=["readers"])
    live.ask_until(request, lambda answer: answer.coordinators[0].error_code == 0)
    where = live.broker.coordinators.find("readers")
    live.broker.leaders.retire(live.broker.state.partition(where).group, 9)
    (found,) = live.ask(request).coordinators
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert f"__consumer_offsets-{where.partition}" in found.error_message


@pytest.mark.parametrize(
    ("key_type", "code"),
    [
        (1, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (2, ErrorCode.INVALID_REQUEST),
        (9, ErrorCode.INVALID_REQUEST),
    ],
)
def test_other_coordinators_do_not_exist(live: LiveCluster, key_type: int, code: ErrorCode) -> None:
    answer = live.ask(FindCoordinatorRequest(key="mine", key_type=key_type), 3)
    assert (answer.error_code, answer.node_id) == (code, -1)
    assert answer.error_message
