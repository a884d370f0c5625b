"""DeleteRecords, ElectLeaders and DescribeLogDirs: what is done to partitions where they are."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kafkaesque.broker.broker import Broker
from kafkaesque.broker.cluster_state import PartitionState
from kafkaesque.broker.commands import Done, TransferLeadership
from kafkaesque.broker.partition import Partition
from kafkaesque.broker.peer_link import PeerUnreachable
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.errors import code_of, message_of
from kafkaesque.gateway.kafka.gathering import Queue
from kafkaesque.gateway.kafka.topic_admin import TIMEOUT_MS_MAX, Piece
from kafkaesque.model.errors import (
    DiskFailed,
    InvalidTopic,
    NotLeader,
    OffsetOutOfRange,
    RequestRefused,
    RequestTimedOut,
)
from kafkaesque.model.ids import NodeId, Offset, TopicPartition
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
)
from kafkaesque.protocols.kafka.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kafkaesque.protocols.kafka.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kafkaesque.protocols.kafka.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kafkaesque.protocols.kafka.messages.elect_leaders_request import ElectLeadersRequest
from kafkaesque.protocols.kafka.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from kafkaesque.gateway.kafka.gateway import KafkaGateway

#: Stands for the high watermark in DeleteRecords.
_HIGH_WATERMARK = -1
_NO_OFFSET = -1


# -- DeleteRecords


def on_delete_records(gateway: "KafkaGateway", call: Call) -> None:
    """Give up what is before offsets; answered when all replicas in sync have done so."""
    request: DeleteRecordsRequest = call.read()
    timeout_ms = max(0, min(request.timeout_ms, TIMEOUT_MS_MAX))
    pieces: list[Piece] = []
    topics: list[DeleteRecordsTopicResult] = []
    for topic in request.topics:
        results = [
            DeleteRecordsPartitionResult(wanted.partition_index, _NO_OFFSET, 0)
            for wanted in topic.partitions
        ]
        topics.append(DeleteRecordsTopicResult(topic.name, results))
        for wanted, result in zip(topic.partitions, results, strict=True):
            pieces.append(_deletion(gateway.broker, topic.name, wanted, timeout_ms, result))
    response = DeleteRecordsResponse(topics=topics)
    Queue(gateway.clock, pieces, lambda: call.answer(response)).start()


def _deletion(
    broker: Broker,
    name: str,
    wanted: DeleteRecordsPartition,
    timeout_ms: int,
    result: DeleteRecordsPartitionResult,
) -> Piece:
    def run(on_done: Callable[[], None]) -> None:
        try:
            partition = _deletable(broker, TopicPartition(name, wanted.partition_index))
            start = _wanted_start(partition, wanted.offset)
        except RequestRefused as refusal:
            result.error_code = code_of(refusal)
            on_done()
            return
        if "delete" not in partition.config.cleanup_policy:
            result.error_code = ErrorCode.POLICY_VIOLATION
            on_done()
            return

        def on_outcome(outcome: Done | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                result.error_code = code_of(outcome)
            else:
                result.low_watermark = partition.log_start_offset
            on_done()

        broker.log_starts.delete(partition, start, timeout_ms, on_outcome)

    return run


def _deletable(broker: Broker, where: TopicPartition) -> Partition:
    if broker.state.topic(where.topic).is_internal:
        raise InvalidTopic(f"{where.topic} is the brokers' own: its records cannot be deleted")
    partition = broker.partition(where)
    partition.check_leader()
    return partition


def _wanted_start(partition: Partition, wanted: int) -> Offset:
    high_watermark = partition.high_watermark
    offset = high_watermark if wanted == _HIGH_WATERMARK else Offset(wanted)
    if not 0 <= offset <= high_watermark:
        raise OffsetOutOfRange(f"{offset} is not from 0 to the high watermark {high_watermark}")
    return offset


# -- ElectLeaders

_PREFERRED, _UNCLEAN = 0, 1
#: How often it is looked whether an elected leader has taken over.
ELECTION_CHECK_MS = 20
#: A leader gives up handing over after half a second; then it is asked again.
ELECTION_RETRY_MS = 1_000


def on_elect_leaders(gateway: "KafkaGateway", call: Call) -> None:
    """Let the first replicas of partitions lead them."""
    request: ElectLeadersRequest = call.read()
    if request.election_type not in (_PREFERRED, _UNCLEAN):
        call.answer(_no_such_election(request))
        return
    _Elections(gateway.broker, call, request).start()


def _no_such_election(request: ElectLeadersRequest) -> ElectLeadersResponse:
    code, message = ErrorCode.INVALID_REQUEST, f"no election has type {request.election_type}"
    results = [
        ReplicaElectionResult(
            topic.topic, [PartitionResult(index, code, message) for index in topic.partitions]
        )
        for topic in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=code, replica_election_results=results)


class _Elections:
    """A request whose partitions change their leaders."""

    __slots__ = ("_broker", "_call", "_deadline_ms", "_request", "_results")

    def __init__(self, broker: Broker, call: Call, request: ElectLeadersRequest) -> None:
        self._broker = broker
        self._call = call
        self._request = request
        timeout_ms = max(0, min(request.timeout_ms, TIMEOUT_MS_MAX))
        self._deadline_ms = broker.env.clock.now_ms() + timeout_ms
        self._results: dict[TopicPartition, tuple[ErrorCode, str | None]] = {}

    def start(self) -> None:
        """Elect for every partition; the answer follows the last one."""
        pieces: list[Piece] = [self._piece(where) for where in self._wanted()]
        Queue(self._broker.env.clock, pieces, self._answer).start()

    def _wanted(self) -> list[TopicPartition]:
        asked = self._request.topic_partitions
        if asked is None:
            return [
                partition.topic_partition
                for partition in self._broker.state.partitions_by_group.values()
            ]
        named = (
            TopicPartition(topic.topic, index) for topic in asked for index in topic.partitions
        )
        return list(dict.fromkeys(named))

    def _answer(self) -> None:
        topics: dict[str, list[PartitionResult]] = {}
        for where, (code, message) in self._results.items():
            if self._request.topic_partitions is None and code == ErrorCode.ELECTION_NOT_NEEDED:
                continue
            result = PartitionResult(where.partition, code, message)
            topics.setdefault(where.topic, []).append(result)
        results = [ReplicaElectionResult(name, outcome) for name, outcome in topics.items()]
        self._call.answer(ElectLeadersResponse(replica_election_results=results))

    def _piece(self, where: TopicPartition) -> Piece:
        def run(on_done: Callable[[], None]) -> None:
            def finish(code: ErrorCode, message: str | None) -> None:
                self._results[where] = (code, message)
                on_done()

            try:
                self._elect(self._broker.state.partition(where), finish)
            except RequestRefused as refusal:
                finish(code_of(refusal), message_of(refusal))

        return run

    def _elect(
        self, partition: PartitionState, finish: Callable[[ErrorCode, str | None], None]
    ) -> None:
        leader = self._broker.leaders.leader(partition.group)
        if self._request.election_type == _UNCLEAN:
            self._refuse_unclean(leader, finish)
            return
        preferred = partition.replicas[0]
        if leader == preferred:
            finish(ErrorCode.ELECTION_NOT_NEEDED, "the preferred leader leads already")
            return
        report = self._broker.leaders.get(partition.group)
        if leader is None or report is None:
            finish(
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
                f"{partition.topic_partition} has no leader that could hand over",
            )
        elif preferred not in report.in_sync or not self._broker.peers.is_alive(preferred):
            finish(
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
                f"broker {preferred} is not alive or not in sync",
            )
        else:
            self._transfer(partition, leader, preferred, finish)

    def _refuse_unclean(
        self, leader: NodeId | None, finish: Callable[[ErrorCode, str | None], None]
    ) -> None:
        if leader is not None:
            finish(ErrorCode.ELECTION_NOT_NEEDED, "the partition has a leader")
            return
        finish(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
            "an unclean election takes place by itself where the topic has "
            "unclean.leader.election.enable=true; otherwise bring back brokers that hold the "
            "partition until they are a majority",
        )

    def _transfer(
        self,
        partition: PartitionState,
        leader: NodeId,
        preferred: NodeId,
        finish: Callable[[ErrorCode, str | None], None],
    ) -> None:
        broker = self._broker

        def on_asked(outcome: object) -> None:
            may_pass = isinstance(outcome, RequestTimedOut | NotLeader)
            if isinstance(outcome, RequestRefused) and not may_pass:
                finish(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, message_of(outcome))
            elif isinstance(outcome, PeerUnreachable):
                finish(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, message_of(outcome))
            else:
                retry_ms = broker.env.clock.now_ms() + ELECTION_RETRY_MS
                self._await_leader(partition, preferred, finish, retry_ms)

        request = TransferLeadership(group=partition.group, to_node=preferred)
        if leader == broker.node:
            broker.forwarder.serve(request, on_asked)
        else:
            left_ms = max(0, self._deadline_ms - broker.env.clock.now_ms())
            broker.caller.ask(leader, request, Done, left_ms, on_asked)

    def _await_leader(
        self,
        partition: PartitionState,
        preferred: NodeId,
        finish: Callable[[ErrorCode, str | None], None],
        retry_ms: int,
    ) -> None:
        broker = self._broker
        leader, now_ms = broker.leaders.leader(partition.group), broker.env.clock.now_ms()
        if leader == preferred:
            finish(ErrorCode.NONE, None)
        elif leader is not None and retry_ms <= now_ms < self._deadline_ms:
            self._transfer(partition, leader, preferred, finish)
        elif now_ms >= self._deadline_ms:
            finish(
                ErrorCode.REQUEST_TIMED_OUT,
                f"broker {preferred} has not taken over {partition.topic_partition} in time",
            )
        else:
            broker.env.clock.call_later(
                ELECTION_CHECK_MS,
                lambda: self._await_leader(partition, preferred, finish, retry_ms),
            )


# -- DescribeLogDirs

#: Where the disk does not say.
_UNKNOWN_SIZE = -1


def on_describe_log_dirs(gateway: "KafkaGateway", call: Call) -> None:
    """Say how large the partitions on this broker are, and the disk's volume (KIP-827)."""
    request: DescribeLogDirsRequest = call.read()
    broker = gateway.broker
    wanted: dict[str, Sequence[int]] | None = None
    if request.topics is not None:
        wanted = {topic.topic: topic.partitions for topic in request.topics}
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for partition in broker.partitions:
        state = partition.state
        if wanted is None or state.partition in wanted.get(state.topic, ()):
            topics.setdefault(state.topic, []).append(_describe_size(partition))
    total_bytes, usable_bytes = _space(broker)
    result = DescribeLogDirsResult(
        error_code=ErrorCode.NONE if broker.failure is None else ErrorCode.KAFKA_STORAGE_ERROR,
        log_dir=broker.config.data_dir,
        topics=[DescribeLogDirsTopic(name, sizes) for name, sizes in topics.items()],
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )
    call.answer(DescribeLogDirsResponse(results=[result]))


def _space(broker: Broker) -> tuple[int, int]:
    disk = broker.env.disk
    try:
        return disk.total_bytes(), disk.free_bytes()
    except DiskFailed:
        return _UNKNOWN_SIZE, _UNKNOWN_SIZE


def _describe_size(partition: Partition) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=partition.state.partition,
        partition_size=partition.log.size_bytes,
        offset_lag=0,
    )
