"""`kafkaesque consume`: prints a topic's messages, alone or as a member of a group."""

import signal
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    new_app,
    number_option,
    wrong_usage,
)
from kafkaesque.cli.completion import TopicArgument
from kafkaesque.cli.exit_codes import TIMED_OUT
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.isolation import Isolation
from kafkaesque.cli.message_format import Format, choose_format, line_writer
from kafkaesque.cli.offset_words import Place, PlaceKind, parse_place
from kafkaesque.cli.screen import Progress, Screen
from kafkaesque.cli.topic_name import check_name
from kafkaesque.cli.wait_teller import WaitTeller, join_clauses

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, TopicPartition

    from kafkaesque.cli.kafka import Connection

BATCH_MAX = 1000
POLL_S = 0.1
FETCH_WAIT_MS = 500
FETCH_WAIT_AT_END_MS = 50
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

app = new_app()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """When to end; without any of these only Ctrl-C ends it."""

    max_messages: int | None
    at_end: bool
    idle_s: float | None


BeginningOption = Annotated[
    bool, typer.Option("--from-beginning", help="Default: only what comes from now on.")
]
OffsetOption = Annotated[
    str | None,
    typer.Option(
        "--offset",
        "-o",
        metavar="PLACE",
        help="earliest, latest, a number, -N for N before the end, or a time.",
    ),
]
PartitionOption = Annotated[
    list[int] | None,
    typer.Option("--partition", "-p", min=0, help="May be repeated; default: all."),
]
GroupOption = Annotated[
    str | None,
    typer.Option(
        "--group", "-g", help="Share the partitions with the group; begin at its offsets."
    ),
]
MaxOption = Annotated[
    int | None, typer.Option("--max", "-n", min=1, help="End after so many messages.")
]
EndOption = Annotated[bool, typer.Option("--until-end", help="End when there are no more.")]
TimeoutOption = Annotated[
    float | None,
    number_option(least=0.1, help="End when no message has come for this many seconds."),
]
FormatOption = Annotated[
    Format | None, typer.Option("--format", help="What a line shows.", show_default="value")
]
JsonLinesOption = Annotated[bool, typer.Option("--json", help="The same as --format json.")]
SeparatorOption = Annotated[
    str | None, typer.Option(help="Print the key, this separator, and the value.")
]
IsolationOption = Annotated[
    Isolation,
    typer.Option(help="read_uncommitted also prints messages of open and aborted transactions."),
]


@app.command()
def consume(
    topic: TopicArgument,
    from_beginning: BeginningOption = False,
    offset: OffsetOption = None,
    partition: PartitionOption = None,
    group: GroupOption = None,
    max_messages: MaxOption = None,
    until_end: EndOption = False,
    timeout: TimeoutOption = None,
    line_format: FormatOption = None,
    json: JsonLinesOption = False,
    key_separator: SeparatorOption = None,
    isolation: IsolationOption = Isolation.READ_COMMITTED,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
) -> None:
    """Print messages, one a line; Ctrl-C ends it.

    With --max and --timeout, ends with 5 if fewer messages came.

    \b
    Example:
      kafkaesque consume greetings --from-beginning --max 10
      kafkaesque consume orders --group billing --json
      kafkaesque consume orders --partition 0 --offset -5 --until-end
    """
    check_name(topic)
    if group == "":
        raise wrong_usage("a group's name is not empty", "--group billing, or leave out --group")
    if group is not None and (offset is not None or partition):
        raise wrong_usage(
            "a group decides on partitions and offsets by itself",
            "kafkaesque group reset-offsets, or leave out --group",
        )
    if from_beginning and offset is not None:
        raise wrong_usage("--from-beginning and --offset contradict each other")
    chosen = choose_format(Format.JSON if json else line_format, key_separator)
    place = parse_place(offset or ("earliest" if from_beginning else "latest"))
    printer = Printer(chosen, key_separator)
    stop = Stop(max_messages=max_messages, at_end=until_end, idle_s=timeout)
    from kafkaesque.cli.kafka import Connection

    # That a partition ends is told by a fetch that has waited in vain.
    fetch_wait_ms = FETCH_WAIT_AT_END_MS if until_end else FETCH_WAIT_MS
    reader = Reader(Connection(bootstrap), topic, place, group, fetch_wait_ms, isolation)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        count = _consume(reader, printer, stop, partition)
        if max_messages is None or count < max_messages:
            reader.check_all_read()
    except KeyboardInterrupt:
        return
    finally:
        reader.close()
    if max_messages is not None and count < max_messages and not until_end:
        raise CommandFailed(
            f"only {count} of {max_messages} messages came before {timeout:g} s of silence",
            exit_code=TIMED_OUT,
        )


class Printer:
    """Writes messages to standard output."""

    def __init__(self, chosen: Format, separator: str | None) -> None:
        self._write_line = line_writer(chosen, separator)

    def write(self, messages: "list[Message]") -> None:
        sys.stdout.buffer.write(b"".join(map(self._write_line, messages)))
        sys.stdout.buffer.flush()


class Reader:
    """Reads one topic, from given places or as a member of a group."""

    def __init__(
        self,
        connection: "Connection",
        topic: str,
        place: Place,
        group: str | None,
        fetch_wait_ms: int,
        isolation: Isolation,
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._place = place
        self._is_member = group is not None
        from kafkaesque.cli.kafka import outage_teller
        from kafkaesque.cli.missing_rules import on_group, on_topic

        self._rights = [on_topic("read", topic)]
        if group is not None:
            self._rights.append(on_group("read", group))
        self._at_end: set[int] = set()
        #: Partitions that cannot be read yet: nobody says where they begin and end.
        self._unread: list[int] = []
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
        note = Screen().note
        self._teller = WaitTeller(note, connection, self._consumer, topic, "answer")
        self._bounds_deadline = time.monotonic() + BOUNDS_TIMEOUT_S

    def start(self, partitions: list[int] | None) -> int | None:
        """Begin; return how many messages there are to the end, where that is known.

        Partitions without a leader are read as soon as they have one.

        Raises:
            CommandFailed: no such topic, partition or place.
        """
        topics = self._connection.metadata(self._consumer).topics
        if self._topic not in topics:
            from kafkaesque.cli.missing_topics import missing_topic

            hint = f"kafkaesque topic list, or: kafkaesque topic create {self._topic}"
            raise missing_topic(self._connection.bootstrap, self._topic, "read", hint)
        if self._is_member:
            self._consumer.subscribe([self._topic])
            return None
        known = sorted(topics[self._topic].partitions)
        for number in partitions or ():
            if number not in known:
                raise CommandFailed(
                    f"topic {self._topic} has no partition {number}: it has 0 to {known[-1]}"
                )
        starts, total = self._starts(partitions or known)
        self._consumer.assign(starts)
        return total

    def read(self, count_max: int) -> "list[Message]":
        """Return the messages that are there, or come in a moment.

        Raises:
            CommandFailed: the topic cannot be read.
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
                self._at_end.add(int(message.partition() or 0))
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise self._outside(int(message.partition() or 0))
            elif error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED and not self._is_member:
                pass  # Of the group that librdkafka asks for, and nobody joins.
            elif not error.retriable():
                raise explain(error, f"topic {self._topic}", *self._rights)
        return messages

    def printed(self, messages: "list[Message]") -> None:
        """Have the group remember that these were dealt with."""
        if not self._is_member:
            return
        from confluent_kafka import KafkaException, TopicPartition

        last = {int(each.partition() or 0): int(each.offset() or 0) for each in messages}
        for partition, offset in last.items():
            try:
                self._consumer.store_offsets(
                    offsets=[TopicPartition(self._topic, partition, offset + 1)]
                )
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
        assigned = {each.partition for each in self._consumer.assignment()}
        return bool(assigned or self._unread) and assigned <= self._at_end

    def check_all_read(self) -> None:
        """Check that no partition was left out.

        Raises:
            CommandFailed: some could not be read all the time.
        """
        if not self._unread:
            return
        names = [f"{self._topic}-{number}" for number in self._unread]
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

    def _starts(self, partitions: list[int]) -> "tuple[list[TopicPartition], int]":
        """Return where to begin in those that can be read, and how much there is in them.

        The others are asked again later.

        Raises:
            CommandFailed: the topic cannot be read.
        """
        from confluent_kafka import KafkaException, TopicPartition

        from kafkaesque.cli.kafka import explain_raised

        known = (
            self._connection.metadata(self._consumer, self._topic).topics[self._topic].partitions
        )
        starts, total, unread = [], 0, []
        for number in partitions:
            is_led = number in known and known[number].leader >= 0
            try:
                found = self._start(number) if is_led else None
            except KafkaException as raised:
                if raised.args[0].name() not in _NOT_YET:
                    what = f"topic {self._topic}"
                    raise explain_raised(raised, what, *self._rights) from None
                found = None
            if found is None:
                unread.append(number)
            else:
                begin, end = found
                starts.append(TopicPartition(self._topic, number, begin))
                total += max(0, end - begin)
        self._unread, self._unread_due = unread, time.monotonic() + BOUNDS_AGAIN_S
        return starts, total

    def _start(self, number: int) -> tuple[int, int]:
        """Return where to begin in a partition, and where it ends.

        Raises:
            KafkaException: its leader does not say so.
        """
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        place = self._place
        asked = TopicPartition(self._topic, number, place.number)
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

    def _outside(self, partition: int) -> CommandFailed:
        from confluent_kafka import KafkaException, TopicPartition

        asked = TopicPartition(self._topic, partition)
        try:
            bounds = self._consumer.get_watermark_offsets(asked, timeout=REQUEST_TIMEOUT_S)
        except KafkaException:
            bounds = None
        held = ""
        if bounds is not None:
            first, end = bounds
            held = f": it has {first} to {end - 1}" if end > first else ": it is empty"
            held += f", and the next message gets {end}"
        return CommandFailed(
            f"{self._topic}-{partition} has no offset {self._place.number}{held}",
            hint="--offset earliest, or --partition N for the one that is meant",
        )


def _consume(reader: Reader, printer: Printer, stop: Stop, partitions: list[int] | None) -> int:
    total = reader.start(partitions)
    if stop.max_messages is not None:
        ends_earlier = stop.at_end and total is not None and total < stop.max_messages
        total = total if ends_earlier else stop.max_messages
    is_endless = stop.max_messages is None and not stop.at_end
    # On a terminal the messages themselves show that it goes on.
    is_hidden = sys.stdout.isatty() or is_endless
    with Screen().progress("consuming", total, is_hidden=is_hidden) as bar:
        return run(reader, printer, stop, bar)


def run(reader: Reader, printer: Printer, stop: Stop, bar: Progress) -> int:
    """Print until one of the reasons to stop; return how many messages were printed."""
    count = 0
    last_at = time.monotonic()
    while stop.max_messages is None or count < stop.max_messages:
        wanted = BATCH_MAX if stop.max_messages is None else stop.max_messages - count
        messages = reader.read(wanted)
        has_come = bool(messages) or (stop.at_end and reader.is_at_end())
        reader.note_wait(has_come=has_come, is_awaited=stop.at_end)
        if messages:
            printer.write(messages)
            reader.printed(messages)
            count += len(messages)
            bar.advance(len(messages))
            last_at = time.monotonic()
        elif stop.at_end and reader.is_at_end():
            break
        elif stop.idle_s is not None and time.monotonic() - last_at > stop.idle_s:
            break
    return count
