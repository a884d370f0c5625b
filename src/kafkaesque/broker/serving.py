"""Which part of a broker serves which request of another broker."""

from collections.abc import Sequence
from typing import get_args

from kafkaesque.broker.controller.client import ControllerClient
from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.controller.voters import ControllerVoters
from kafkaesque.broker.coordinators.registered_tables import RegisteredTables
from kafkaesque.broker.live.hub import LiveHub
from kafkaesque.broker.partitions.forwarder import Forwarder
from kafkaesque.broker.queues.hosts import QueueHosts
from kafkaesque.broker.replication.raft_driver import RaftDriver
from kafkaesque.broker.requests.commands import (
    AdvanceStart,
    AskControllers,
    AskPart,
    AwaitMetadata,
    ControllerCommand,
    Done,
    ForwardAppend,
    ForwardFetch,
    ForwardProduce,
    TransferLeadership,
)
from kafkaesque.broker.requests.desk import OnServed, RequestDesk
from kafkaesque.broker.requests.part_desk import PartDesk
from kafkaesque.broker.requests.queue_requests import (
    AnyQueueRequest,
    ExtendWaits,
    TakeOverConsumer,
)
from kafkaesque.broker.upkeep.log_starts import LogStarts
from kafkaesque.model.errors import RequestTimedOut
from kafkaesque.model.ids import GroupId, NodeId

#: So long another broker's deletion of records waits until they are committed here.
ADVANCE_TIMEOUT_MS = 5_000


def register_servers(
    desk: RequestDesk,
    *,
    metadata: MetadataView,
    controller: ControllerClient,
    voters: ControllerVoters,
    driver: RaftDriver,
    forwarder: Forwarder,
    log_starts: LogStarts,
    parts: PartDesk,
    tables: Sequence[RegisteredTables],
    queues: QueueHosts,
    live: LiveHub,
) -> None:
    """Register the servers of all requests that there are."""

    def transfer(_: NodeId, request: TransferLeadership, on_done: OnServed) -> None:
        driver.transfer_leadership(GroupId(request.group), NodeId(request.to_node))
        on_done(Done())

    def await_metadata(_: NodeId, request: AwaitMetadata, on_done: OnServed) -> None:
        def on_applied(is_applied: bool) -> None:
            late = RequestTimedOut("the metadata were not applied in time")
            on_done(Done() if is_applied else late)

        metadata.when_applied(request.offset, request.timeout_ms, on_applied)

    def extend_waits(_: NodeId, request: ExtendWaits, on_done: OnServed) -> None:
        queues.extend_waits(request)
        on_done(Done())

    def take_over(_: NodeId, request: TakeOverConsumer, on_done: OnServed) -> None:
        queues.take_over(request.consumer)
        on_done(Done())

    desk.register(AwaitMetadata, await_metadata)
    for command in get_args(ControllerCommand):
        desk.register(command, controller.serve)
    desk.register(AskControllers, lambda _, __, done: done(voters.view(metadata.state)))
    desk.register(TransferLeadership, transfer)
    desk.register(AskPart, lambda _, request, done: parts.serve(request, done))
    desk.register(
        AdvanceStart, lambda _, request, done: log_starts.serve(request, ADVANCE_TIMEOUT_MS, done)
    )
    desk.register(ForwardProduce, lambda _, request, done: forwarder.serve_produce(request, done))
    desk.register(ForwardAppend, lambda _, request, done: forwarder.serve_append(request, done))
    desk.register(ForwardFetch, lambda _, request, done: forwarder.serve_fetch(request, done))
    for request in get_args(AnyQueueRequest):
        desk.register(request, lambda _, each, done: queues.serve(each, done))
    desk.register(ExtendWaits, extend_waits)
    desk.register(TakeOverConsumer, take_over)
    live.register(desk)
    for kind in tables:
        for register in kind.servers:
            register(desk)
