"""Sessions of clients of MQTT, STOMP and NATS as the API shows them."""

from typing import Literal

import msgspec

from kafkaesque.admin.api.messages import Content
from kafkaesque.admin.api.paging import ListQuery
from kafkaesque.admin.api.queue_values import Vhost
from kafkaesque.admin.api.values import Listing, View
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST


class ClientSessionsQuery(ListQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which sessions."""

    #: Only those of one protocol.
    protocol: Literal["", "mqtt", "stomp", "nats"] = ""
    #: Only those that are kept when their client is not connected.
    kept: bool = False


class ClientSessionQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the session's queue is, if it is kept."""

    vhost: Vhost = DEFAULT_VHOST


class EndClientSession(ClientSessionQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the session's queue is, and whether to say what would be done, and do nothing."""

    dry_run: bool = False


class ClientSession(msgspec.Struct, frozen=True, kw_only=True):
    """What the cluster holds for a client: its subscriptions, and what waits for it."""

    #: The queue of a session that is kept, BROKER:CONNECTION of one that is not.
    id: str
    protocol: str
    #: What the client calls itself; of a durable subscription of STOMP the subscription's name.
    client_id: str
    #: Empty: nobody in particular.
    user: str
    #: Whether it is kept, as a queue, when its client is not connected.
    is_kept: bool
    vhost: str = DEFAULT_VHOST
    #: Of the client's connection; null: it is not connected with a broker that has answered.
    broker: int | None = None
    connection: int | None = None
    peer: str | None = None
    subscriptions: int = 0
    #: Null where the client is not connected: a will is its connection's.
    has_will: bool | None = None
    #: When the queue was made, or the client has connected.
    since: int | None = None
    #: So long it is kept without a client; null: nothing is kept, or there is no end.
    kept_for_ms: int | None = None
    #: Of the queue; null where nothing is kept, or its leader has not answered.
    waiting: int | None = None
    in_flight: int | None = None
    oldest_at: int | None = None


class ClientSessionList(Listing, frozen=True, kw_only=True):
    """Sessions."""

    items: list[ClientSession]
    #: Connected clients of brokers that have more than are listed.
    unlisted: int


class SubscriptionView(msgspec.Struct, frozen=True, kw_only=True):
    """One subscription."""

    #: The filter, as the client has written it; of a queue of STOMP its name.
    name: str
    #: MQTT's quality of service; null: the protocol has none.
    qos: int | None = None
    #: Whom it is shared with; empty: nobody.
    group: str = ""
    #: The queue that its messages come from; null: they come live.
    queue: str | None = None
    #: The exchange that the queue is bound to.
    exchange: str | None = None


class WillView(msgspec.Struct, frozen=True, kw_only=True):
    """What is published when the client is gone without a farewell."""

    #: Null: who asks may not see that topic.
    name: str | None
    qos: int
    is_retained: bool
    #: So long it is waited for the client to come back.
    delay_ms: int
    #: Null: who asks may not read that topic.
    value: Content | None


class ClientSessionView(View, frozen=True, kw_only=True):
    """One session."""

    session: ClientSession
    #: Up to 1,000.
    subscriptions: list[SubscriptionView]
    will: WillView | None = None
    #: For how long nobody has asked for its messages; null: not known, or nothing is kept.
    unwanted_ms: int | None = None
    #: Why the queue's leader has not said what waits.
    missing: str | None = None


# -- parts of brokers


class ClientsQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Clients of MQTT, STOMP and NATS: all, the one of a connection, or those with a queue."""

    number: int | None = None
    queue: tuple[str, str] | None = None


class LiveClient(msgspec.Struct, frozen=True, kw_only=True):
    """A client that is connected."""

    number: int
    protocol: str
    client_id: str
    user: str
    peer: str
    opened_ms: int
    subscriptions: int
    has_will: bool
    vhost: str
    #: Queues that keep what is for it when it is not connected.
    queues: list[str]
    #: Only if a connection or a queue was asked for.
    named: list[SubscriptionView] = []
    will: WillView | None = None


class ClientsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Clients that are connected with a broker, up to a bound, and how many there are."""

    clients: list[LiveClient]
    total: int
