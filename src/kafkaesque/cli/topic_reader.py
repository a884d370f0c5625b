"""Reads topics, from given places or as a member of a group: for what `consume` prints."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kafkaesque.cli.exit_codes import TIMED_OUT
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.isolation import Isolation
from kafkaesque.cli.offset_words import Place, PlaceKind
from kafkaesque.cli.screen import Screen
from kafkaesque.cli.wait_teller import WaitTeller, join_clauses

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, TopicPartition
    from confluent_kafka.admin import TopicMetadata

    from kafkaesque.cli.kafka import Connection
    from kafkaesque.cli.missing_rules import Right

BATCH_MAX = 1000
POLL_S = 0.1
REQUEST_TIMEOUT_S = 15.0
#: So long partitions may take to say where they begin and end: an election is over by then.
BOUNDS_TIMEOUT_S = 20.0
BOUNDS_AGAIN_S = 0.3
#: So long one answer may take; what the others have is not printed meanwhile.
BOUNDS_TRY_S = 2.0

#: What a partition answers that has no leader, a new one, or one that has not enough replicas to
#: know its end.
_NOT_YET = (
    "_UNKNOWN_PARTITION",
    "OFFSET_NOT_AVAILABLE",
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_FOR_PARTITION",
    "FENCED_LEADER_EPOCH",
    "UNKNOWN_LEADER_EPOCH",
    "_TIMED_OUT",
)
#: librdkafka asks for a group even where none is joined.
NO_GROUP = "kafkaesque-consume"

#: A topic and the number of one of its partitions.
Partition = tuple[str, int]


class Reader:
    """Reads topics, from given places or as a member of a group."""

    def __init__(
        self,
        connection: "Connection",
        topics: Sequence[str],
        place: Place,
        group: str | None,
        fetch_wait_ms: int,
        isolation: Isolation,
    ) -> None:
        self._connection = connection
        self._topics = list(topics)
        self._place = place
        self._is_member = group is not None
        from kafkaesque.cli.kafka import outage_teller
        from kafkaesque.cli.missing_rules import on_group, on_topic

        self._rights = [on_topic("read", topic) for topic in topics]
        if group is not None:
            self._rights.append(on_group("read", group))
        self._at_end: set[Partition] = set()
        #: Partitions that cannot be read yet: nobody says where they begin and end.
        self._unread: list[Partition] = []
        self._unread_due = 0.0
        reset = {PlaceKind.EARLIEST: "earliest", PlaceKind.LATEST: "latest"}
        settings: dict[str, Any] = {
            "group.id": group or NO_GROUP,
            "enable.auto.commit": self._is_member,
            "auto.commit.interval.ms": 1000,
            # Committed is what was printed, not what was fetched.
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "error_cb": outage_teller(Screen().note),
            "fetch.wait.max.ms": fetch_wait_ms,
            "auto.offset.reset": reset.get(place.kind, "error"),
            "isolation.level": isolation.value,
        }
        self._consumer: Consumer = connection.consumer(settings)
        self._teller = WaitTeller(Screen().note, connection, self._consumer, topics, "answer")
        self._bounds_deadline = time.monotonic() + BOUNDS_TIMEOUT_S

    def start(self, partitions: list[int] | None) -> int | None:
        """Begin; return how many messages there are to the end, where that is known.

        Partitions without a leader are read as soon as they have one.

        Raises:
            CommandFailed: no such topic, partition or place.
        """
        topics = self._connection.metadata(self._consumer).topics
        for name in self._topics:
            if name not in topics:
                from kafkaesque.cli.missing_topics import missing_topic

                hint = f"kafkaesque topic list, or: kafkaesque topic create {name}"
                raise missing_topic(self._connection.bootstrap, name, "read", hint)
        if self._is_member:
            self._consumer.subscribe(self._topics)
            return None
        wanted: list[Partition] = []
        for name in self._topics:
            known = sorted(topics[name].partitions)
            for number in partitions or ():
                if number not in known:
                    raise CommandFailed(
                        f"topic {name} has no partition {number}: it has 0 to {known[-1]}"
                    )
            wanted += [(name, number) for number in partitions or known]
        starts, total = self._starts(wanted)
        self._consumer.assign(starts)
        return total

    def read(self, count_max: int) -> "list[Message]":
        """Return the messages that are there, or come in a moment.

        Raises:
            CommandFailed: a topic cannot be read.
        """
        from confluent_kafka import KafkaError

        from kafkaesque.cli.kafka import explain

        if self._unread and time.monotonic() >= self._unread_due:
            starts, _ = self._starts(self._unread)
            if starts:
                self._consumer.incremental_assign(starts)
        messages = []
        for message in self._consumer.consume(min(count_max, BATCH_MAX), POLL_S):
            error = message.error()
            if error is None:
                messages.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._at_end.add(_partition_of(message))
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise self._outside(_partition_of(message))
            elif error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED and not self._is_member:
                pass  # Of the group that librdkafka asks for, and nobody joins.
            elif not error.retriable():
                topic = message.topic() or self._topics[0]
                raise explain(error, f"topic {topic}", *self._rights_of(topic))
        return messages

    def printed(self, messages: "list[Message]") -> None:
        """Have the group remember that these were dealt with."""
        if not self._is_member:
            return
        from confluent_kafka import KafkaException, TopicPartition

        last = {_partition_of(each): int(each.offset() or 0) for each in messages}
        for (topic, number), offset in last.items():
            try:
                self._consumer.store_offsets(offsets=[TopicPartition(topic, number, offset + 1)])
            except KafkaException:
                # The partition went to another member meanwhile, which gets these once more.
                pass

    def note_wait(self, *, has_come: bool, is_awaited: bool) -> None:
        """Say what is missing, where what is wanted does not come for long."""
        if self._unread:
            self._teller.maybe_tell()
        elif has_come:
            self._teller.moved()
        else:
            self._teller.maybe_tell(only_leaderless=not is_awaited)

    def is_at_end(self) -> bool:
        """Whether every partition that is ours has been read to its end, or cannot be read."""
        if self._unread and time.monotonic() < self._bounds_deadline:
            return False
        assigned = {(each.topic, each.partition) for each in self._consumer.assignment()}
        return bool(assigned or self._unread) and assigned <= self._at_end

    def check_all_read(self) -> None:
        """Check that no partition was left out.

        Raises:
            CommandFailed: some could not be read all the time.
        """
        if not self._unread:
            return
        names = [f"{topic}-{number}" for topic, number in self._unread]
        why = join_clauses(self._teller.missing(self._unread))
        one = len(names) == 1
        raise CommandFailed(
            f"the {'end' if one else 'ends'} of {join_clauses(names)} {'is' if one else 'are'} not "
            f"known at the moment{f': {why}' if why else ''}; what the other partitions have is "
            "printed",
            hint="kafkaesque doctor",
            exit_code=TIMED_OUT,
        )

    def close(self) -> None:
        """Leave the group, if any, and commit what was printed."""
        self._consumer.close()

    def _rights_of(self, topic: str) -> "list[Right]":
        """Return what is needed to read a topic."""
        others = self._rights[len(self._topics) :]
        return [self._rights[self._topics.index(topic)], *others] if topic in self._topics else []

    def _starts(self, partitions: Sequence[Partition]) -> "tuple[list[TopicPartition], int]":
        """Return where to begin in those that can be read, and how much there is in them.

        The others are asked again later.

        Raises:
            CommandFailed: a topic cannot be read.
        """
        from confluent_kafka import KafkaException, TopicPartition

        from kafkaesque.cli.kafka import explain_raised

        known = self._led({topic for topic, _ in partitions})
        starts, total, unread = [], 0, []
        for each in partitions:
            topic, number = each
            try:
                found = self._start(each) if each in known else None
            except KafkaException as raised:
                if raised.args[0].name() not in _NOT_YET:
                    rights = self._rights_of(topic)
                    raise explain_raised(raised, f"topic {topic}", *rights) from None
                found = None
            if found is None:
                unread.append(each)
            else:
                begin, end = found
                starts.append(TopicPartition(topic, number, begin))
                total += max(0, end - begin)
        self._unread, self._unread_due = unread, time.monotonic() + BOUNDS_AGAIN_S
        return starts, total

    def _led(self, topics: set[str]) -> set[Partition]:
        """Return the partitions of topics that have a leader."""
        found: set[Partition] = set()
        for topic in topics:
            metadata: TopicMetadata = self._connection.metadata(self._consumer, topic).topics[topic]
            found |= {(topic, n) for n, each in metadata.partitions.items() if each.leader >= 0}
        return found

    def _start(self, partition: Partition) -> tuple[int, int]:
        """Return where to begin in a partition, and where it ends.

        Raises:
            KafkaException: its leader does not say so.
        """
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        place = self._place
        asked = TopicPartition(*partition, place.number)
        bounds = self._consumer.get_watermark_offsets(asked, timeout=BOUNDS_TRY_S)
        if bounds is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        first, end = bounds
        if place.kind is PlaceKind.TIME:
            (found,) = self._consumer.offsets_for_times([asked], timeout=REQUEST_TIMEOUT_S)
            return (found.offset if found.offset >= 0 else end), end
        begin = {
            PlaceKind.EARLIEST: first,
            PlaceKind.LATEST: end,
            PlaceKind.TAIL: max(first, end - place.number),
            PlaceKind.OFFSET: place.number,
        }[place.kind]
        return begin, end

    def _outside(self, partition: Partition) -> CommandFailed:
        from confluent_kafka import KafkaException, TopicPartition

        asked = TopicPartition(*partition)
        try:
            bounds = self._consumer.get_watermark_offsets(asked, timeout=REQUEST_TIMEOUT_S)
        except KafkaException:
            bounds = None
        held = ""
        if bounds is not None:
            first, end = bounds
            held = f": it has {first} to {end - 1}" if end > first else ": it is empty"
            held += f", and the next message gets {end}"
        topic, number = partition
        return CommandFailed(
            f"{topic}-{number} has no offset {self._place.number}{held}",
            hint="--offset earliest, or --partition N for the one that is meant",
        )


def _partition_of(message: "Message") -> Partition:
    return message.topic() or "", int(message.partition() or 0)
