"""A transactional producer that says exactly what a test wants said, right or wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Self

from bench.processes import ask_metadata
from kafkaesque.model.batch_encoder import BatchOptions
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kafkaesque.protocols.kafka.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kafkaesque.protocols.kafka.messages.describe_transactions_request import (
    DescribeTransactionsRequest,
)
from kafkaesque.protocols.kafka.messages.end_txn_request import EndTxnRequest
from kafkaesque.protocols.kafka.messages.find_coordinator_request import FindCoordinatorRequest
from kafkaesque.protocols.kafka.messages.init_producer_id_request import InitProducerIdRequest
from kafkaesque.protocols.kafka.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kafkaesque.protocols.kafka.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafkaesque.protocols.kafka.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.clients.bad_input import Wire, batch
from tests.clients.kafka_helpers import unique
from tests.waiting import DEADLINE_S

GROUP, TRANSACTION = 0, 1
TIMEOUT_MS = 60_000
#: What passes by itself: every client comes again.
PASSING = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
#: Of these, what says that somebody else leads by now: on a busy machine at any time.
MOVED = tuple(each for each in PASSING if each is not ErrorCode.CONCURRENT_TRANSACTIONS)
#: The last versions in which the client itself adds partitions and keeps its epoch.
ADD, PRODUCE, END, COMMIT_OFFSETS = 3, 9, 3, 4
#: The first ones of KIP-890 part 2.
PRODUCE_2, END_2, COMMIT_OFFSETS_2 = 12, 5, 5


class Raw:
    """Raw connections to the brokers of a cluster, one to each."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.ports = [int(each.rpartition(":")[2]) for each in bootstrap_servers.split(",")]
        self._wires: dict[int, Wire] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; the next request opens a new one."""
        for wire in self._wires.values():
            wire.socket.close()
        self._wires.clear()

    def ask(self, port: int, api: int, version: int, message: Any) -> Any:
        """Return a broker's answer."""
        try:
            return self.connect(port).ask(api, version, message)
        except ConnectionError:
            self._wires.pop(port).socket.close()
            raise

    def connect(self, port: int) -> Wire:
        """Return the connection to a broker, opened if there is none."""
        if port not in self._wires:
            self._wires[port] = Wire(port)
        return self._wires[port]

    def coordinator(self, key: str, kind: int = TRANSACTION) -> int:
        """Return the port of the broker that coordinates this transactional id, or group."""
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        deadline = time.monotonic() + DEADLINE_S
        while True:
            answer = self.ask(self.ports[0], ApiKey.FIND_COORDINATOR, 4, request)
            (found,) = answer.coordinators
            if found.error_code == ErrorCode.NONE:
                port: int = found.port
                return port
            assert time.monotonic() < deadline, found
            time.sleep(0.05)

    def leader(self, topic: str, partition: int) -> int:
        """Return the port of the broker that leads a partition."""
        view = ask_metadata(self.ports[0], [topic], DEADLINE_S)
        return int(view.brokers[view.leaders[topic, partition]].rpartition(":")[2])

    def partition_count(self, topic: str) -> int:
        return len(ask_metadata(self.ports[0], [topic], DEADLINE_S).leaders)

    def describe(self, transactional_id: str) -> Any:
        """Return what the coordinator tells about a transactional id."""
        request = DescribeTransactionsRequest([transactional_id])
        port = self.coordinator(transactional_id)
        answer = self.ask(port, ApiKey.DESCRIBE_TRANSACTIONS, 0, request)
        return answer.transaction_states[0]

    def mark(
        self,
        topic: str,
        partition: int,
        producer_id: int,
        producer_epoch: int,
        *,
        is_commit: bool = False,
        coordinator_epoch: int = 0,
        version: int = 1,
        transaction_version: int = 0,
    ) -> ErrorCode:
        """Ask a partition's leader for a marker, as only a coordinator should."""
        marker = WritableTxnMarker(
            producer_id,
            producer_epoch,
            is_commit,
            [WritableTxnMarkerTopic(topic, [partition])],
            coordinator_epoch,
            transaction_version,
        )
        port = self.leader(topic, partition)
        answer = self.ask(port, ApiKey.WRITE_TXN_MARKERS, version, WriteTxnMarkersRequest([marker]))
        return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)


class RawProducer:
    """A transactional producer; each request returns the error, `NONE` for success."""

    def __init__(self, raw: Raw, transactional_id: str | None = None) -> None:
        self.raw = raw
        self.transactional_id = transactional_id or unique("transactions")
        self.producer_id = -1
        self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}

    def _ask_coordinator(self, api: int, version: int, message: Any) -> Any:
        return self.raw.ask(self.raw.coordinator(self.transactional_id), api, version, message)

    def init(
        self,
        timeout_ms: int = TIMEOUT_MS,
        *,
        producer_id: int = -1,
        epoch: int = -1,
        version: int = 5,
    ) -> ErrorCode:
        """Begin; on success this producer has the id and epoch of the answer."""
        request = InitProducerIdRequest(self.transactional_id, timeout_ms, producer_id, epoch)
        answer = self._ask_coordinator(ApiKey.INIT_PRODUCER_ID, version, request)
        if answer.error_code == ErrorCode.NONE:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return ErrorCode(answer.error_code)

    def add(self, partitions: Mapping[str, Sequence[int]], version: int = ADD) -> list[ErrorCode]:
        """Add partitions; the errors in their order."""
        topics = [AddPartitionsToTxnTopic(name, indexes) for name, indexes in partitions.items()]
        named = (self.transactional_id, self.producer_id, self.epoch)
        if version > ADD:
            transaction = AddPartitionsToTxnTransaction(*named, False, topics)
            request = AddPartitionsToTxnRequest([transaction])
        else:
            request = AddPartitionsToTxnRequest((), *named, topics)
        answer = self._ask_coordinator(ApiKey.ADD_PARTITIONS_TO_TXN, version, request)
        results = answer.results_by_topic_v3_and_below
        for each in answer.results_by_transaction:
            results = each.topic_results
        return [
            ErrorCode(each.partition_error_code)
            for topic in results
            for each in topic.results_by_partition
        ]

    def send(
        self,
        topic: str,
        partition: int,
        *values: bytes,
        version: int = PRODUCE,
        transactional_id: str | None = "",
        **options: Any,
    ) -> ErrorCode:
        """Produce one batch; `options` are those of the batch that are to be otherwise."""
        sequence = self.sequences.get((topic, partition), 0)
        wanted = {
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "base_sequence": sequence,
            "transactional": True,
            **options,
        }
        records = batch(*values, options=BatchOptions(**wanted))
        named = self.transactional_id if transactional_id == "" else transactional_id
        data = TopicProduceData(
            name=topic, partition_data=[PartitionProduceData(partition, records)]
        )
        request = ProduceRequest(named, -1, 10_000, [data])
        answer = self.raw.ask(self.raw.leader(topic, partition), ApiKey.PRODUCE, version, request)
        code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
        if code == ErrorCode.NONE and not options:
            self.sequences[topic, partition] = sequence + len(values)
        return code

    def add_offsets(self, group: str, version: int = 3) -> ErrorCode:
        """Add the partition that holds a group's offsets."""
        request = AddOffsetsToTxnRequest(self.transactional_id, self.producer_id, self.epoch, group)
        answer = self._ask_coordinator(ApiKey.ADD_OFFSETS_TO_TXN, version, request)
        return ErrorCode(answer.error_code)

    def commit_offsets(
        self,
        group: str,
        offsets: Mapping[tuple[str, int], int],
        *,
        version: int = COMMIT_OFFSETS,
        metadata: str = "",
        **member: Any,
    ) -> list[ErrorCode]:
        """Have offsets committed with the transaction; the errors in their order."""
        topics = [
            TxnOffsetCommitRequestTopic(
                name, [TxnOffsetCommitRequestPartition(index, offset, -1, metadata)]
            )
            for (name, index), offset in offsets.items()
        ]
        request = TxnOffsetCommitRequest(
            self.transactional_id, group, self.producer_id, self.epoch, topics=topics, **member
        )
        port = self.raw.coordinator(group, GROUP)
        answer = self.raw.ask(port, ApiKey.TXN_OFFSET_COMMIT, version, request)
        return [ErrorCode(topic.partitions[0].error_code) for topic in answer.topics]

    def end(self, *, is_commit: bool, version: int = END) -> ErrorCode:
        """Commit or abort; from version 5 on, this producer goes on with the epoch it is told."""
        request = EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, is_commit)
        answer = self._ask_coordinator(ApiKey.END_TXN, version, request)
        if version >= END_2 and answer.error_code == ErrorCode.NONE:
            if answer.producer_epoch != self.epoch or answer.producer_id != self.producer_id:
                self.sequences.clear()
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return ErrorCode(answer.error_code)


def settled(
    request: Callable[[], ErrorCode], passing: Collection[ErrorCode] = PASSING
) -> ErrorCode:
    """Repeat a request, as clients do, until its outcome is not one that passes by itself."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        code = request()
        if code not in passing:
            return code
        assert time.monotonic() < deadline, code.name
        time.sleep(0.02)
