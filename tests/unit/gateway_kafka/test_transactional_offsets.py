"""TxnOffsetCommit, asked of a real broker whose disk fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.init_producer_id_request import InitProducerIdRequest
from kafkaesque.protocols.kafka.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.sim.seeds import first_of
from tests.unit.gateway_kafka.live import LiveCluster, versions_of

GROUP, TRANSACTION = "billing", "mine"
COMING = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def code_of(answer: Any) -> int:
    code: int = answer.topics[0].partitions[0].error_code
    return code


@pytest.mark.parametrize("version", first_of(versions_of(ApiKey.TXN_OFFSET_COMMIT), 2))
def test_a_coordinator_whose_disk_failed_says_to_look_for_another(
    tmp_path: Path, version: int
) -> None:
    """Producers take KAFKA_STORAGE_ERROR here for the end."""
    live = LiveCluster(tmp_path)
    try:
        live.create_topic("orders")
        producer = live.ask_until(
            InitProducerIdRequest(TRANSACTION, 60_000, -1, -1), lambda answer: not answer.error_code
        )
        offsets = [TxnOffsetCommitRequestPartition(0, 5)]
        commit = TxnOffsetCommitRequest(
            transactional_id=TRANSACTION,
            group_id=GROUP,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            topics=[TxnOffsetCommitRequestTopic("orders", offsets)],
        )
        live.ask_until(commit, lambda answer: code_of(answer) not in COMING, version)
        where = live.broker.group_coordinators.find(GROUP)
        live.broker.partitions.find(where).on_failed(OSError("broken"))
        assert code_of(live.ask(commit, version)) == ErrorCode.NOT_COORDINATOR
    finally:
        live.close()
