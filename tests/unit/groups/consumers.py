"""A desk for groups whose partitions the coordinator assigns."""

from collections.abc import Iterable
from typing import Any

from kafkaesque.groups.consumer.events import (
    ConsumerGroupDescribe,
    ConsumerGroupHeartbeat,
    TopicsChanged,
)
from kafkaesque.groups.consumer.group import ConsumerGroup
from kafkaesque.groups.consumer.results import ConsumerHeartbeatResult, DescribedConsumerGroup
from kafkaesque.groups.consumer.topics import Partitions, Topic, TopicCatalog, TopicIdPartition
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import ListGroups
from kafkaesque.groups.results import ListedGroup
from kafkaesque.model.ids import TopicId
from kafkaesque.tables.log_table import RequestToken
from tests.unit.groups.desk import GROUP, Desk

NONE = GroupError.NONE
FLIGHTS = TopicId(b"flights" + bytes(9))
TRAINS = TopicId(b"trains" + bytes(10))
IDS = {"flights": FLIGHTS, "trains": TRAINS}


def parts(topic_id: TopicId, *partitions: int) -> Partitions:
    return frozenset(TopicIdPartition(topic_id, each) for each in partitions)


class ConsumerDesk(Desk):
    """A desk that knows of topics, and of how members of the new protocol speak."""

    def topics(self, *topics: Topic, **counts: int) -> None:
        """Say which topics there are, from now on."""
        named = [
            Topic(name=name, topic_id=IDS[name], partition_count=count)
            for name, count in counts.items()
        ]
        self.ask(TopicsChanged(TopicCatalog([*topics, *named])))

    def send(self, member_id: str, epoch: int, **options: Any) -> RequestToken:
        token = self.token()
        options.setdefault("group_id", GROUP)
        self.ask(
            ConsumerGroupHeartbeat(token=token, member_id=member_id, member_epoch=epoch, **options)
        )
        return token

    def beat(self, member_id: str, epoch: int, **options: Any) -> ConsumerHeartbeatResult:
        result = self.answer(self.send(member_id, epoch, **options))
        assert isinstance(result, ConsumerHeartbeatResult), "no answer yet"
        return result

    def error(self, member_id: str, epoch: int, **options: Any) -> GroupError:
        return self.beat(member_id, epoch, **options).error

    def enter(
        self, member_id: str, names: Iterable[str] = ("flights",), **options: Any
    ) -> ConsumerHeartbeatResult:
        """Join with epoch 0, as a client that has nothing."""
        options.setdefault("rebalance_timeout_ms", 30_000)
        options.setdefault("owned", frozenset())
        return self.beat(member_id, 0, topic_names=tuple(names), **options)

    def settle(self, *member_ids: str, rounds: int = 4) -> None:
        """Let members do at once what they are told, until they have nothing more to do."""
        for _ in range(rounds):
            for member_id in member_ids:
                current = self.group().currents[member_id]
                result = self.beat(member_id, current.epoch, owned=current.assigned)
                assert result.error is NONE

    def group(self, group_id: str = GROUP) -> ConsumerGroup:
        return self.table._context.consumer_groups[group_id]

    def assigned(self, member_id: str) -> Partitions:
        return self.group().currents[member_id].assigned

    def described(self, group_id: str = GROUP) -> DescribedConsumerGroup:
        event = ConsumerGroupDescribe(token=self.token(), group_ids=(group_id,))
        (found,) = self.ask(event).groups
        assert isinstance(found, DescribedConsumerGroup)
        return found

    def listed(self, **filters: tuple[str, ...]) -> list[ListedGroup]:
        result = self.ask(ListGroups(token=self.token(), **filters))
        return list(result.groups)

    def next_desk(self) -> "ConsumerDesk":
        """The next leader's desk, from the log, which knows no topics yet."""
        desk = ConsumerDesk(self.config, log=self.log)
        assert desk.table.records_skipped == 0
        return desk


def desk_of(**counts: int) -> ConsumerDesk:
    desk = ConsumerDesk()
    desk.topics(**counts)
    return desk
