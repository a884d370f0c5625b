"""What a broker says of queues that it leads: the part `queues`."""

from collections.abc import Iterable, Iterator
from typing import Final

from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.fan_out import OnAnswer, PartServer
from kafkaesque.admin.api.part_pages import QUEUES, QueueRow, QueuesAnswer, QueuesQuestion
from kafkaesque.admin.turns import walk
from kafkaesque.broker.doors.queues import LedQueue
from kafkaesque.broker.metadata.queue_names import QueueName
from kafkaesque.model.errors import InvalidRequest

#: Queues that one question names.
NAMED_MAX: Final = 1_000
#: What was counted is not counted again for so long.
COUNTED_MS_MAX: Final = 2_000

Rows = dict[QueueName, QueueRow]


class QueueDesk:
    """Counts the messages of all queues, for many who ask at about the same time once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._rows: Rows = {}
        self._at_ms: int | None = None
        self._waiting: list[OnAnswer] = []

    def answer(self, question: QueuesQuestion, on_done: OnAnswer) -> None:
        """Answer for some queues as they are now, for all with counts of the last two seconds."""
        if question.names is not None:
            on_done(self._named(question.names))
            return
        clock = self._context.doors.clock
        if self._at_ms is not None and clock.now_ms() - self._at_ms <= COUNTED_MS_MAX:
            on_done(QueuesAnswer(queues=list(self._rows.values())))
            return
        self._waiting.append(on_done)
        if len(self._waiting) == 1:
            rows: Rows = {}
            walk(clock, self._count(rows), lambda: self._on_counted(rows))

    def _named(self, names: list[tuple[str, str]]) -> QueuesAnswer | InvalidRequest:
        if len(names) > NAMED_MAX:
            return InvalidRequest(f"at most {NAMED_MAX} queues are named at a time")
        rows: Rows = {}
        for name in names:
            _add(rows, self._context.doors.queues.led_of(QueueName(*name)))
        return QueuesAnswer(queues=list(rows.values()))

    def _count(self, rows: Rows) -> Iterator[None]:
        for found in self._context.doors.queues.led_here():
            if found is not None:
                _add(rows, [found])
            yield

    def _on_counted(self, rows: Rows) -> None:
        self._rows, self._at_ms = rows, self._context.doors.clock.now_ms()
        waiting, self._waiting = self._waiting, []
        for on_done in waiting:
            on_done(QueuesAnswer(queues=list(rows.values())))


def register(context: Context, server: PartServer) -> None:
    """Have this part served."""
    server.register(QUEUES, QueueDesk(context).answer)


def _add(rows: Rows, parts: Iterable[LedQueue]) -> None:
    for each in parts:
        name, counts = each.queue.queue, each.counts
        row = QueueRow(
            vhost=name.vhost,
            name=name.name,
            led=1,
            ready=counts.ready,
            delayed=counts.delayed,
            in_flight=counts.in_flight,
            parked=counts.parked,
            moving=counts.moving,
            consumers=counts.consumers,
            oldest_ms=counts.oldest_ms,
            bytes=counts.log_bytes,
        )
        before = rows.get(name)
        rows[name] = row if before is None else together(before, row)


def together(first: QueueRow, second: QueueRow) -> QueueRow:
    """Return the numbers of two parts of one queue as those of one."""
    oldest = [each for each in (first.oldest_ms, second.oldest_ms) if each]
    return QueueRow(
        vhost=first.vhost,
        name=first.name,
        led=first.led + second.led,
        ready=first.ready + second.ready,
        delayed=first.delayed + second.delayed,
        in_flight=first.in_flight + second.in_flight,
        parked=first.parked + second.parked,
        moving=first.moving + second.moving,
        # One consumer is attached to each part.
        consumers=max(first.consumers, second.consumers),
        oldest_ms=min(oldest, default=0),
        bytes=first.bytes + second.bytes,
    )
