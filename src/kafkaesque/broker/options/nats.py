"""The options by which topics are streams of NATS, and queues consumers of them.

A stream stores what anybody publishes to its subjects, and a consumer may have it published to
another one. So both are asked for in rules, by whatever way the option is set.
"""

from typing import Final, NamedTuple

import msgspec

from kafkaesque.model.options import Option, OptionType
from kafkaesque.routing.errors import BadName
from kafkaesque.routing.names import NATS

STREAM: Final = "nats.stream"
CONSUMER: Final = "nats.consumer"

TOPIC_NATS_OPTIONS: Final = (
    Option(
        name=STREAM,
        type=OptionType.STRING,
        default="",
        doc="Over NATS: how the stream was created, as JSON. Not for people to set.",
    ),
)
QUEUE_NATS_OPTIONS: Final = (
    Option(
        name=CONSUMER,
        type=OptionType.STRING,
        default="",
        doc="Over NATS: how the consumer was created, as JSON. Not for people to set.",
    ),
)

#: Subjects for answers that clients make up begin so: who knows one was given it.
INBOX_PREFIX: Final = "_INBOX."


class Capture(NamedTuple):
    """A subject of a stream, as rules name it, and what all begin with that it stands for."""

    name: str
    prefix: str


class _Origin(msgspec.Struct, frozen=True):
    name: str = ""


class _Stream(msgspec.Struct, frozen=True):
    name: str = ""
    subjects: list[str] | None = None
    mirror: _Origin | None = None
    sources: list[_Origin] | None = None

    @property
    def origins(self) -> set[str]:
        """The topics that it has messages from."""
        found = [] if self.mirror is None else [self.mirror]
        return {each.name for each in (*found, *(self.sources or ()))}


class _Consumer(msgspec.Struct, frozen=True):
    deliver_subject: str | None = None
    filter_subject: str | None = None
    filter_subjects: list[str] | None = None


def subject_resource(subject: str) -> str:
    """Return what rules call a subject, or what a subscription wants."""
    try:
        return NATS.key_of(subject)
    except BadName:
        return subject


def capture_of(subject: str) -> Capture:
    """Return what a subject of a stream, maybe with wildcards, stands for."""
    name = subject_resource(subject)
    end = min((name.index(each) for each in "*>" if each in name), default=len(name))
    return Capture(name, name[:end])


def captured_by(topic: str, stream: str) -> set[str]:
    """Return the subjects that a topic stores with a value of `nats.stream`."""
    try:
        found = msgspec.json.decode(stream, type=_Stream)
    except (msgspec.DecodeError, UnicodeError):
        return set()  # and so it is no stream
    return set(found.subjects or ([] if found.origins else [found.name or topic]))


def origins_of(stream: str) -> set[str]:
    """Return the topics that a stream copies messages from, with a value of `nats.stream`."""
    try:
        return msgspec.json.decode(stream or "{}", type=_Stream).origins
    except (msgspec.DecodeError, UnicodeError):
        return set()  # and so it is no stream


def target_of(consumer: str) -> str:
    """Return where a consumer sends to, with a value of `nats.consumer`; empty: it is asked."""
    try:
        found = msgspec.json.decode(consumer, type=_Consumer)
    except (msgspec.DecodeError, UnicodeError):
        return ""
    return found.deliver_subject or ""


def filters_of(consumer: str) -> tuple[str, ...]:
    """Return the subjects that a value of `nats.consumer` wants; none: all of the stream."""
    try:
        found = msgspec.json.decode(consumer or "{}", type=_Consumer)
    except (msgspec.DecodeError, UnicodeError):
        return ()
    if found.filter_subjects:
        return tuple(found.filter_subjects)
    return (found.filter_subject,) if found.filter_subject else ()
