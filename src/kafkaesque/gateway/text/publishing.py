"""PUBS: one message to the partition of its key, wherever that is led."""

from __future__ import annotations

from collections.abc import Callable

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.cluster_state import TopicState
from kafkaesque.broker.metadata.topic_names import INTERNAL_TOPICS, check_topic_name
from kafkaesque.broker.requests.commands import CreateTopic, ProduceResult
from kafkaesque.chassis.known import when_known
from kafkaesque.chassis.rights import Rights
from kafkaesque.gateway.text.authorization import no_topic
from kafkaesque.gateway.text.reply import Reply
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import InvalidTopic, RequestRefused, RequestTimedOut, TopicExists
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.murmur2 import partition_for_key
from kafkaesque.model.records import Record
from kafkaesque.protocols.text.answers import write_error, write_ok
from kafkaesque.protocols.text.commands import Publish
from kafkaesque.protocols.text.errors import BadCommand
from kafkaesque.protocols.text.examples import PUBLISH

#: Within this time a message is committed, or not there, or it is not known whether it will be.
PUBLISH_TIMEOUT_MS = 30_000
CREATE_TIMEOUT_MS = 10_000
#: So often it is looked whether this broker has heard of a topic that was created.
LOOK_AGAIN_MS = 10
#: Topics for which it is known whose turn it is; with any more, all begin anew.
TURNS_MAX = 10_000

_ALL = -1


class Publisher:
    """Carries out PUBS."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors
        #: Topic -> how many messages without a key it was given here.
        self._turns: dict[str, int] = {}

    def publish(self, command: Publish, reply: Reply) -> None:
        """Append a message; answered when it is committed.

        Raises:
            BadCommand: the topic cannot be written to.
        """
        name = command.topic
        if name in INTERNAL_TOPICS:
            raise BadCommand(f"topic {name!r} is internal to the brokers", PUBLISH)
        topic = self._doors.cluster.state.topics.get(name)
        if topic is not None:
            self._append(topic, command, reply)
            return
        if name in self._doors.cluster.state.topic_views:
            raise BadCommand(f"topic {name!r} shows a queue: put messages there", PUBLISH)
        try:
            check_topic_name(name)
        except InvalidTopic as refusal:
            raise BadCommand(str(refusal), PUBLISH) from None
        if not self._doors.configuration.get("auto.create.topics.enable"):
            raise no_topic(name)
        if not _may_create(reply.rights, name):
            raise no_topic(name)
        self._create(name, reply, lambda created: self._append(created, command, reply))

    def _create(self, name: str, reply: Reply, then: Callable[[TopicState], None]) -> None:
        doors = self._doors

        def on_known(is_known: bool) -> None:
            if is_known:
                then(doors.cluster.state.topics[name])
            else:
                reply.end(write_error(f"topic {name!r} was not created in time", PUBLISH))

        def on_created(outcome: object) -> None:
            if isinstance(outcome, RequestRefused) and not isinstance(outcome, TopicExists):
                reply.end(write_error(f"topic {name!r} was not created: {outcome}", PUBLISH))
            else:
                when_known(
                    doors.clock,
                    lambda: name in doors.cluster.state.topics,
                    on_known,
                    timeout_ms=CREATE_TIMEOUT_MS,
                    every_ms=LOOK_AGAIN_MS,
                )

        command = CreateTopic(name=name)
        if reply.rights is not None:
            command = reply.rights.sign(command)
        doors.cluster.submit(command, CREATE_TIMEOUT_MS, on_created)

    def _append(self, topic: TopicState, command: Publish, reply: Reply) -> None:
        message = command.message
        where = TopicPartition(topic.name, self._choose(topic, message.key))
        timestamp_ms = self._doors.clock.wall_ms()
        record = Record(0, timestamp_ms, message.key, message.value, message.headers)

        def on_done(outcome: ProduceResult | RequestRefused) -> None:
            if isinstance(outcome, RequestTimedOut):
                what = f"it is not known whether the message is in {where}: {outcome}"
                reply.end(write_error(what, PUBLISH))
            elif isinstance(outcome, RequestRefused):
                reply.end(write_error(f"the message is not in {where}: {outcome}", PUBLISH))
            else:
                reply.end(write_ok(where.topic, where.partition, outcome.base_offset))

        self._doors.publishing.publish(
            where,
            bytes(encode_batch([record])),
            acks=_ALL,
            timeout_ms=PUBLISH_TIMEOUT_MS,
            on_done=on_done,
            is_wanted=lambda: reply.is_wanted,
        )

    def _choose(self, topic: TopicState, key: bytes | None) -> int:
        """Return the key's partition, as Kafka's clients find it, or without a key the next."""
        if key is not None:
            return partition_for_key(key, len(topic.partitions))
        led = [
            partition.partition
            for partition in topic.partitions
            if self._doors.cluster.leaders.leader(partition.group) is not None
        ]
        choices = led or [partition.partition for partition in topic.partitions]
        if len(self._turns) >= TURNS_MAX:
            self._turns.clear()
        turn = self._turns.get(topic.name, 0)
        self._turns[topic.name] = turn + 1
        return choices[turn % len(choices)]


def _may_create(rights: Rights | None, topic: str) -> bool:
    if rights is None:
        return True
    return rights.could_cluster(Operation.CREATE) or rights.may(
        Operation.CREATE, ResourceType.TOPIC, topic
    )
