"""`/queues`, one queue, its options, and its messages, which are looked at and not taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kafkaesque.access.operations import ResourceType
from kafkaesque.admin.api.calls import Call
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.decoding_run import DecodingRun
from kafkaesque.admin.api.fan_out import Gathered
from kafkaesque.admin.api.messages import (
    HEADERS_MAX,
    LISTED_BYTES_MAX,
    SHOWN_BYTES_MAX,
    Form,
    Header,
    show,
    show_key,
    show_value,
)
from kafkaesque.admin.api.paging import PageOf, sort_field, take_page, wants
from kafkaesque.admin.api.part_pages import QUEUES, QueueRow, QueuesAnswer, QueuesQuestion
from kafkaesque.admin.api.queue_part import together
from kafkaesque.admin.api.queue_values import (
    DeathNote,
    Queue,
    QueuedMessage,
    QueuedMessages,
    QueueList,
    QueueMessagesQuery,
    QueueOption,
    QueueOptions,
    QueuePart,
    QueueQuery,
    QueuesQuery,
    QueueView,
)
from kafkaesque.admin.decoding.decoder import Decoder
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.queue_names import QueueName, queue_resource
from kafkaesque.broker.options.mqtt_sessions import shown_options
from kafkaesque.broker.options.queues import QUEUE_OPTIONS, SOURCE_TOPIC
from kafkaesque.broker.requests.queue_requests import (
    AskQueue,
    PeekedMessage,
    PeekedMessages,
    PeekMessages,
    QueueCounts,
)
from kafkaesque.model.counted import counted
from kafkaesque.model.dead_letters import deaths_of
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.message_headers import PREFIX
from kafkaesque.model.options import write_value

#: So long leaders are looked for and waited for.
ASK_MS_MAX: Final = 2_000
#: What a page shows of keys and values together.
PAGE_BYTES_MAX: Final = 2 * 1024 * 1024

Rows = Mapping[QueueName, QueueRow]

_NUMBERS: Final = (
    "ready",
    "delayed",
    "in_flight",
    "parked",
    "moving",
    "consumers",
    "oldest_at",
    "bytes",
)
_KEYS: Final[dict[str, Callable[[Queue], Any]]] = {
    # Unique, and sorted by the name first.
    "name": lambda each: f"{each.name}\0{each.vhost}",
    "vhost": lambda each: each.vhost,
    "created_at": lambda each: each.created_at,
    "ready": lambda each: each.ready,
    "delayed": lambda each: each.delayed,
    "in_flight": lambda each: each.in_flight,
    "parked": lambda each: each.parked,
    "moving": lambda each: each.moving,
    "consumers": lambda each: each.consumers,
    "oldest_at": lambda each: each.oldest_at,
    "bytes": lambda each: each.bytes,
}


class QueuePages:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def find(self, call: Call[Any, Any]) -> QueueState | None:
        """Return the queue of a call's path; None, and the call is answered, if there is none."""
        try:
            return self._context.doors.queues.find(
                QueueName(call.query.vhost, call.params["queue"])
            )
        except RequestRefused as refusal:
            call.refuse_with(refusal)
            return None

    # -- /queues

    def list_queues(self, call: Call[QueuesQuery, None]) -> None:
        """List queues; leaders are asked only for those of the page, unless that is sorted by."""
        query, doors = call.query, self._context.doors
        found = [
            each
            for each in doors.queues.all()
            if query.vhost in ("", each.queue.vhost)
            and wants(query, each.queue.name)
            and call.sees(ResourceType.QUEUE, queue_resource(each.queue))
        ]
        ask_all = self._context.fan_out.ask_all
        if sort_field(query, _KEYS, "name") in _NUMBERS:

            def show_all(gathered: Gathered[QueuesAnswer]) -> None:
                rows = _rows_of(gathered)
                page = take_page([self._queue(e, rows) for e in found], query, _KEYS, "name")
                call.answer(self._context.page_view(QueueList, page, gathered.sources))

            ask_all(
                QUEUES, QueuesQuestion(), lambda gathered: call.guard(lambda: show_all(gathered))
            )
            return
        page = take_page([self._queue(each, {}) for each in found], query, _KEYS, "name")
        names = [QueueName(each.vhost, each.name) for each in page.items]

        def on_page(gathered: Gathered[QueuesAnswer]) -> None:
            rows, queues = _rows_of(gathered), doors.cluster.state.queues
            items = [self._queue(queues[name], rows) for name in names if name in queues]
            shown = PageOf(items, page.total, page.next)
            call.answer(self._context.page_view(QueueList, shown, gathered.sources))

        ask_all(QUEUES, QueuesQuestion(names=[(each.vhost, each.name) for each in names]), on_page)

    def _queue(self, state: QueueState, rows: Rows) -> Queue:
        leaders = self._context.doors.cluster.leaders
        options = state.options
        row = rows.get(state.queue)
        led = 0 if row is None else row.led
        return Queue(
            vhost=state.queue.vhost,
            name=state.queue.name,
            id=state.topic_id.hex(),
            created_at=state.created_ms or None,
            partitions=len(state.partitions),
            replication_factor=max((len(each.wanted) for each in state.partitions), default=0),
            leader=leaders.leader(state.partitions[0].group),
            leaderless=sum(leaders.leader(each.group) is None for each in state.partitions),
            source=options.get(SOURCE_TOPIC) or None,
            dead_letters_to=options.get("dead.letter.queue") or options.get("dead.letter.topic"),
            ready=None if row is None else row.ready,
            delayed=None if row is None else row.delayed,
            in_flight=None if row is None else row.in_flight,
            parked=None if row is None else row.parked,
            moving=None if row is None else row.moving,
            consumers=None if row is None else row.consumers,
            oldest_at=None if row is None else row.oldest_ms or None,
            bytes=None if row is None else row.bytes,
            unknown=max(0, len(state.partitions) - led),
        )

    # -- /queues/{queue}

    def show_queue(self, call: Call[QueueQuery, None]) -> None:
        """Show a queue as the leaders of its partitions know it."""
        queue = self.find(call)
        if queue is not None:
            _Asking(self._context, call, queue, self._answer_one).start()

    def _answer_one(
        self,
        call: Call[QueueQuery, None],
        queue: QueueState,
        told: Mapping[int, QueueCounts | RequestRefused],
    ) -> None:
        parts = [self._part(queue, number, told[number]) for number in range(len(queue.partitions))]
        known = [each for each in parts if each.missing is None]
        rows: dict[QueueName, QueueRow] = {}
        for each in known:
            row = _row_of(queue.queue, each)
            before = rows.get(queue.queue)
            rows[queue.queue] = row if before is None else together(before, row)
        view = QueueView(
            as_of=self._context.now(),
            seen_by=self._context.node,
            queue=self._queue(queue, rows),
            parts=parts,
        )
        call.answer(view)

    def _part(
        self, queue: QueueState, number: int, told: QueueCounts | RequestRefused
    ) -> QueuePart:
        state = queue.partitions[number]
        leader = self._context.doors.cluster.leaders.leader(state.group)
        replicas: list[int] = list(state.replicas)
        if isinstance(told, RequestRefused):
            return QueuePart(partition=number, leader=leader, replicas=replicas, missing=str(told))
        return QueuePart(
            partition=number,
            leader=leader,
            replicas=replicas,
            ready=told.ready,
            delayed=told.delayed,
            in_flight=told.in_flight,
            parked=told.parked,
            moving=told.moving,
            consumers=told.consumers,
            oldest_at=told.oldest_ms or None,
            newest_at=told.newest_ms or None,
            unwanted_ms=told.unwanted_ms,
            in_flight_max=told.in_flight_max,
            head=told.floor if told.head_place else None,
            head_place=told.head_place,
            head_failures=told.head_failures,
            held_by=told.held_by,
            log_start=told.log_start,
            log_end=told.log_end,
            log_bytes=told.log_bytes,
            arrived=told.arrived,
            removed=told.removed,
            redriving_to=told.redriving_to or None,
        )

    # -- /queues/{queue}/options

    def show_options(self, call: Call[QueueQuery, None]) -> None:
        """Show all options in force."""
        queue = self.find(call)
        if queue is not None:
            call.answer(self.options_of(queue))

    def options_of(self, queue: QueueState) -> QueueOptions:
        """Return a queue's options, each with its default and what it means."""
        own = QUEUE_OPTIONS.parse_stored(shown_options(queue.options))[0]
        defaults = QUEUE_OPTIONS.defaults()
        options = [
            QueueOption(
                name=option.name,
                value=write_value(own.get(option.name, defaults[option.name])),
                default=write_value(defaults[option.name]),
                is_own=option.name in own,
                allowed=option.allowed,
                doc=option.meaning,
            )
            for option in QUEUE_OPTIONS
        ]
        return QueueOptions(
            as_of=self._context.now(),
            seen_by=self._context.node,
            vhost=queue.queue.vhost,
            queue=queue.queue.name,
            options=options,
        )

    # -- /queues/{queue}/messages

    def list_messages(self, call: Call[QueueMessagesQuery, None]) -> None:
        """Show messages, oldest first, without taking them."""
        queue, query = self.find(call), call.query
        if queue is None:
            return
        if query.partition >= len(queue.partitions):
            count = counted(len(queue.partitions), "partition")
            call.refuse(404, "UnknownPartition", f"the queue has {count}")
            return
        is_one = query.limit == 1
        form = Form(
            kind=query.show,
            bytes_max=SHOWN_BYTES_MAX if is_one else LISTED_BYTES_MAX,
            key=query.key_format or query.show,
            value=query.value_format or query.show,
        )
        topic = queue.options.get(SOURCE_TOPIC) or queue.queue.name

        def on_done(outcome: PeekedMessages | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                call.refuse_with(outcome)
                return
            messages = outcome.messages

            def work(decoder: Decoder) -> list[QueuedMessage]:
                return [_message(query.partition, each, form, decoder) for each in messages]

            DecodingRun(self._context, topic, call.client).run(work, call.later(on_shown))

        def on_shown(items: list[QueuedMessage] | None, error: Exception | None) -> None:
            if items is None:
                call.refuse(500, "Unreadable", f"the messages cannot be shown: {error}")
                return
            # A page may have fewer than was asked for, for their bytes, and more may follow.
            following = items[-1].offset + 1 if items else None
            call.answer(
                QueuedMessages(
                    as_of=self._context.now(),
                    seen_by=self._context.node,
                    items=items,
                    next=following,
                )
            )

        request = PeekMessages(
            log_id=queue.topic_id,
            partition=query.partition,
            start=query.offset,
            messages_max=query.limit,
            bytes_max=PAGE_BYTES_MAX,
        )
        self._context.doors.queues.ask(request, PeekedMessages, ASK_MS_MAX, call.later(on_done))


class _Asking:
    """One queue: the leaders of all its partitions are asked at the same time."""

    def __init__(
        self,
        context: Context,
        call: Call[QueueQuery, None],
        queue: QueueState,
        on_done: Callable[
            [Call[QueueQuery, None], QueueState, Mapping[int, QueueCounts | RequestRefused]], None
        ],
    ) -> None:
        self._context = context
        self._call = call
        self._queue = queue
        self._on_done = on_done
        self._told: dict[int, QueueCounts | RequestRefused] = {}

    def start(self) -> None:
        """Ask."""
        for number in range(len(self._queue.partitions)):
            self._ask(number)

    def _ask(self, number: int) -> None:
        def on_told(outcome: QueueCounts | RequestRefused) -> None:
            self._told[number] = outcome
            if len(self._told) == len(self._queue.partitions):
                self._on_done(self._call, self._queue, self._told)

        request = AskQueue(log_id=self._queue.topic_id, partition=number)
        self._context.doors.queues.ask(request, QueueCounts, ASK_MS_MAX, self._call.later(on_told))


def _rows_of(gathered: Gathered[QueuesAnswer]) -> Rows:
    rows: dict[QueueName, QueueRow] = {}
    for answer in gathered.answers.values():
        for each in answer.queues:
            name = QueueName(each.vhost, each.name)
            before = rows.get(name)
            rows[name] = each if before is None else together(before, each)
    return rows


def _row_of(name: QueueName, part: QueuePart) -> QueueRow:
    return QueueRow(
        vhost=name.vhost,
        name=name.name,
        led=1,
        ready=part.ready,
        delayed=part.delayed,
        in_flight=part.in_flight,
        parked=part.parked,
        moving=part.moving,
        consumers=part.consumers,
        oldest_ms=part.oldest_at or 0,
        bytes=part.log_bytes,
    )


def _message(partition: int, peeked: PeekedMessage, form: Form, decoder: Decoder) -> QueuedMessage:
    message = peeked.message
    own = [each for each in message.headers if not each[0].startswith(PREFIX)]
    return QueuedMessage(
        partition=partition,
        offset=message.offset,
        place=peeked.place,
        attempts=message.attempt,
        failures=message.failures,
        timestamp=message.timestamp_ms,
        not_before=peeked.not_before_ms or None,
        not_after=peeked.not_after_ms or None,
        key=show_key(message.key, message.headers, form, decoder),
        value=show_value(message.value, message.headers, form, decoder),
        headers=[Header(name=name, value=show(value, form)) for name, value in own[:HEADERS_MAX]],
        deaths=[
            DeathNote(
                queue=each.queue,
                vhost=each.vhost,
                reason=each.reason,
                attempts=each.attempts,
                at=each.at_ms,
            )
            for each in deaths_of(message.headers)
        ],
    )
