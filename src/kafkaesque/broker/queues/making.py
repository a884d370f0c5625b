"""Puts the parts together that serve the queues of a broker."""

from collections.abc import Callable
from typing import NamedTuple

from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.partitions.forwarder import Forwarder
from kafkaesque.broker.partitions.partition_table import PartitionTable
from kafkaesque.broker.partitions.schema_checks import ProduceChecks
from kafkaesque.broker.peers.link import PeerNetwork
from kafkaesque.broker.queues.calls import QueueCalls
from kafkaesque.broker.queues.hosts import QueueHosts
from kafkaesque.broker.queues.mover import Mover
from kafkaesque.broker.replication.leaders_table import LeadersTable
from kafkaesque.broker.requests.caller import RemoteCaller
from kafkaesque.env import Env
from kafkaesque.model.ids import GroupId, NodeId, Offset


class QueueParts(NamedTuple):
    """Who serves the queues that are led here, and who asks for the others."""

    hosts: QueueHosts
    calls: QueueCalls


def make_queues(
    *,
    node: NodeId,
    env: Env,
    metadata: MetadataView,
    leaders: LeadersTable,
    peers: PeerNetwork,
    caller: RemoteCaller,
    partitions: PartitionTable,
    forwarder: Forwarder,
    checks: ProduceChecks,
    on_start_wanted: Callable[[GroupId, Offset], None],
) -> QueueParts:
    """Return the parts, each made of those before it."""
    hosts = QueueHosts(
        node=node,
        clock=env.clock,
        disk=env.disk,
        metadata=metadata,
        peers=peers,
        partitions=partitions,
        forwarder=forwarder,
        checks=checks,
        on_start_wanted=on_start_wanted,
    )
    calls = QueueCalls(
        node=node,
        clock=env.clock,
        caller=caller,
        metadata=metadata,
        leaders=leaders,
        hosts=hosts,
    )
    mover = Mover(clock=env.clock, metadata=metadata, calls=calls, forwarder=forwarder)
    hosts.on_move = mover.move
    return QueueParts(hosts, calls)
