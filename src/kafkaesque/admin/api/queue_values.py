"""Queues as the API shows them."""

from typing import Annotated, Literal

import msgspec

from kafkaesque.admin.api.messages import Content, Format, Header
from kafkaesque.admin.api.numbers import Number, Unsigned
from kafkaesque.admin.api.paging import ListQuery
from kafkaesque.admin.api.values import Listing, View
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST

MESSAGES_MAX = 500

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
Vhost = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


class QueuesQuery(ListQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which queues."""

    #: Only those of this virtual host; empty: all.
    vhost: Annotated[str, msgspec.Meta(max_length=255)] = ""


class QueueQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where a queue is."""

    vhost: Vhost = DEFAULT_VHOST


class QueueDryRun(QueueQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where a queue is, and whether to say what would be done, and do nothing."""

    dry_run: bool = False


class QueueMessagesQuery(QueueQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which messages of a queue."""

    #: Of a queue over a topic, which has as many as the topic.
    partition: Number = 0
    #: `next` of the page before, or the first offset that is wanted.
    offset: Unsigned = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=MESSAGES_MAX)] = 50
    show: Literal["auto", "text", "hex"] = "auto"
    #: How keys and values are decoded; null: as `show` says.
    key_format: Format | None = None
    value_format: Format | None = None


class NewQueue(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A queue to be created; what is not given is the default."""

    name: Name
    vhost: Vhost = DEFAULT_VHOST
    replication_factor: Annotated[int, msgspec.Meta(ge=1, le=1_000)] | None = None
    options: Annotated[dict[str, str], msgspec.Meta(max_length=100)] = {}


class Redrive(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where messages are to go that wait or were given up."""

    #: A queue of the same virtual host. Null: what was given up and stays here is ready again.
    to: Name | None = None
    #: Whether to move no more instead.
    stop: bool = False


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue in a list; numbers are null where no leader has said them."""

    vhost: str
    name: str
    #: Of its log: a queue that is made again has another one.
    id: str
    created_at: int | None
    partitions: int
    replication_factor: int
    #: Of the first partition.
    leader: int | None
    leaderless: int
    #: The topic that it is a cursor over; null: it has its messages itself.
    source: str | None
    #: The queue or topic that its dead letters go to.
    dead_letters_to: str | None
    ready: int | None
    delayed: int | None
    in_flight: int | None
    parked: int | None
    moving: int | None
    consumers: int | None
    #: When the oldest message came that is not done with; null: there is none.
    oldest_at: int | None
    bytes: int | None
    #: Partitions whose leaders have not answered.
    unknown: int


class QueueList(Listing, frozen=True, kw_only=True):
    """Queues."""

    items: list[Queue]


class QueuePart(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of a queue; where `missing` says why, its leader has not answered."""

    partition: int
    leader: int | None
    replicas: list[int]
    missing: str | None = None
    ready: int = 0
    delayed: int = 0
    in_flight: int = 0
    parked: int = 0
    moving: int = 0
    consumers: int = 0
    oldest_at: int | None = None
    newest_at: int | None = None
    #: For how long nobody has asked for messages, as far as the leader knows.
    unwanted_ms: int = 0
    #: The limit on `in_flight`; 0: none.
    in_flight_max: int = 0
    #: The oldest message that is not done with, where it is, and its attempts that failed.
    head: int | None = None
    head_place: str = ""
    head_failures: int = 0
    #: What the log is kept from: `message` (the oldest one), `snapshot` or `nothing`.
    held_by: str = "nothing"
    log_start: int = 0
    log_end: int = 0
    log_bytes: int = 0
    #: Since the queue was made: how many came, and how many are gone, by why.
    arrived: int = 0
    removed: dict[str, int] = {}
    #: Where messages are being moved to on request.
    redriving_to: str | None = None


class QueueView(View, frozen=True, kw_only=True):
    """One queue."""

    queue: Queue
    parts: list[QueuePart]


class QueueOption(msgspec.Struct, frozen=True, kw_only=True):
    """An option in force."""

    name: str
    value: str
    default: str
    #: Whether it was set for this queue.
    is_own: bool
    allowed: str
    doc: str


class QueueOptions(View, frozen=True, kw_only=True):
    """All options of a queue."""

    vhost: str
    queue: str
    options: list[QueueOption]


class DeathNote(msgspec.Struct, frozen=True, kw_only=True):
    """One time that a message was given up."""

    queue: str
    vhost: str
    reason: str
    attempts: int
    at: int


class QueuedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is looked at and not taken."""

    partition: int
    offset: int
    #: `ready`, `delayed`, `in-flight`, `parked` or `moving`.
    place: str
    #: How often it was given out, and how often that has failed.
    attempts: int
    failures: int
    timestamp: int
    #: When it is ready, and when its life ends; null: not known, or never.
    not_before: int | None
    not_after: int | None
    key: Content
    value: Content
    #: Those that its publisher gave.
    headers: list[Header]
    #: How it came here, oldest first.
    deaths: list[DeathNote]


class QueuedMessages(View, frozen=True, kw_only=True):
    """Messages of one partition of a queue, oldest first."""

    items: list[QueuedMessage]
    #: To be given as `offset` for the next page; null: there were no more.
    next: int | None = None
