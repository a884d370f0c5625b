"""What the API answers; the OpenAPI document and the console's types are made of these.

Times are Unix times in milliseconds, sizes are bytes. What is not known is null.
"""

import msgspec


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why something was not done."""

    status: int
    #: The kind, for programs.
    error: str
    #: One sentence, for people.
    message: str


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that had a part in an answer, or why its part is missing."""

    broker: int
    #: When its part was true, by its own clock; null where it is missing.
    as_of: int | None = None
    missing: str | None = None


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What every answer says of itself."""

    #: By the clock of the broker that answers, which has merged the parts.
    as_of: int
    seen_by: int
    sources: list[Origin] = []


class Listing(View, frozen=True, kw_only=True):
    """A page of a list."""

    #: Of all items that fit, on whatever page.
    total: int
    #: To be given as `after` for the next page; null on the last one.
    next: str | None = None


# -- the cluster


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Of the last seconds, per second."""

    messages_in: float
    bytes_in: float
    bytes_out: float
    requests: float


class BrokerState(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker knows of itself."""

    version: str
    is_ready: bool
    #: Why it is not ready, one sentence each.
    reasons: list[str]
    has_failed: bool
    started_at: int | None
    partitions_led: int
    replicas: int
    under_replicated: int
    under_min_isr: int
    damaged_replicas: int
    recovering_replicas: int
    log_bytes: int
    disk_free_bytes: int | None
    disk_total_bytes: int | None
    refuses_appends: bool
    connections: int
    groups: int
    transactions_open: int
    resident_bytes: int | None
    cpu_seconds: float
    open_files: int | None
    open_files_max: int
    metadata_offset: int
    clock: int
    rates: Rates


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A listener as it is told to clients."""

    name: str
    protocol: str
    address: str


class Broker(msgspec.Struct, frozen=True, kw_only=True):
    """A registered broker."""

    id: int
    #: Whether the broker that answers hears of it, and if not, since how many ms.
    is_alive: bool
    lost_ms: int | None
    rack: str | None
    peer_address: str
    endpoints: list[Endpoint]
    is_controller: bool
    leads_controllers: bool
    #: Null where it could not be asked; `sources` says why.
    state: BrokerState | None = None


class BrokerList(Listing, frozen=True, kw_only=True):
    """Registered brokers, up or not."""

    items: list[Broker]


class BrokerView(View, frozen=True, kw_only=True):
    """One broker."""

    broker: Broker


class ClusterView(View, frozen=True, kw_only=True):
    """A whole cluster in few numbers; those of brokers that are missing are not in the sums."""

    cluster_id: str
    version: str
    controller: int | None
    controllers: list[int]
    brokers: int
    brokers_alive: int
    topics: int
    partitions: int
    #: Of the metadata, which every broker has.
    leaderless: int
    moving: int
    recovering: int
    #: Sums over the brokers that have answered.
    under_replicated: int
    under_min_isr: int
    log_bytes: int
    connections: int
    groups: int
    transactions_open: int
    rates: Rates


# -- topics


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic in a list."""

    name: str
    id: str
    is_internal: bool
    created_at: int | None
    partitions: int
    replication_factor: int
    leaderless: int
    #: Sums over the partitions whose leaders have answered; null where none has.
    messages: int | None
    bytes: int | None
    under_replicated: int | None
    #: Sum of the ends of its partitions: it grows by one with each record.
    offsets: int | None
    #: Partitions whose leaders have not answered.
    unknown: int


class TopicList(Listing, frozen=True, kw_only=True):
    """Topics."""

    items: list[Topic]


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition; from `start_offset` on its leader has said it."""

    partition: int
    leader: int | None
    epoch: int | None
    replicas: list[int]
    adding: list[int]
    removing: list[int]
    #: Why and since when it is being recovered, if it is.
    is_recovering: bool
    start_offset: int | None = None
    end_offset: int | None = None
    stable_offset: int | None = None
    in_sync: list[int] | None = None
    bytes: int | None = None


class TopicView(View, frozen=True, kw_only=True):
    """One topic."""

    topic: Topic
    min_in_sync: int
    #: A page of them: see `after` and `limit`.
    partitions: list[Partition]
    next: str | None = None


class TopicOption(msgspec.Struct, frozen=True, kw_only=True):
    """An option of a topic that is in force."""

    name: str
    value: str
    default: str
    #: Whether the topic has it of its own.
    is_own: bool
    allowed: str
    doc: str


class TopicOptions(View, frozen=True, kw_only=True):
    """All options of a topic."""

    topic: str
    options: list[TopicOption]


class TopicGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group that has committed offsets in a topic."""

    group: str
    state: str
    partitions: int
    lag: int
    #: Partitions of which the coordinator has no copy, so that their lag is not in the sum.
    unknown: int
    coordinator: int


class TopicGroups(Listing, frozen=True, kw_only=True):
    """Groups that consume a topic."""

    items: list[TopicGroup]


# -- groups


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A group in a list."""

    group: str
    state: str
    #: `classic` or `consumer`.
    kind: str
    protocol_type: str
    coordinator: int
    topics: int
    lag: int
    #: Partitions of which the coordinator has no copy, so that their lag is not in the sum.
    unknown: int


class GroupList(Listing, frozen=True, kw_only=True):
    """Groups."""

    items: list[Group]


class TopicPartitions(msgspec.Struct, frozen=True, kw_only=True):
    """Partitions of one topic."""

    topic: str
    partitions: list[int]


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a group."""

    member: str
    instance: str | None
    client_id: str
    host: str
    assignment: list[TopicPartitions]


class GroupOffset(msgspec.Struct, frozen=True, kw_only=True):
    """What a group has committed in one partition."""

    topic: str
    partition: int
    committed: int
    metadata: str
    committed_at: int | None
    #: Null where the partition's leader has not answered.
    end_offset: int | None
    lag: int | None
    #: Who has it, if somebody has.
    member: str | None


class GroupView(View, frozen=True, kw_only=True):
    """One group."""

    group: str
    state: str
    kind: str
    protocol_type: str
    protocol: str
    coordinator: int
    members: list[Member]
    offsets: list[GroupOffset]
    lag: int
    unknown: int


# -- connections, listeners


class Connected(msgspec.Struct, frozen=True, kw_only=True):
    """A client's connection."""

    broker: int
    #: Of all connections of the broker since its start.
    number: int
    protocol: str
    listener: str
    peer: str
    host: str
    user: str
    #: What the client calls itself: client id, name of the connection, or user agent.
    client_id: str = ""
    opened_at: int | None = None
    bytes_in: int
    bytes_out: int
    #: Bytes a second since the connections were last looked at; null the first time.
    rate_in: float | None = None
    rate_out: float | None = None
    unsent_bytes: int
    idle_ms: int
    is_throttled: bool


class ConnectionList(Listing, frozen=True, kw_only=True):
    """Clients' connections."""

    items: list[Connected]


class ListenerState(msgspec.Struct, frozen=True, kw_only=True):
    """A listener and what it has done since its broker's start."""

    broker: int
    name: str
    protocol: str
    address: str | None
    connections: int
    accepted: int
    refused: int
    requests: int
    bytes_in: int
    bytes_out: int


class ListenerList(Listing, frozen=True, kw_only=True):
    """Listeners."""

    items: list[ListenerState]


# -- controllers, transactions, doctor


class Controller(msgspec.Struct, frozen=True, kw_only=True):
    """A broker's copy of the metadata log."""

    broker: int
    is_voter: bool
    is_alive: bool
    leads: bool
    #: As the leading controller says; null while none leads.
    end_offset: int | None
    has_all: bool | None


class ControllersView(View, frozen=True, kw_only=True):
    """Who decides on metadata."""

    leader: int | None
    term: int | None
    high_watermark: int | None
    #: Why the leading one could not be asked.
    missing: str | None
    controllers: list[Controller]


class Transaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transactional id."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    since: int | None
    coordinator: int
    partitions: list[TopicPartitions]


class TransactionList(Listing, frozen=True, kw_only=True):
    """Transactional ids."""

    items: list[Transaction]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong; the names of checks are those of `kafkaesque doctor`."""

    check: str
    #: `critical` or `warning`.
    severity: str
    what: str
    cause: str
    #: What helps, to be typed.
    command: str
    names: list[str]


class DoctorView(View, frozen=True, kw_only=True):
    """What is wrong, as far as brokers know it themselves."""

    findings: list[Finding]


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    """A version of the key of an encrypted topic or queue, as it is wrapped."""

    #: Empty where it is a queue's.
    topic: str
    #: Empty where it is a topic's.
    queue: str = ""
    #: The queue's virtual host.
    vhost: str = ""
    version: int
    #: Whether it seals new batches.
    seals: bool
    #: Which keeper has wrapped it, and with which key of its own.
    keeper: str
    keeper_key: str
    #: Whether the broker that answers has it unwrapped.
    is_here: bool


class KeyList(View, frozen=True, kw_only=True):
    """All versions of all keys, by topic and version, then by queue and version."""

    keys: list[KeyView]
