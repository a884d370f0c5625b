"""DescribeQuorum, AddRaftVoter and RemoveRaftVoter: which brokers are controllers (ADR 19)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.topic_names import METADATA_TOPIC
from kafkaesque.broker.requests.commands import (
    ChangeControllers,
    ControllerCopy,
    ControllerResult,
    ControllersView,
)
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.errors import code_of, message_of
from kafkaesque.gateway.kafka.topic_admin import TIMEOUT_MS_MAX
from kafkaesque.model.errors import InvalidRequest, RequestRefused, RequestTimedOut
from kafkaesque.model.ids import NodeId
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.add_raft_voter_request import AddRaftVoterRequest
from kafkaesque.protocols.kafka.messages.add_raft_voter_response import AddRaftVoterResponse
from kafkaesque.protocols.kafka.messages.describe_quorum_request import DescribeQuorumRequest
from kafkaesque.protocols.kafka.messages.describe_quorum_response import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from kafkaesque.protocols.kafka.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from kafkaesque.protocols.kafka.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from kafkaesque.protocols.kafka.wire import ZERO_UUID

#: Two of the requests name no time limit.
DESCRIBE_TIMEOUT_MS: Final = 5_000
REMOVE_TIMEOUT_MS: Final = 30_000
#: How often it is looked whether the voters are those that were asked for.
CHECK_MS: Final = 50
#: What the address is called where brokers, and so controllers, listen for one another.
LISTENER_NAME: Final = "PEER"
_ID_BYTES: Final = 8

OnDone = Callable[[RequestRefused | None], None]


def write_directory_id(directory_id: str) -> bytes:
    """Return a data directory's id as a UUID."""
    try:
        raw = bytes.fromhex(directory_id)
    except ValueError:
        return ZERO_UUID
    return raw.ljust(len(ZERO_UUID), b"\0") if len(raw) == _ID_BYTES else ZERO_UUID


def read_directory_id(uuid: bytes) -> str:
    """Return the id of a data directory; empty for any.

    Raises:
        InvalidRequest: it is none of ours.
    """
    if uuid == ZERO_UUID:
        return ""
    if uuid[_ID_BYTES:] != bytes(len(uuid) - _ID_BYTES):
        raise InvalidRequest(f"no broker has the directory id {uuid.hex()}")
    return uuid[:_ID_BYTES].hex()


# -- DescribeQuorum


def on_describe_quorum(context: Context, call: Call) -> None:
    """Say who votes, who leads, and how far everybody has the log, as the leader knows."""
    request: DescribeQuorumRequest = call.read()
    doors = context.doors

    def on_view(found: ControllersView | RequestRefused) -> None:
        topics = [
            TopicData(
                topic.topic_name,
                [
                    _partition(doors, topic.topic_name, partition.partition_index, found)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        nodes = [] if isinstance(found, RequestRefused) else _nodes(doors, found)
        call.answer(DescribeQuorumResponse(error_message=None, topics=topics, nodes=nodes))

    doors.cluster.describe_controllers(DESCRIBE_TIMEOUT_MS, on_view)


def _partition(
    doors: Doors, topic: str, index: int, found: ControllersView | RequestRefused
) -> PartitionData:
    if (topic, index) != (METADATA_TOPIC, 0):
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return PartitionData(index, code, f"only {METADATA_TOPIC}-0 has a quorum", leader_id=-1)
    if isinstance(found, RequestRefused):
        return PartitionData(index, code_of(found), message_of(found), leader_id=-1)
    now_ms = doors.clock.wall_ms()
    copies = sorted(found.copies, key=lambda copy: copy.node)
    return PartitionData(
        partition_index=index,
        error_message=None,
        leader_id=found.leader,
        leader_epoch=found.term,
        high_watermark=found.high_watermark,
        current_voters=[_replica(each, now_ms) for each in copies if each.is_voter],
        observers=[_replica(each, now_ms) for each in copies if not each.is_voter],
    )


def _replica(copy: ControllerCopy, now_ms: int) -> ReplicaState:
    return ReplicaState(
        replica_id=copy.node,
        replica_directory_id=write_directory_id(copy.directory_id),
        log_end_offset=copy.end_offset,
        last_fetch_timestamp=now_ms if copy.is_alive else -1,
        last_caught_up_timestamp=now_ms if copy.has_all else -1,
    )


def _nodes(doors: Doors, found: ControllersView) -> list[Node]:
    known = [doors.cluster.state.brokers.get(NodeId(each.node)) for each in found.copies]
    return [
        Node(each.node, [Listener(LISTENER_NAME, each.peer_host, each.peer_port)])
        for each in known
        if each is not None
    ]


# -- AddRaftVoter, RemoveRaftVoter


def on_add_raft_voter(context: Context, call: Call) -> None:
    """Make a broker a controller; answered when it is one, or when that is written down."""
    request: AddRaftVoterRequest = call.read()

    def on_done(refusal: RequestRefused | None) -> None:
        answer = AddRaftVoterResponse(error_message=None)
        if refusal is not None:
            answer.error_code, answer.error_message = code_of(refusal), message_of(refusal)
        call.answer(answer)

    change = _Change(context.doors, call, request.voter_id, request.timeout_ms, is_added=True)
    change.waits = request.ack_when_committed
    change.start(request.cluster_id, request.voter_directory_id, on_done)


def on_remove_raft_voter(context: Context, call: Call) -> None:
    """Let a broker be a controller no more; answered when it is none."""
    request: RemoveRaftVoterRequest = call.read()

    def on_done(refusal: RequestRefused | None) -> None:
        answer = RemoveRaftVoterResponse(error_message=None)
        if refusal is not None:
            answer.error_code, answer.error_message = code_of(refusal), message_of(refusal)
        call.answer(answer)

    change = _Change(context.doors, call, request.voter_id, REMOVE_TIMEOUT_MS, is_added=False)
    change.start(request.cluster_id, request.voter_directory_id, on_done)


class _Change:
    """A change of who votes, on its way."""

    def __init__(
        self, doors: Doors, call: Call, node: int, timeout_ms: int, *, is_added: bool
    ) -> None:
        self._doors = doors
        self._call = call
        self._node = NodeId(node)
        self._is_added = is_added
        self._timeout_ms = max(0, min(timeout_ms, TIMEOUT_MS_MAX))
        self._deadline_ms = doors.clock.now_ms() + self._timeout_ms
        #: Whether the answer is given only when the voters are those.
        self.waits = True

    def start(self, cluster_id: str | None, directory: bytes, on_done: OnDone) -> None:
        """Have it written down, and wait."""
        own_id = self._doors.cluster.cluster_id
        if cluster_id not in (None, own_id):
            on_done(InvalidRequest(f"this is cluster {own_id!r}, not {cluster_id!r}"))
            return
        try:
            directory_id = read_directory_id(directory)
        except InvalidRequest as refusal:
            on_done(refusal)
            return

        def on_outcome(outcome: ControllerResult | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                on_done(outcome)
            elif self.waits:
                self._wait(on_done)
            else:
                on_done(None)

        command = ChangeControllers(
            node=self._node, directory_id=directory_id, is_added=self._is_added
        )
        self._doors.cluster.submit(self._call.on_behalf(command), self._timeout_ms, on_outcome)

    def _wait(self, on_done: OnDone) -> None:
        clock = self._doors.clock
        if self._is_so():
            on_done(None)
        elif clock.now_ms() >= self._deadline_ms:
            on_done(RequestTimedOut(self._complaint()))
        else:
            clock.call_later(CHECK_MS, lambda: self._wait(on_done))

    def _is_so(self) -> bool:
        cluster, node = self._doors.cluster, NodeId(self._node)
        return cluster.is_controller_settled(node, is_voter=self._is_added)

    def _complaint(self) -> str:
        if self._is_added:
            return (
                f"broker {self._node} has no vote yet after {self._timeout_ms} ms; it gets it when "
                "it is up and has the controllers' log"
            )
        return (
            f"broker {self._node} has its vote still after {self._timeout_ms} ms; it loses it when "
            "a majority of the other controllers is up and has the log"
        )
