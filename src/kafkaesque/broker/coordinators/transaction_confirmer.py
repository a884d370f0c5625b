"""Tells leaders that a transaction is under way in their partitions, before they ask.

A leader that gets the first batch of a transaction asks the coordinator whether that partition
takes part (KIP-890). Where the coordinator has just committed that it does, and the client is told,
the leaders are told as well, and seldom have to ask. Nothing depends on it: what gets lost is asked
for.

A word that comes late must not open what has ended meanwhile. From one coordinator it cannot come
after the marker, for the same reason for which no marker can (see `marker_writer`); after a newer
coordinator's marker it is known by its epoch. And it counts for one leadership of the partition, of
the topic that the coordinator means.
"""

from typing import TYPE_CHECKING

from kafkaesque.broker.requests.commands import ConfirmTransaction, Done, LedPartition
from kafkaesque.model.errors import RequestRefused, UnknownTopicOrPartition
from kafkaesque.model.ids import NodeId, TopicPartition
from kafkaesque.transactions.results import ConfirmPartitions

if TYPE_CHECKING:
    from kafkaesque.broker.broker import Broker

#: After this nobody cares any more.
_TIMEOUT_MS = 5_000


def tell_leaders(broker: "Broker", added: ConfirmPartitions, coordinator_epoch: int) -> None:
    """Tell each leader of partitions that were added, as far as leaders are known."""
    by_leader: dict[NodeId, list[LedPartition]] = {}
    for where in added.partitions:
        try:
            state = broker.state.partition(where)
        except UnknownTopicOrPartition:
            continue
        report, leader = broker.leaders.get(state.group), broker.leaders.leader(state.group)
        if report is not None and report.leader == leader:
            by_leader.setdefault(leader, []).append(
                LedPartition(
                    topic=where.topic,
                    topic_id=state.topic_id,
                    partition=where.partition,
                    leader_epoch=report.term,
                )
            )
    for leader, partitions in by_leader.items():
        request = ConfirmTransaction(
            transactional_id=added.transactional_id,
            producer_id=added.producer_id,
            producer_epoch=added.producer_epoch,
            coordinator_epoch=coordinator_epoch,
            partitions=partitions,
        )
        if leader == broker.node:
            confirm_transaction(broker, request)
        else:
            broker.caller.ask(leader, request, Done, _TIMEOUT_MS, lambda _: None)


def confirm_transaction(broker: "Broker", request: ConfirmTransaction) -> None:
    """Take note for the partitions that are led here as the coordinator believes."""
    for each in request.partitions:
        try:
            partition = broker.partition(TopicPartition(each.topic, each.partition))
            partition.check_leader(each.leader_epoch)
        except RequestRefused:
            continue
        if each.topic_id not in (b"", partition.state.topic_id):
            continue
        partition.producers.confirm_transaction(
            request.producer_id,
            request.producer_epoch,
            request.coordinator_epoch,
            request.transactional_id,
        )
