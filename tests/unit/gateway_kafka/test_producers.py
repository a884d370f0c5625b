"""InitProducerId, asked of real brokers."""

from __future__ import annotations

import pytest

from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.init_producer_id_request import InitProducerIdRequest
from tests.unit.gateway_kafka.live import LiveCluster, versions_of


@pytest.mark.parametrize("version", versions_of(ApiKey.INIT_PRODUCER_ID))
def test_an_idempotent_producer_gets_an_id(live: LiveCluster, version: int) -> None:
    answer = live.ask(InitProducerIdRequest(None), version)
    assert answer.error_code == 0
    assert answer.producer_id >= 0
    assert answer.producer_epoch == 0


def test_no_two_producers_get_the_same_id(live_trio: LiveCluster) -> None:
    answers = [
        live_trio.ask(InitProducerIdRequest(None), node=node)
        for node in (1, 2, 3)
        for _ in range(3)
    ]
    assert {answer.error_code for answer in answers} == {0}
    assert len({answer.producer_id for answer in answers}) == 9


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (InitProducerIdRequest("mine", -1), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (InitProducerIdRequest(""), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest(None, producer_id=5), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest(None, producer_epoch=5), ErrorCode.INVALID_REQUEST),
    ],
    ids=["no time for transactions", "empty id", "id without epoch", "epoch without id"],
)
def test_what_is_refused(
    live: LiveCluster, request_: InitProducerIdRequest, code: ErrorCode
) -> None:
    answer = live.ask(request_)
    assert answer.error_code == code
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


def test_a_producer_may_ask_again_with_its_old_id(live: LiveCluster) -> None:
    first = live.ask(InitProducerIdRequest(None))
    again = live.ask(
        InitProducerIdRequest(
            None, producer_id=first.producer_id, producer_epoch=first.producer_epoch
        )
    )
    assert again.error_code == 0
    assert again.producer_id != first.producer_id
