"""What the API answers and takes, with RabbitMQ's names. Times are Unix times in milliseconds.

What nobody counts here, or what a broker that does not answer would know, is left out: clients take
what is absent for unknown, and `rabbitmqadmin` ends with a traceback where it is to show null.
"""

from typing import Annotated, Final, TypeVar

import msgspec

#: The release whose API this is: some clients ask for it before they use a call.
RABBITMQ_VERSION: Final = "3.13.0"

_T = TypeVar("_T")
#: Left out of the answer where it is not known.
MaybeInt = int | msgspec.UnsetType
MaybeText = str | msgspec.UnsetType

#: An argument's value.
AnyJson = Annotated[object, "as JSON has it"]
Arguments = dict[str, AnyJson]


def known(value: _T | None) -> _T | msgspec.UnsetType:
    """Return a field's value; None is not known."""
    return msgspec.UNSET if value is None else value


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all answers."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all bodies; fields that are not known are passed over, as RabbitMQ does."""


class Status(Answer, frozen=True, kw_only=True):
    """Something is well, or not, and why not."""

    status: str
    reason: str | msgspec.UnsetType | None = msgspec.UNSET


# -- the cluster


class ObjectTotals(Answer, frozen=True, kw_only=True):
    """How many there are."""

    connections: int
    #: Nobody counts them over all brokers.
    channels: int = 0
    exchanges: int
    queues: int
    consumers: int


class QueueTotals(Answer, frozen=True, kw_only=True):
    """Messages of all queues."""

    messages: int
    messages_ready: int
    messages_unacknowledged: int


class ListenerShown(Answer, frozen=True, kw_only=True):
    """A port of a broker."""

    node: str
    protocol: str
    ip_address: str
    port: int


class ExchangeType(Answer, frozen=True, kw_only=True):
    """A type that exchanges can have."""

    name: str
    description: str
    enabled: bool = True


class Overview(Answer, frozen=True, kw_only=True):
    """The cluster in few numbers."""

    management_version: str = RABBITMQ_VERSION
    rabbitmq_version: str = RABBITMQ_VERSION
    product_name: str = "Kafkaesque"
    product_version: str
    rates_mode: str = "none"
    exchange_types: list[ExchangeType]
    cluster_name: str
    node: str
    object_totals: ObjectTotals
    queue_totals: QueueTotals
    message_stats: dict[str, int] = {}
    listeners: list[ListenerShown]
    contexts: list[dict[str, str]] = []


class ClusterName(Answer, frozen=True, kw_only=True):
    """What the cluster is called."""

    name: str


class NodeShown(Answer, frozen=True, kw_only=True):
    """A broker. What it says of itself is left out where it has not answered."""

    name: str
    type: str = "disc"
    running: bool
    mem_used: MaybeInt = msgspec.UNSET
    mem_alarm: bool = False
    disk_free: MaybeInt = msgspec.UNSET
    disk_free_alarm: bool | msgspec.UnsetType = msgspec.UNSET
    fd_used: MaybeInt = msgspec.UNSET
    fd_total: MaybeInt = msgspec.UNSET
    uptime: MaybeInt = msgspec.UNSET
    partitions: list[str] = []


class WhoAmI(Answer, frozen=True, kw_only=True):
    """Who asks."""

    name: str
    tags: list[str]


class ConnectionShown(Answer, frozen=True, kw_only=True):
    """A client's connection, of whatever protocol."""

    name: str
    node: str
    protocol: str
    user: str
    peer_host: str
    peer_port: MaybeInt
    state: str
    recv_oct: int
    send_oct: int
    send_pend: int
    #: What the client calls itself.
    user_provided_name: str = ""
    connected_at: MaybeInt = msgspec.UNSET
    type: str = "network"
    #: Of AMQP's connections.
    vhost: MaybeText = msgspec.UNSET
    #: Other protocols have none; left out where a broker has more than it tells of.
    channels: MaybeInt = msgspec.UNSET


class ChannelConnection(Answer, frozen=True, kw_only=True):
    """Whose a channel is."""

    name: str
    peer_host: str
    peer_port: MaybeInt


class ChannelShown(Answer, frozen=True, kw_only=True):
    """A channel of AMQP."""

    name: str
    number: int
    node: str
    vhost: str
    user: str
    connection_details: ChannelConnection
    confirm: bool
    transactional: bool
    prefetch_count: int
    global_prefetch_count: int
    messages_unacknowledged: int
    messages_unconfirmed: int
    messages_uncommitted: int
    acks_uncommitted: int
    consumer_count: int
    state: str = "running"


class ChannelDetails(Answer, frozen=True, kw_only=True):
    """The channel of a consumer."""

    name: str
    number: int
    node: str
    user: str
    connection_name: str
    peer_host: str
    peer_port: MaybeInt


class ConsumerQueue(Answer, frozen=True, kw_only=True):
    """What is consumed."""

    name: str
    vhost: str


class ConsumerShown(Answer, frozen=True, kw_only=True):
    """A consumer of AMQP."""

    consumer_tag: str
    queue: ConsumerQueue
    channel_details: ChannelDetails
    ack_required: bool
    exclusive: bool
    prefetch_count: int
    arguments: dict[str, object]


class AuthShown(Answer, frozen=True, kw_only=True):
    """How web pages of RabbitMQ's log in."""

    oauth_enabled: bool = False


# -- virtual hosts


class VhostShown(Answer, frozen=True, kw_only=True):
    """A virtual host."""

    name: str
    description: str = ""
    tags: list[str] = []
    default_queue_type: str = "classic"
    metadata: dict[str, AnyJson] = {}
    tracing: bool = False
    cluster_state: dict[str, str]


# -- exchanges and bindings


class ExchangeShown(Answer, frozen=True, kw_only=True):
    """An exchange."""

    name: str
    vhost: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: Arguments
    policy: str | msgspec.UnsetType = msgspec.UNSET
    user_who_performed_action: str = ""


class NewExchange(Asked, frozen=True, kw_only=True):
    """An exchange that is declared."""

    type: str = "direct"
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Arguments = {}


class BindingShown(Answer, frozen=True, kw_only=True):
    """A binding."""

    source: str
    vhost: str
    destination: str
    #: queue, exchange, or ours: topic.
    destination_type: str
    routing_key: str
    arguments: Arguments
    #: By which it is known among those between the same two.
    properties_key: str


class NewBinding(Asked, frozen=True, kw_only=True):
    """A binding that is made."""

    routing_key: str = ""
    arguments: Arguments = {}


# -- queues


class QueueShown(Answer, frozen=True, kw_only=True):
    """A queue; its numbers are left out where its leader has not answered."""

    name: str
    vhost: str
    type: str
    durable: bool
    auto_delete: bool
    exclusive: bool
    arguments: Arguments
    node: MaybeText
    leader: MaybeText
    members: list[str]
    state: str
    consumers: MaybeInt
    messages: MaybeInt
    messages_ready: MaybeInt
    messages_unacknowledged: MaybeInt
    message_bytes: MaybeInt
    policy: str | None = None
    operator_policy: str | None = None
    effective_policy_definition: Arguments = {}


class NewQueue(Asked, frozen=True, kw_only=True):
    """A queue that is declared."""

    durable: bool = True
    auto_delete: bool = False
    arguments: Arguments = {}


# -- messages


class NewMessage(Asked, frozen=True, kw_only=True):
    """A message that is published."""

    routing_key: str
    payload: str
    #: string or base64.
    payload_encoding: str = "string"
    properties: dict[str, AnyJson] = {}


class Routed(Answer, frozen=True, kw_only=True):
    """Whether a queue or a topic has the message."""

    routed: bool


class WantedMessages(Asked, frozen=True, kw_only=True):
    """Messages that are fetched."""

    count: int = 1
    #: Whether they stay in the queue, and whether they are done with.
    ackmode: str = "ack_requeue_true"
    #: auto: base64 where the body is no text.
    encoding: str = "auto"
    truncate: int | None = None


class MessageShown(Answer, frozen=True, kw_only=True):
    """A message that was fetched."""

    payload: str
    payload_bytes: int
    payload_encoding: str
    #: Without any an empty list, as Erlang has it.
    properties: dict[str, AnyJson] | list[AnyJson]
    routing_key: str
    exchange: str
    redelivered: bool
    message_count: int


# -- users


class UserShown(Answer, frozen=True, kw_only=True):
    """A user; a password that was brought over is shown to those who could export it."""

    name: str
    tags: list[str]
    password_hash: str = ""
    hashing_algorithm: str = "rabbit_password_hashing_sha256"
    limits: dict[str, int] = {}


class NewUser(Asked, frozen=True, kw_only=True):
    """A user that is made, or made so."""

    password: str | msgspec.UnsetType | None = msgspec.UNSET
    password_hash: str | None = None
    hashing_algorithm: str | None = None
    #: A list, or names between commas.
    tags: list[str] | str = ""

    def roles(self) -> tuple[str, ...]:
        """Return the tags, each once."""
        given = self.tags.split(",") if isinstance(self.tags, str) else self.tags
        return tuple(dict.fromkeys(each.strip() for each in given if each.strip()))


class UserNames(Asked, frozen=True, kw_only=True):
    """Users that are deleted together."""

    users: list[str]


# -- policies


class PolicyShown(Answer, frozen=True, kw_only=True, rename={"apply_to": "apply-to"}):
    """A policy, or an operator's."""

    vhost: str
    name: str
    pattern: str
    apply_to: str
    definition: Arguments
    priority: int


class NewPolicy(Asked, frozen=True, kw_only=True, rename={"apply_to": "apply-to"}):
    """A policy that is made, or made so."""

    pattern: str
    definition: Arguments
    priority: int = 0
    apply_to: str = "all"


# -- permissions


class NewPermission(Asked, frozen=True, kw_only=True):
    """What a user is to be allowed in a virtual host: names as regular expressions."""

    configure: str
    write: str
    read: str


class NewTopicPermission(Asked, frozen=True, kw_only=True):
    """Which routing keys a user is to be allowed at an exchange, as regular expressions."""

    exchange: str
    write: str
    read: str


# -- definitions


class DefinedUser(NewUser, frozen=True, kw_only=True):
    """A user of a definitions file."""

    name: str


class DefinedVhost(Asked, frozen=True, kw_only=True):
    """A virtual host of a definitions file."""

    name: str


class DefinedPermission(NewPermission, frozen=True, kw_only=True):
    """A permission, in lists and in a definitions file."""

    user: str
    vhost: str


class DefinedTopicPermission(NewTopicPermission, frozen=True, kw_only=True):
    """A topic permission, in lists and in a definitions file."""

    user: str
    vhost: str


class DefinedPolicy(NewPolicy, frozen=True, kw_only=True, rename={"apply_to": "apply-to"}):
    """A policy of a definitions file. In one of a virtual host, that is said nowhere."""

    vhost: str | msgspec.UnsetType = msgspec.UNSET
    name: str


class DefinedParameter(Asked, frozen=True, kw_only=True):
    """A parameter of a definitions file: RabbitMQ keeps operators' policies there."""

    component: str
    vhost: str | msgspec.UnsetType = msgspec.UNSET
    name: str
    value: AnyJson


class DefinedQueue(NewQueue, frozen=True, kw_only=True):
    """A queue of a definitions file."""

    vhost: str | msgspec.UnsetType = msgspec.UNSET
    name: str


class DefinedExchange(NewExchange, frozen=True, kw_only=True):
    """An exchange of a definitions file."""

    vhost: str | msgspec.UnsetType = msgspec.UNSET
    name: str


class DefinedBinding(NewBinding, frozen=True, kw_only=True):
    """A binding of a definitions file."""

    vhost: str | msgspec.UnsetType = msgspec.UNSET
    source: str
    destination: str
    destination_type: str = "queue"


class Definitions(Asked, frozen=True, kw_only=True):
    """All that can be brought from one cluster to another; messages are not among it."""

    rabbit_version: str = RABBITMQ_VERSION
    rabbitmq_version: str = RABBITMQ_VERSION
    product_name: str = "Kafkaesque"
    product_version: str = ""
    users: list[DefinedUser] = []
    vhosts: list[DefinedVhost] = []
    permissions: list[DefinedPermission] = []
    topic_permissions: list[DefinedTopicPermission] = []
    parameters: list[DefinedParameter] = []
    global_parameters: list[AnyJson] = []
    policies: list[DefinedPolicy] = []
    queues: list[DefinedQueue] = []
    exchanges: list[DefinedExchange] = []
    bindings: list[DefinedBinding] = []
