"""Transactions as brokers know them (KIP-664): requests that librdkafka cannot send."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from kafkaesque.cli.addresses import REQUEST_TIMEOUT_S
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.kafka import Connection
from kafkaesque.cli.kafka_request import ask
from kafkaesque.cli.missing_rules import (
    Right,
    check_rule,
    on_cluster,
    on_topic,
    on_transactional_id,
)
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.describe_producers_request import (
    DescribeProducersRequest,
    TopicRequest,
)
from kafkaesque.protocols.kafka.messages.describe_transactions_request import (
    DescribeTransactionsRequest,
)
from kafkaesque.protocols.kafka.messages.find_coordinator_request import FindCoordinatorRequest
from kafkaesque.protocols.kafka.messages.init_producer_id_request import InitProducerIdRequest
from kafkaesque.protocols.kafka.messages.list_transactions_request import ListTransactionsRequest
from kafkaesque.protocols.kafka.messages.metadata_request import (
    MetadataRequest,
    MetadataRequestTopic,
)
from kafkaesque.protocols.kafka.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

AGAIN_S: Final = 0.1
#: No filter.
ANY_DURATION: Final = -1

_TRANSACTION = 1
_METADATA_VERSION = 9
_FIND_VERSION = 4
_LIST_VERSION = 1
_DESCRIBE_VERSION = 0
_PRODUCERS_VERSION = 0
_INIT_VERSION = 4
_MARKERS_VERSION = 1
#: What passes by itself, for all that is asked here.
_PASSING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
)

Result = TypeVar("Result")


class Partition(NamedTuple):
    """A partition, by its topic's name."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTransaction:
    """A transactional id in a list."""

    transactional_id: str
    state: str
    producer_id: int
    coordinator: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTransaction:
    """A transactional id, as its coordinator knows it."""

    transactional_id: str
    state: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    #: None where no transaction has been begun.
    start_ms: int | None
    partitions: list[Partition]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerRow:
    """A producer, as a partition's leader knows it; None where there is nothing to know."""

    topic: str
    partition: int
    leader: int
    producer_id: int
    producer_epoch: int | None
    last_sequence: int | None
    last_write_ms: int | None
    coordinator_epoch: int | None
    #: Where its open transaction begins in this partition.
    start_offset: int | None


class Transactions:
    """The transactions of one cluster."""

    def __init__(self, bootstrap: str) -> None:
        """Check that somebody listens.

        Raises:
            CommandFailed: nobody does.
        """
        Connection(bootstrap)
        self._bootstrap = bootstrap
        self._addresses: dict[int, str] = {}

    # -- lists

    def find(
        self, states: Sequence[str], producer_ids: Sequence[int], duration_ms: int = ANY_DURATION
    ) -> tuple[list[ListedTransaction], list[str]]:
        """Return the ids that pass the filters, and why brokers could not be asked."""
        self._read_metadata([])
        request = ListTransactionsRequest(states, producer_ids, duration_ms)
        found: list[ListedTransaction] = []
        problems: list[str] = []

        def ask_broker(address: str) -> tuple[int, Any]:
            answer = ask(address, ApiKey.LIST_TRANSACTIONS, _LIST_VERSION, request)
            return answer.error_code, answer.transaction_states

        for broker, address in sorted(self._addresses.items()):
            try:
                states_found = self._repeat(partial(ask_broker, address), f"broker {broker}")
            except CommandFailed as failure:
                problems.append(f"broker {broker} is missing: {failure.message}")
                continue
            found += [
                ListedTransaction(
                    transactional_id=each.transactional_id,
                    state=each.transaction_state,
                    producer_id=each.producer_id,
                    coordinator=broker,
                )
                for each in states_found
            ]
        return sorted(found, key=lambda each: each.transactional_id), problems

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """Return what the coordinator knows of an id.

        Raises:
            CommandFailed: nothing, or it cannot be asked.
        """
        request = DescribeTransactionsRequest([transactional_id])

        def ask_coordinator() -> tuple[int, Any]:
            broker, address = self._coordinator(transactional_id)
            answer = ask(address, ApiKey.DESCRIBE_TRANSACTIONS, _DESCRIBE_VERSION, request)
            (found,) = answer.transaction_states
            return found.error_code, (broker, found)

        right = on_transactional_id("describe", transactional_id)
        broker, found = self._repeat(ask_coordinator, _named(transactional_id), right)
        start_ms = found.transaction_start_time_ms
        return DescribedTransaction(
            transactional_id=transactional_id,
            state=found.transaction_state,
            coordinator=broker,
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
            timeout_ms=found.transaction_timeout_ms,
            start_ms=start_ms if start_ms >= 0 else None,
            partitions=[
                Partition(topic.topic, number)
                for topic in found.topics
                for number in topic.partitions
            ],
        )

    def partitions_of(self, topic: str) -> Sequence[int]:
        """Return the numbers of a topic's partitions.

        Raises:
            CommandFailed: it does not exist.
        """
        return [each.number for each in self._leaders([topic])]

    def producers(self, partitions: Sequence[Partition]) -> list[ProducerRow]:
        """Return the producers that the leaders of some partitions know, in this order.

        Raises:
            CommandFailed: a partition does not exist, or has no leader.
        """
        rows: list[ProducerRow] = []
        for where in partitions:
            leader, found = self._repeat(
                partial(self._ask_producers, where),
                f"partition {where}",
                on_topic("read", where.topic),
            )
            rows += [
                ProducerRow(
                    topic=where.topic,
                    partition=where.number,
                    leader=leader,
                    producer_id=each.producer_id,
                    producer_epoch=each.producer_epoch,
                    last_sequence=_known(each.last_sequence),
                    last_write_ms=_known(each.last_timestamp),
                    coordinator_epoch=_known(each.coordinator_epoch),
                    start_offset=_known(each.current_txn_start_offset),
                )
                for each in sorted(found, key=lambda each: each.producer_id)
            ]
        return rows

    def _ask_producers(self, where: Partition) -> tuple[int, tuple[int, Any]]:
        leader, address = self._leader(where)
        topic = TopicRequest(where.topic, [where.number])
        request = DescribeProducersRequest([topic])
        answer = ask(address, ApiKey.DESCRIBE_PRODUCERS, _PRODUCERS_VERSION, request)
        (found,) = answer.topics[0].partitions
        return found.error_code, (leader, found.active_producers)

    # -- ends

    def fence(self, transactional_id: str, timeout_ms: int) -> None:
        """Begin as the id's producer: what it has open is aborted, and it is shut out.

        Raises:
            CommandFailed: it was refused, or is not done in time.
        """
        request = InitProducerIdRequest(transactional_id, timeout_ms, -1, -1)

        def ask_coordinator() -> tuple[int, None]:
            _, address = self._coordinator(transactional_id)
            answer = ask(address, ApiKey.INIT_PRODUCER_ID, _INIT_VERSION, request)
            return answer.error_code, None

        right = on_transactional_id("write", transactional_id)
        self._repeat(ask_coordinator, _named(transactional_id), right)

    def write_abort(self, where: Partition, producer: ProducerRow) -> None:
        """Have an abort written that no coordinator has decided.

        Raises:
            CommandFailed: it was refused.
        """
        marker = WritableTxnMarker(
            producer.producer_id,
            producer.producer_epoch or 0,
            False,
            [WritableTxnMarkerTopic(where.topic, [where.number])],
            producer.coordinator_epoch or 0,
        )
        request = WriteTxnMarkersRequest([marker])

        def ask_leader() -> tuple[int, None]:
            _, address = self._leader(where)
            answer = ask(address, ApiKey.WRITE_TXN_MARKERS, _MARKERS_VERSION, request)
            return answer.markers[0].topics[0].partitions[0].error_code, None

        self._repeat(ask_leader, f"partition {where}", on_cluster("alter"))

    # -- who is where

    def _coordinator(self, transactional_id: str) -> tuple[int, str]:
        request = FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=[transactional_id])

        def ask_anybody() -> tuple[int, Any]:
            answer = ask(self._bootstrap, ApiKey.FIND_COORDINATOR, _FIND_VERSION, request)
            (found,) = answer.coordinators
            return found.error_code, found

        right = on_transactional_id("describe", transactional_id)
        found = self._repeat(ask_anybody, _named(transactional_id), right)
        return found.node_id, f"{found.host}:{found.port}"

    def _read_metadata(self, topics: Sequence[str]) -> Any:
        request = MetadataRequest(
            [MetadataRequestTopic(name=name) for name in topics], allow_auto_topic_creation=False
        )
        answer = ask(self._bootstrap, ApiKey.METADATA, _METADATA_VERSION, request)
        self._addresses = {each.node_id: f"{each.host}:{each.port}" for each in answer.brokers}
        return answer.topics

    def _leaders(self, topics: Sequence[str]) -> Mapping[Partition, int]:
        leaders: dict[Partition, int] = {}
        for topic in self._read_metadata(topics):
            check_rule(topic.error_code, self._bootstrap, on_topic("read", topic.name))
            if topic.error_code:
                raise _failure(topic.error_code, f"topic {topic.name}")
            for each in topic.partitions:
                leaders[Partition(topic.name, each.partition_index)] = each.leader_id
        return dict(sorted(leaders.items()))

    def _leader(self, where: Partition) -> tuple[int, str]:
        leaders = self._leaders([where.topic])
        if where not in leaders:
            raise CommandFailed(
                f"topic {where.topic} has no partition {where.number}: it has 0 to"
                f" {len(leaders) - 1}"
            )
        leader = leaders[where]
        address = self._addresses.get(leader)
        if address is None:
            raise CommandFailed(
                f"partition {where} has no leader at the moment", hint="kafkaesque cluster status"
            )
        return leader, address

    def _repeat(
        self, ask_once: Callable[[], tuple[int, Result]], what: str, *rights: Right
    ) -> Result:
        """Ask until the answer is not one that passes by itself; raises where it is an error."""
        deadline = time.monotonic() + REQUEST_TIMEOUT_S
        while True:
            code, result = ask_once()
            if code == ErrorCode.NONE:
                return result
            check_rule(code, self._bootstrap, *rights)
            if code not in _PASSING or time.monotonic() > deadline:
                raise _failure(code, what)
            time.sleep(AGAIN_S)


def _failure(code: int, what: str) -> CommandFailed:
    match code:
        case ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return CommandFailed(f"{what} does not exist", hint="kafkaesque txn list")
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION | ErrorCode.INVALID_TOPIC_EXCEPTION:
            return CommandFailed(f"{what} does not exist", hint="kafkaesque topic list")
        case ErrorCode.COORDINATOR_NOT_AVAILABLE:
            return CommandFailed(
                f"no broker coordinates {what} at the moment", hint="kafkaesque cluster status"
            )
        case ErrorCode.CONCURRENT_TRANSACTIONS:
            return CommandFailed(
                f"{what} was still busy after {REQUEST_TIMEOUT_S:g} s: a partition of its"
                " transaction has no leader, or does not answer",
                hint="kafkaesque cluster status",
            )
        case _ if code in _PASSING:
            return CommandFailed(f"{what} was not ready in time ({ErrorCode(code).name})")
    name = ErrorCode(code).name if code in ErrorCode.__members__.values() else str(code)
    return CommandFailed(f"{what} was refused ({name})")


def _named(transactional_id: str) -> str:
    return f"transactional id {transactional_id}"


def _known(number: int) -> int | None:
    return number if number >= 0 else None
