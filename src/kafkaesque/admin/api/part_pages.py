"""The questions that brokers ask one another for the API, with their answers."""

from typing import Final

import msgspec

from kafkaesque.admin.api.fan_out import PartPage
from kafkaesque.admin.api.messages import Form, Message, PassedOver, SearchFilter
from kafkaesque.admin.api.values import (
    BrokerState,
    Connected,
    Finding,
    Group,
    ListenerState,
    Member,
    TopicGroup,
    Transaction,
)
from kafkaesque.broker.requests.client_command import OnBehalfOf
from kafkaesque.chassis.channel_facts import ConnectionFacts


class Nothing(msgspec.Struct, frozen=True):
    """There is nothing to choose."""


class TopicSizes(msgspec.Struct, frozen=True, array_like=True):
    """The partitions of a topic that a broker leads, together."""

    name: str
    led: int
    messages: int
    bytes: int
    under_replicated: int
    #: Sum of the high watermarks: so many offsets were given; -1: an earlier release does not say.
    offsets: int = -1


class TopicsQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of which topics; None: of all."""

    names: list[str] | None = None


class TopicsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One for each topic of which a partition is led here."""

    topics: list[TopicSizes]


class PartitionsQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Which partitions, by topic."""

    partitions: dict[str, list[int]]


class LedPartition(msgspec.Struct, frozen=True, array_like=True):
    """A partition as its leader knows it."""

    topic: str
    partition: int
    epoch: int
    start_offset: int
    end_offset: int
    stable_offset: int
    bytes: int
    in_sync: list[int]


class PartitionsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Those that are led here; the others are left out."""

    partitions: list[LedPartition]


class GroupsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The groups that a broker coordinates."""

    groups: list[Group]


class TopicGroupsQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Groups of which topic."""

    topic: str


class TopicGroupsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The groups that a broker coordinates and that have offsets in a topic."""

    groups: list[TopicGroup]


class GroupQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Which group."""

    group: str
    #: Whether it may be a share group, which has no offsets but cursors.
    with_share: bool = False


class CommittedOffset(msgspec.Struct, frozen=True, array_like=True):
    """What a group has committed."""

    topic: str
    partition: int
    offset: int
    metadata: str
    at_ms: int


class GroupAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A group as its coordinator knows it; an empty state: there is none."""

    state: str
    kind: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: list[Member] = []
    offsets: list[CommittedOffset] = []
    #: Of a share group: the topics of which it keeps what was delivered.
    cursors: int = 0


class ConnectionsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Connections of a broker, up to a bound, and how many there are."""

    connections: list[Connected]
    total: int


class ChannelsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What connections of AMQP with a broker have open, by their numbers."""

    connections: dict[int, ConnectionFacts]


class CloseConnection(msgspec.Struct, frozen=True, kw_only=True):
    """End a client's connection, or say whether it is there."""

    number: int
    is_dry_run: bool


class ConnectionClosed(msgspec.Struct, frozen=True, kw_only=True):
    """Whose it was; None: it was gone."""

    peer: str | None


class ListenersAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Listeners of a broker."""

    listeners: list[ListenerState]


class TransactionsQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Of which ids all is wanted; None: of all ids their states alone."""

    ids: list[str] | None = None
    #: Of all ids: whether the answer is to say what it is whole of, which takes a majority's word.
    with_cover: bool = False


class TransactionsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Transactional ids that a broker coordinates."""

    transactions: list[Transaction]
    #: Partitions of the transaction log for which the answer says all that was asked: it was led
    #: here, and loaded. An earlier release names none.
    covers: list[int] = []


class FindingsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker knows to be wrong with itself and with what it leads."""

    findings: list[Finding]


class SeriesQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Which samples."""

    names: list[str]
    after: int
    step_ms: int


class SeriesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Samples: times, and in the order of the names the values at these times."""

    step_ms: int
    at: list[int]
    values: list[list[float]]


class OffsetAtQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """The first offset of a time."""

    topic: str
    partition: int
    at_ms: int


class OffsetAtAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """None: there is no record of that time or later."""

    offset: int | None


class ScanQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Search a part of a partition."""

    topic: str
    partition: int
    #: From here on, up to and without that one.
    offset: int
    until: int
    filter: SearchFilter
    form: Form
    matches_max: int
    #: Of what is shown; the first message may be longer.
    bytes_max: int
    #: Whose rights say which schemas are known; null: all are.
    client: OnBehalfOf | None = None


class ScanAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was found, and how far it was looked."""

    matches: list[Message]
    #: Whatever lies before it, from the beginning of the question, was looked at or passed over.
    next: int
    records: int
    bytes: int
    passed_over: list[PassedOver] = []


class QueueRow(msgspec.Struct, frozen=True, array_like=True):
    """The partitions of a queue that a broker leads, together."""

    vhost: str
    name: str
    led: int
    ready: int
    delayed: int
    in_flight: int
    parked: int
    moving: int
    consumers: int
    #: 0: there is no message.
    oldest_ms: int
    bytes: int


class QueuesQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of which queues, by virtual host and name; None: of all."""

    names: list[tuple[str, str]] | None = None


class QueuesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One for each queue of which a partition is led here."""

    queues: list[QueueRow]


BROKER: Final = PartPage(name="broker", question=Nothing, answer=BrokerState)
TOPICS: Final = PartPage(name="topics", question=TopicsQuestion, answer=TopicsAnswer)
PARTITIONS: Final = PartPage(
    name="partitions", question=PartitionsQuestion, answer=PartitionsAnswer
)
GROUPS: Final = PartPage(name="groups", question=Nothing, answer=GroupsAnswer)
TOPIC_GROUPS: Final = PartPage(
    name="topic-groups", question=TopicGroupsQuestion, answer=TopicGroupsAnswer
)
GROUP: Final = PartPage(name="group", question=GroupQuestion, answer=GroupAnswer)
CONNECTIONS: Final = PartPage(name="connections", question=Nothing, answer=ConnectionsAnswer)
CHANNELS: Final = PartPage(name="channels", question=Nothing, answer=ChannelsAnswer)
CLOSE_CONNECTION: Final = PartPage(
    name="close-connection", question=CloseConnection, answer=ConnectionClosed
)
LISTENERS: Final = PartPage(name="listeners", question=Nothing, answer=ListenersAnswer)
TRANSACTIONS: Final = PartPage(
    name="transactions", question=TransactionsQuestion, answer=TransactionsAnswer
)
FINDINGS: Final = PartPage(name="findings", question=Nothing, answer=FindingsAnswer)
SERIES: Final = PartPage(name="series", question=SeriesQuestion, answer=SeriesAnswer)
OFFSET_AT: Final = PartPage(name="offset-at", question=OffsetAtQuestion, answer=OffsetAtAnswer)
SCAN: Final = PartPage(name="scan", question=ScanQuestion, answer=ScanAnswer)
QUEUES: Final = PartPage(name="queues", question=QueuesQuestion, answer=QueuesAnswer)
