"""`/streams`: streams of JetStream and their consumers, as options of topics and queues say them.

A stream is a topic of one partition, and a consumer a queue over it (ADR 43). What clients have
asked for stands in options, which every broker knows; leaders say how much there is. What a stream
shows of its messages is a view of those who read it: deletions and bounds are not counted here.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kafkaesque.access.operations import ResourceType
from kafkaesque.admin.api.authorization import refuse_unknown_topic
from kafkaesque.admin.api.calls import Call, Route
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.fan_out import Gathered
from kafkaesque.admin.api.numbers import Int64
from kafkaesque.admin.api.paging import ListQuery, sort_field, take_page, wants
from kafkaesque.admin.api.part_list import Keys
from kafkaesque.admin.api.part_pages import (
    QUEUES,
    TOPICS,
    QueueRow,
    QueuesAnswer,
    QueuesQuestion,
    TopicsAnswer,
    TopicSizes,
    TopicsQuestion,
)
from kafkaesque.admin.api.queue_part import NAMED_MAX
from kafkaesque.admin.api.values import Listing
from kafkaesque.broker.metadata.cluster_state import QueueState, TopicState
from kafkaesque.broker.metadata.queue_names import QueueName, queue_resource
from kafkaesque.broker.options.nats import CONSUMER, STREAM
from kafkaesque.broker.options.queues import SOURCE_TOPIC

#: Subjects and origins of one stream that are shown.
SHOWN_MAX: Final = 100
_NS_PER_MS: Final = 1_000_000


class _Origin(msgspec.Struct, frozen=True):
    name: str = ""


class _Stream(msgspec.Struct, frozen=True):
    """What is shown of the client's own words; see `gateway/nats/jetstream/configs.py`."""

    name: str = ""
    description: str | None = None
    subjects: list[str] | None = None
    retention: str = "limits"
    discard: str = "old"
    max_msgs: Int64 = -1
    max_bytes: Int64 = -1
    max_age: Int64 = 0
    mirror: _Origin | None = None
    sources: list[_Origin] | None = None


class _Consumer(msgspec.Struct, frozen=True):
    description: str | None = None
    durable_name: str | None = None
    deliver_policy: str = "all"
    ack_policy: str = "none"
    max_deliver: Int64 | None = None
    max_ack_pending: Int64 | None = None
    filter_subject: str | None = None
    filter_subjects: list[str] | None = None
    deliver_subject: str | None = None
    pause_until: str | None = None


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """A stream; it is the topic of its name."""

    name: str
    description: str
    subjects: list[str]
    #: Streams and topics that it has messages from; of these those that may be seen.
    origins: list[str]
    is_mirror: bool
    retention: str
    discard: str
    #: Null: no limit.
    messages_max: int | None
    bytes_max: int | None
    age_max_ms: int | None
    consumers: int
    created_at: int | None
    leader: int | None
    #: Of the topic; null where its leader has not answered.
    messages: int | None
    bytes: int | None
    #: The sequence of the newest message.
    last_sequence: int | None


class StreamList(Listing, frozen=True, kw_only=True):
    """Streams."""

    items: list[Stream]


class StreamConsumer(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer of a stream that the cluster keeps; it is a queue."""

    name: str
    stream: str
    queue: str
    description: str
    is_durable: bool
    deliver_policy: str
    ack_policy: str
    #: Empty: all subjects of the stream.
    filters: list[str]
    #: Where it sends to; null: it is asked.
    deliver_subject: str | None
    paused_until: str | None
    deliveries_max: int | None
    unacknowledged_max: int | None
    created_at: int | None
    #: Null where the queue's leader has not answered.
    ready: int | None
    unacknowledged: int | None
    parked: int | None
    receivers: int | None


class StreamConsumerList(Listing, frozen=True, kw_only=True):
    """Consumers of a stream."""

    items: list[StreamConsumer]


_STREAM_KEYS: Final[Keys] = {
    "name": lambda each: each.name,
    "consumers": lambda each: each.consumers,
    "created_at": lambda each: each.created_at,
    "messages": lambda each: each.messages,
    "bytes": lambda each: each.bytes,
    "last_sequence": lambda each: each.last_sequence,
}
_CONSUMER_KEYS: Final[Keys] = {
    "name": lambda each: each.name,
    "created_at": lambda each: each.created_at,
    "ready": lambda each: each.ready,
    "unacknowledged": lambda each: each.unacknowledged,
}


class StreamPages:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def list_streams(self, call: Call[ListQuery, None]) -> None:
        """List streams."""
        query = call.query
        sort_field(query, _STREAM_KEYS, "name")
        consumers = self._consumers()
        topics = [
            (topic, said)
            for topic in self._context.doors.cluster.state.topics.values()
            if (said := _read(topic.configs.get(STREAM), _Stream)) is not None
            and wants(query, " ".join([topic.name, *(said.subjects or ())]))
            and call.sees(ResourceType.TOPIC, topic.name)
        ]

        def on_sizes(gathered: Gathered[TopicsAnswer]) -> None:
            sizes = {e.name: e for answer in gathered.answers.values() for e in answer.topics}
            found = [
                self._stream(
                    call, topic, said, sizes.get(topic.name), len(consumers.get(topic.name, ()))
                )
                for topic, said in topics
            ]
            page = take_page(found, query, _STREAM_KEYS, "name")
            call.answer(self._context.page_view(StreamList, page, gathered.sources))

        question = TopicsQuestion(names=[topic.name for topic, _ in topics])
        self._context.fan_out.ask_all(
            TOPICS, question, lambda told: call.guard(lambda: on_sizes(told))
        )

    def _consumers(self) -> dict[str, list[QueueState]]:
        """Return the queues that are consumers, by stream."""
        found: dict[str, list[QueueState]] = {}
        for queue in self._context.doors.queues.all():
            if queue.options.get(CONSUMER):
                found.setdefault(queue.options.get(SOURCE_TOPIC, ""), []).append(queue)
        return found

    def _stream(
        self,
        call: Call[ListQuery, None],
        topic: TopicState,
        said: _Stream,
        size: TopicSizes | None,
        consumers: int,
    ) -> Stream:
        sources = ([] if said.mirror is None else [said.mirror]) + (said.sources or [])
        origins = [each.name for each in sources]
        subjects = said.subjects or ([] if origins else [said.name or topic.name])
        origins = [each for each in origins if call.sees(ResourceType.TOPIC, each)]
        return Stream(
            name=topic.name,
            description=said.description or "",
            subjects=subjects[:SHOWN_MAX],
            origins=origins[:SHOWN_MAX],
            is_mirror=said.mirror is not None,
            retention=said.retention,
            discard=said.discard,
            messages_max=said.max_msgs if said.max_msgs > 0 else None,
            bytes_max=said.max_bytes if said.max_bytes > 0 else None,
            age_max_ms=said.max_age // _NS_PER_MS if said.max_age > 0 else None,
            consumers=consumers,
            created_at=topic.created_ms or None,
            leader=self._context.doors.cluster.leaders.leader(topic.partitions[0].group),
            messages=None if size is None else size.messages,
            bytes=None if size is None else size.bytes,
            last_sequence=None if size is None or size.offsets < 0 else size.offsets,
        )

    def list_consumers(self, call: Call[ListQuery, None]) -> None:
        """List the consumers of a stream that outlive their clients."""
        name, query = call.params["stream"], call.query
        topic = self._context.doors.cluster.state.topics.get(name)
        if topic is None:
            refuse_unknown_topic(call, name)
            return
        sort_field(query, _CONSUMER_KEYS, "name")
        found = [
            (queue, said)
            for queue in self._consumers().get(name, ())
            if (said := _read(queue.options.get(CONSUMER), _Consumer)) is not None
            and wants(query, queue.queue.name.rpartition("/")[2])
            and call.sees(ResourceType.QUEUE, queue_resource(queue.queue))
        ]

        def on_rows(gathered: Gathered[QueuesAnswer]) -> None:
            rows = {
                QueueName(e.vhost, e.name): e
                for answer in gathered.answers.values()
                for e in answer.queues
            }
            items = [_consumer(name, each, said, rows.get(each.queue)) for each, said in found]
            page = take_page(items, query, _CONSUMER_KEYS, "name")
            call.answer(self._context.page_view(StreamConsumerList, page, gathered.sources))

        names = [(each.queue.vhost, each.queue.name) for each, _ in found]
        question = QueuesQuestion(names=names if len(names) <= NAMED_MAX else None)
        self._context.fan_out.ask_all(
            QUEUES, question, lambda told: call.guard(lambda: on_rows(told))
        )


def _consumer(
    stream: str, queue: QueueState, said: _Consumer, row: QueueRow | None
) -> StreamConsumer:
    one = [said.filter_subject] if said.filter_subject else []
    return StreamConsumer(
        name=queue.queue.name.rpartition("/")[2],
        stream=stream,
        queue=queue.queue.name,
        description=said.description or "",
        is_durable=said.durable_name is not None,
        deliver_policy=said.deliver_policy,
        ack_policy=said.ack_policy,
        filters=(said.filter_subjects or one)[:SHOWN_MAX],
        deliver_subject=said.deliver_subject,
        paused_until=said.pause_until,
        deliveries_max=said.max_deliver if said.max_deliver and said.max_deliver > 0 else None,
        unacknowledged_max=said.max_ack_pending,
        created_at=queue.created_ms or None,
        ready=None if row is None else row.ready + row.delayed,
        unacknowledged=None if row is None else row.in_flight,
        parked=None if row is None else row.parked,
        receivers=None if row is None else row.consumers,
    )


def _read(text: str | None, kind: type[Any]) -> Any:
    """Return what an option says; None: nothing that is one."""
    try:
        return msgspec.json.decode(text, type=kind) if text else None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def stream_routes(pages: StreamPages) -> list[Route]:
    """Return the operations on streams of JetStream."""
    return [
        Route(
            method="GET",
            path="/streams",
            name="listStreams",
            summary="Streams of JetStream: what they store, and how much there is",
            handle=pages.list_streams,
            query=ListQuery,
            result=StreamList,
        ),
        Route(
            method="GET",
            path="/streams/{stream}/consumers",
            name="listStreamConsumers",
            summary="Consumers of a stream that outlive their clients",
            handle=pages.list_consumers,
            query=ListQuery,
            result=StreamConsumerList,
        ),
    ]
