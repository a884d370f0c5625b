"""CONS: the next messages of a subscription, and the group's offsets.

Theory of operation. One CONS asks the leaders of all its partitions, some at a time, for what comes
at the positions where it begins. When all have answered, or time is up, messages are taken from the
partitions in turn until there are enough, so that a busy partition does not keep the others from
being shown; they are written partition by partition. After `next` the new positions are committed,
as somebody who is no member of the group, and only then the last line says so: if the connection is
known to be gone before, the messages will be shown again. What is in a buffer on its way to one
who goes later will not: nothing in this protocol says what a client has read, so waiting for this
broker's buffer would only make the gap smaller. Who minds keeps offsets.
"""

from collections.abc import Mapping

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.requests.commands import EARLIEST, LATEST, GroupOffset, GroupOffsets
from kafkaesque.gateway.text.authorization import no_topic
from kafkaesque.gateway.text.partition_read import PartitionRead
from kafkaesque.gateway.text.reply import Reply
from kafkaesque.model.errors import RequestRefused, RequestTimedOut
from kafkaesque.model.ids import TopicPartition
from kafkaesque.protocols.text.answers import (
    OFFSETS_IN_DOUBT,
    write_consumed,
    write_error,
    write_message_line,
)
from kafkaesque.protocols.text.commands import Consume
from kafkaesque.protocols.text.errors import BadCommand
from kafkaesque.protocols.text.examples import CONSUME_NEXT, SUBSCRIBE_SOME
from kafkaesque.protocols.text.positions import Place, write_offsets
from kafkaesque.protocols.text.subscription import Subscription, write_partitions

#: What one CONS shows at most; a message that begins within is shown whole.
MESSAGES_MAX = 100
BYTES_MAX = 1024 * 1024
#: The least that is fetched from a partition, however many there are.
SHARE_BYTES_MIN = 16 * 1024
#: With so many bytes of messages fetched, the partitions that are left are only asked for their
#: ends.
GATHERED_BYTES_MAX = 2 * BYTES_MAX
#: Partitions that are asked at the same time.
UNDER_WAY_MAX = 8
#: All partitions together, and then again the commit.
TIMEOUT_MS = 10_000


class Consumer:
    """Carries out CONS."""

    def __init__(self, doors: Doors) -> None:
        self._doors = doors
        #: Which partition is the first to be asked.
        self._turn = 0

    def check(self, subscription: Subscription) -> list[int]:
        """Return the partitions of a subscription.

        Raises:
            BadCommand: the topic is not there or has fewer partitions.
        """
        topic = self._doors.cluster.state.topics.get(subscription.topic)
        if topic is None:
            raise no_topic(subscription.topic)
        count = len(topic.partitions)
        if subscription.partitions is None:
            return list(range(count))
        missing = tuple(each for each in subscription.partitions if each >= count)
        if missing:
            raise BadCommand(
                f"topic {topic.name!r} has partitions 0 to {count - 1}, "
                f"not {write_partitions(missing)}",
                SUBSCRIBE_SOME,
            )
        return list(subscription.partitions)

    def consume(self, command: Consume, reply: Reply) -> None:
        """Show messages.

        Raises:
            BadCommand: the subscription does not fit the topic, or the start the subscription.
        """
        partitions = self.check(command.subscription)
        start = command.start
        if start.offsets:
            strange = tuple(sorted(set(start.offsets).difference(partitions)))
            if strange:
                raise BadCommand(
                    f"the subscription does not have partition {write_partitions(strange)}",
                    CONSUME_NEXT,
                )
            partitions = [each for each in partitions if each in start.offsets]
        self._turn += 1
        first = self._turn % len(partitions)
        rotated = partitions[first:] + partitions[:first]
        _Consumption(self._doors, command, reply, rotated).begin()


class _Consumption:
    """One CONS under way."""

    __slots__ = (
        "_command",
        "_committed",
        "_deadline_ms",
        "_doors",
        "_gathered_bytes",
        "_is_asking",
        "_reads",
        "_reply",
        "_unasked",
        "_under_way",
    )

    def __init__(self, doors: Doors, command: Consume, reply: Reply, partitions: list[int]) -> None:
        self._doors = doors
        self._command = command
        self._reply = reply
        share_bytes = max(BYTES_MAX // len(partitions), SHARE_BYTES_MIN)
        self._reads = [
            PartitionRead(
                partition, messages_max=MESSAGES_MAX, bytes_max=share_bytes, is_next=self._is_next
            )
            for partition in partitions
        ]
        self._unasked = list(reversed(self._reads))
        self._under_way = 0
        self._is_asking = False
        self._gathered_bytes = 0
        #: What the group had committed.
        self._committed: Mapping[int, int] = {}
        self._deadline_ms = doors.clock.now_ms() + TIMEOUT_MS

    @property
    def _is_next(self) -> bool:
        return self._command.start.place is Place.NEXT

    @property
    def _subscription(self) -> Subscription:
        return self._command.subscription

    # -- where to begin

    def begin(self) -> None:
        """Find the positions, then ask for messages."""
        if self._is_next:
            self._doors.groups.fetch(
                self._subscription.group,
                self._subscription.topic,
                [read.partition for read in self._reads],
                TIMEOUT_MS,
                self._on_committed_known,
            )
            return
        start = self._command.start
        named = {Place.EARLIEST: EARLIEST, Place.LATEST: LATEST}
        for read in self._reads:
            if start.place is not None:
                read.position = named[start.place]
            elif start.offset is not None:
                read.position = start.offset
            else:
                read.position = start.offsets[read.partition]
        self._ask()

    def _on_committed_known(self, outcome: GroupOffsets | RequestRefused) -> None:
        if isinstance(outcome, RequestRefused):
            group = self._subscription.group
            what = f"the offsets of group {group!r} are not known: {outcome}"
            self._reply.end(write_error(what, CONSUME_NEXT))
            return
        self._committed = {each.partition: each.offset for each in outcome.offsets}
        for read in self._reads:
            read.position = self._committed.get(read.partition, EARLIEST)
        self._ask()

    # -- messages

    def _ask(self) -> None:
        """Ask further partitions, a bounded number at a time."""
        if self._is_asking:
            return
        self._is_asking = True
        while self._unasked and self._under_way < UNDER_WAY_MAX:
            read = self._unasked.pop()
            if self._gathered_bytes >= GATHERED_BYTES_MAX:
                if read.position >= 0:
                    # Nothing more can be shown, and where it would begin is known.
                    continue
                read.messages_max = 0
            self._under_way += 1
            self._fetch(read)
        self._is_asking = False
        if self._under_way == 0 and not self._unasked:
            self._show()

    def _fetch(self, read: PartitionRead) -> None:
        where = TopicPartition(self._subscription.topic, read.partition)

        def on_fetched(outcome: object) -> None:
            if read.take(outcome):
                self._gathered_bytes += read.gathered_bytes
                self._under_way -= 1
                self._ask()
            else:
                self._fetch(read)

        left_ms = self._deadline_ms - self._doors.clock.now_ms()
        self._doors.reading.fetch(where, read.asked, read.bytes_max, left_ms, on_fetched)

    # -- the answer

    def _show(self) -> None:
        reads = self._reads
        if all(read.failure is not None for read in reads):
            what = f"{self._name(reads[0])} cannot be read: {reads[0].failure}"
            self._reply.end(write_error(what, CONSUME_NEXT))
            return
        lines, count = self._choose()
        self._reply.write(b"".join(lines))
        moved = [
            GroupOffset(topic=self._subscription.topic, partition=number, offset=position)
            for number, position in self._positions().items()
            if self._committed.get(number) != position
        ]
        if not self._is_next or not moved:
            self._end(count, None)
        elif self._reply.is_wanted:
            self._doors.groups.commit(
                self._subscription.group,
                moved,
                TIMEOUT_MS,
                lambda outcome: self._end(count, outcome),
                lambda: self._reply.is_wanted,
            )
        else:
            self._reply.end(b"")

    def _choose(self) -> tuple[list[bytes], int]:
        """Take messages from the partitions in turn; return their lines by partition, and count."""
        shown: dict[int, list[bytes]] = {read.partition: [] for read in self._reads}
        left, size, count = list(self._reads), 0, 0
        while left and count < MESSAGES_MAX and size < BYTES_MAX:
            for read in left:
                if count >= MESSAGES_MAX or size >= BYTES_MAX:
                    break
                message = read.show_next()
                if message is not None:
                    line = write_message_line(message)
                    shown[read.partition].append(line)
                    count += 1
                    size += len(line)
            left = [read for read in left if read.has_more]
        return [line for _, lines in sorted(shown.items()) for line in lines], count

    def _positions(self) -> dict[int, int]:
        """Return where each partition goes on, as far as that is known."""
        known = {read.partition: read.position for read in self._reads if read.position >= 0}
        return dict(sorted(known.items()))

    def _end(self, count: int, outcome: object) -> None:
        subscription = self._subscription
        notes = []
        is_committed = not isinstance(outcome, RequestRefused)
        if isinstance(outcome, RequestTimedOut):
            notes.append(f"{OFFSETS_IN_DOUBT}: {outcome}")
        elif not is_committed:
            notes.append(f"offsets are not committed: {outcome}")
        failed = [read for read in self._reads if read.failure is not None]
        if failed:
            numbers = tuple(sorted(read.partition for read in failed))
            notes.append(f"not read: {write_partitions(numbers)}: {failed[0].failure}")
        goes_by_group = self._is_next and is_committed
        start = Place.NEXT.value if goes_by_group else write_offsets(self._positions())
        self._reply.end(
            write_consumed(
                count,
                subscription.topic,
                subscription.subscription_id,
                start,
                "".join(f"; {note}" for note in notes),
            )
        )

    def _name(self, read: PartitionRead) -> str:
        return str(TopicPartition(self._subscription.topic, read.partition))
