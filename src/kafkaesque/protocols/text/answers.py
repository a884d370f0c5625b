"""The lines that a person gets to read.

Every answer ends with one line that begins with OK or ERROR; what comes before it begins with
neither.
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from kafkaesque.protocols.text import examples
from kafkaesque.protocols.text.errors import BadCommand
from kafkaesque.protocols.text.lines import LINE_BYTES_MAX
from kafkaesque.protocols.text.messages import TextMessage, write_message

#: How long an error may go on about what was wrong.
WHAT_LENGTH_MAX = 300
#: How the note begins that says that nobody knows what became of a commit.
OFFSETS_IN_DOUBT = "it is not known whether offsets are committed"

_NO_TIME = "-"
_DAY_MS = 86_400_000
#: The year 10000 begins; records may say that they are of any time.
_CALENDAR_END_MS = 253_402_300_800_000

_COMMANDS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "PUBS topic message",
        "publish JSON with Body, optionally Key and Header; text without { in front is the Body",
        (examples.PUBLISH, examples.PUBLISH_WITH_HEADER, examples.PUBLISH_TEXT),
    ),
    (
        "SUBS topic group [partitions]",
        "get a subscription id, for all partitions or for some; it is valid on every broker",
        (examples.SUBSCRIBE, examples.SUBSCRIBE_SOME),
    ),
    (
        "CONS topic subscription-id offset",
        "show messages from an offset on, from the earliest or the latest, or the group's next",
        (
            examples.CONSUME_NEXT,
            examples.CONSUME_EARLIEST,
            examples.CONSUME_OFFSET,
            examples.CONSUME_OFFSETS,
        ),
    ),
    (
        "PUT queue message",
        "put a message into a queue; JSON may have Priority, Group, Delay, Expires and Id, too",
        (examples.PUT, examples.PUT_LATER),
    ),
    (
        "GET queue [seconds]",
        "get a message, and wait for one; it is yours until you ACK or NACK it",
        (examples.GET, examples.GET_WAITING),
    ),
    ("ACK queue number", "a message is done with", (examples.ACK,)),
    (
        "NACK queue number [seconds]",
        "a message failed; others try it, after so many seconds",
        (examples.NACK, examples.NACK_LATER),
    ),
    ("QUEUES", "list all queues with their messages", ()),
    (
        "AUTH user password",
        "log in, where the listener wants that; a session's token does for a password",
        (examples.AUTH,),
    ),
    ("TOPICS", "list all topics with their partitions and replicas", ()),
    ("HELP", "show this", ()),
    ("QUIT", "close the connection; so does the end of the input, Ctrl-D", ()),
)


def write_ok(*words: object) -> bytes:
    """Return the last line of an answer that is what was asked for."""
    return _line(" ".join(("OK", *map(str, words))))


def write_error(what: str, example: str) -> bytes:
    """Return the one line that says what was wrong, and the right form."""
    if len(what) > WHAT_LENGTH_MAX:
        what = what[: WHAT_LENGTH_MAX - 3] + "..."
    return _line(f"ERROR {what}. Example: {example}")


def write_bad_command(error: BadCommand) -> bytes:
    """Return the line for a command that cannot be done."""
    return write_error(error.what, error.example)


def write_too_long() -> bytes:
    """Return the line for a line that was not read."""
    return write_error(f"a line has at most {LINE_BYTES_MAX} bytes", examples.PUBLISH_TEXT)


def write_unfinished() -> bytes:
    """Return the line for the beginning of a line that was not carried out."""
    return write_error(
        "the input ended within a line, which was discarded: a line must end with a newline",
        f"printf '{examples.PUBLISH_TEXT}\\n{examples.QUIT}\\n' | nc 127.0.0.1 7070",
    )


@cache
def write_help() -> bytes:
    """Return all commands with examples."""
    lines = []
    for form, purpose, shown in _COMMANDS:
        lines.append(f"{form:34} {purpose}")
        lines += [f"    {example}" for example in shown]
    return b"".join(map(_line, lines)) + write_ok()


class TopicLine(NamedTuple):
    """A topic, as TOPICS shows it."""

    name: str
    partition_count: int
    replication_factor: int


def write_topics(topics: Sequence[TopicLine]) -> bytes:
    """Return the list of topics."""
    width = max((len(topic.name) for topic in topics), default=0)
    lines = [
        f"{topic.name:{width}} partitions={topic.partition_count} "
        f"replicas={topic.replication_factor}"
        for topic in topics
    ]
    return b"".join(map(_line, lines)) + write_ok(_counted(len(topics), "topic"))


class QueueLine(NamedTuple):
    """A queue, as QUEUES shows it; None: its leader has not said how many."""

    name: str
    counts: tuple[tuple[str, int], ...] | None


def write_queues(queues: Sequence[QueueLine]) -> bytes:
    """Return the list of queues."""
    width = max((len(queue.name) for queue in queues), default=0)
    lines = []
    for name, counts in queues:
        said = " ".join(f"{what}={count}" for what, count in counts or ())
        lines.append(f"{name:{width}} {said or 'no answer'}")
    return b"".join(map(_line, lines)) + write_ok(_counted(len(queues), "queue"))


class MessageLine(NamedTuple):
    """A message, as CONS shows it."""

    partition: int
    offset: int
    timestamp_ms: int
    message: TextMessage


def write_message_line(shown: MessageLine) -> bytes:
    """Return a message: partition, offset, time, JSON."""
    head = f"MSG {shown.partition} {shown.offset} {_time(shown.timestamp_ms)} "
    return head.encode() + write_message(shown.message) + b"\r\n"


class GivenLine(NamedTuple):
    """A message, as GET shows it."""

    queue: str
    offset: int
    #: Which time it is given out, from 1.
    attempt: int
    timestamp_ms: int
    message: TextMessage


def write_given(given: GivenLine) -> bytes:
    """Return a message of a queue: number, attempt, time, JSON; and what to do with it."""
    head = f"MSG {given.offset} {given.attempt} {_time(given.timestamp_ms)} "
    line = head.encode() + write_message(given.message) + b"\r\n"
    return line + write_ok(f"1 message; when it is done with: ACK {given.queue} {given.offset}")


def write_consumed(count: int, topic: str, subscription_id: str, start: str, note: str) -> bytes:
    """Return the last line of CONS: how many messages were shown, and how to go on."""
    goes_on = f"go on with: CONS {topic} {subscription_id} {start}"
    return write_ok(f"{_counted(count, 'message')}; {goes_on}{note}")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _time(timestamp_ms: int) -> str:
    """Return the time in UTC, or the bare number beyond the calendar."""
    if timestamp_ms < 0:
        return _NO_TIME
    if timestamp_ms >= _CALENDAR_END_MS:
        return str(timestamp_ms)
    days, rest_ms = divmod(timestamp_ms, _DAY_MS)
    year, month, day = _date(days)
    rest_s, milliseconds = divmod(rest_ms, 1000)
    minutes, seconds = divmod(rest_s, 60)
    clock = f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}.{milliseconds:03}Z"
    return f"{year:04}-{month:02}-{day:02}T{clock}"


def _date(days: int) -> tuple[int, int, int]:
    """Return (year, month, day) so many days after 1970-01-01, in the Gregorian calendar.

    Years are counted from March, so that the leap day is a year's last: then the months' lengths
    repeat every five months, 153 days.
    """
    era, in_era = divmod(days + 719_468, 146_097)  # From 0000-03-01; 400 years.
    in_era_years = (in_era - in_era // 1_460 + in_era // 36_524 - in_era // 146_096) // 365
    in_year = in_era - (365 * in_era_years + in_era_years // 4 - in_era_years // 100)
    from_march = (5 * in_year + 2) // 153
    day = in_year - (153 * from_march + 2) // 5 + 1
    month = from_march + 3 if from_march < 10 else from_march - 9
    return 400 * era + in_era_years + (month <= 2), month, day


def _line(text: str) -> bytes:
    """Return one line, whatever the text holds."""
    flat = text.replace("\r", " ").replace("\n", " ")
    return flat.encode(errors="replace") + b"\r\n"
