"""ElectLeaders: preferred leaders, and unclean elections at an administrator's word."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.cluster_state import PartitionState
from kafkaesque.broker.peers.link import PeerUnreachable
from kafkaesque.broker.requests.commands import Done
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.errors import code_of, message_of
from kafkaesque.gateway.kafka.gathering import Queue
from kafkaesque.gateway.kafka.topic_admin import TIMEOUT_MS_MAX, Piece
from kafkaesque.model.errors import (
    NotLeader,
    RequestRefused,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from kafkaesque.model.ids import NodeId, TopicPartition
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.elect_leaders_request import ElectLeadersRequest
from kafkaesque.protocols.kafka.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

_PREFERRED, _UNCLEAN = 0, 1
#: How often it is looked whether an elected leader has taken over.
ELECTION_CHECK_MS = 20
#: A leader gives up handing over after half a second; then it is asked again.
ELECTION_RETRY_MS = 1_000


def on_elect_leaders(context: Context, call: Call) -> None:
    """Let preferred replicas lead, or recover partitions without a leader (ADR 16).

    The administrator has asked for the second, so it is done whatever the topic's options allow.
    """
    request: ElectLeadersRequest = call.read()
    if request.election_type not in (_PREFERRED, _UNCLEAN):
        call.answer(_no_such_election(request))
        return
    _Elections(context.doors, call, request).start()


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

    __slots__ = ("_call", "_deadline_ms", "_doors", "_request", "_results")

    def __init__(self, doors: Doors, call: Call, request: ElectLeadersRequest) -> None:
        self._doors = doors
        self._call = call
        self._request = request
        timeout_ms = max(0, min(request.timeout_ms, TIMEOUT_MS_MAX))
        self._deadline_ms = doors.clock.now_ms() + timeout_ms
        self._results: dict[TopicPartition, tuple[ErrorCode, str | None]] = {}

    def start(self) -> None:
        """Elect for every partition; the answer follows the last one."""
        Queue(self._doors.clock, self._pieces(), self._answer).start()

    def _pieces(self) -> list[Piece]:
        state = self._doors.cluster.state
        asked = self._request.topic_partitions
        if asked is None:
            # Logs of queues among them, which have leaders like all others and are no topics.
            return [
                self._piece(each.topic_partition, partial(self._by_group, each))
                for each in state.partitions_by_group.values()
            ]
        named = (
            TopicPartition(topic.topic, index) for topic in asked for index in topic.partitions
        )
        return [self._piece(where, partial(state.placed, where)) for where in dict.fromkeys(named)]

    def _by_group(self, known: PartitionState) -> PartitionState:
        """Return a partition as it is by now.

        Raises:
            UnknownTopicOrPartition: it was deleted.
        """
        found = self._doors.cluster.state.partitions_by_group.get(known.group)
        if found is None:
            raise UnknownTopicOrPartition(f"{known.topic_partition} was deleted")
        return found

    def _answer(self) -> None:
        topics: dict[str, list[PartitionResult]] = {}
        for where, (code, message) in self._results.items():
            if self._request.topic_partitions is None and code == ErrorCode.ELECTION_NOT_NEEDED:
                continue
            result = PartitionResult(where.partition, code, message)
            topics.setdefault(where.topic, []).append(result)
        results = [ReplicaElectionResult(name, outcome) for name, outcome in topics.items()]
        self._call.answer(ElectLeadersResponse(replica_election_results=results))

    def _piece(self, where: TopicPartition, find: Callable[[], PartitionState]) -> Piece:
        def run(on_done: Callable[[], None]) -> None:
            def finish(code: ErrorCode, message: str | None) -> None:
                self._results[where] = (code, message)
                on_done()

            try:
                self._elect(find(), finish)
            except RequestRefused as refusal:
                finish(code_of(refusal), message_of(refusal))

        return run

    def _elect(
        self, partition: PartitionState, finish: Callable[[ErrorCode, str | None], None]
    ) -> None:
        if self._request.election_type == _UNCLEAN:
            self._elect_unclean(partition, finish)
            return
        leader = self._doors.cluster.leaders.leader(partition.group)
        preferred = partition.replicas[0]
        if leader == preferred:
            finish(ErrorCode.ELECTION_NOT_NEEDED, "the preferred leader leads already")
            return
        report = self._doors.cluster.leaders.get(partition.group)
        if leader is None or report is None:
            finish(
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
                f"{partition.topic_partition} has no leader that could hand over",
            )
        elif preferred not in report.in_sync or not self._doors.cluster.is_alive(preferred):
            finish(
                ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
                f"broker {preferred} is not alive or not in sync",
            )
        else:
            self._transfer(partition, leader, preferred, finish)

    def _elect_unclean(
        self, partition: PartitionState, finish: Callable[[ErrorCode, str | None], None]
    ) -> None:
        def on_done(outcome: Done | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                finish(code_of(outcome), message_of(outcome))
            else:
                finish(ErrorCode.NONE, None)

        self._doors.topics.elect_unclean(partition, self._deadline_ms, on_done, self._call.client)

    def _transfer(
        self,
        partition: PartitionState,
        leader: NodeId,
        preferred: NodeId,
        finish: Callable[[ErrorCode, str | None], None],
    ) -> None:
        doors = self._doors

        def on_asked(outcome: object) -> None:
            may_pass = isinstance(outcome, RequestTimedOut | NotLeader)
            if isinstance(outcome, RequestRefused) and not may_pass:
                finish(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, message_of(outcome))
            elif isinstance(outcome, PeerUnreachable):
                finish(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, message_of(outcome))
            else:
                retry_ms = doors.clock.now_ms() + ELECTION_RETRY_MS
                self._await_leader(partition, preferred, finish, retry_ms)

        left_ms = max(0, self._deadline_ms - doors.clock.now_ms())
        doors.topics.transfer_leadership(partition, leader, preferred, left_ms, on_asked)

    def _await_leader(
        self,
        partition: PartitionState,
        preferred: NodeId,
        finish: Callable[[ErrorCode, str | None], None],
        retry_ms: int,
    ) -> None:
        doors = self._doors
        leader, now_ms = doors.cluster.leaders.leader(partition.group), doors.clock.now_ms()
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
            doors.clock.call_later(
                ELECTION_CHECK_MS,
                lambda: self._await_leader(partition, preferred, finish, retry_ms),
            )
