"""Broker options of Kafka's that a broker here takes, for files and tools that set them.

Most have nothing to do here, and say so. Where a value would promise what is not there, only the
one that is true is allowed. See `options.tables`; what is refused altogether stands in
`options.absent`.
"""

from collections.abc import Iterable
from typing import Final

from kafkaesque.model.options import INT32_MAX, INT64_MAX, Option, OptionType, OptionValue

BOOLEAN: Final = OptionType.BOOLEAN
DOUBLE: Final = OptionType.DOUBLE
INT: Final = OptionType.INT
LIST: Final = OptionType.LIST
LONG: Final = OptionType.LONG
STRING: Final = OptionType.STRING

_MAXIMUM: Final = {INT: INT32_MAX, LONG: INT64_MAX, DOUBLE: None}
_MIB: Final = 1024**2
_DAY_MS: Final = 24 * 60 * 60 * 1000

_THREADS: Final = "a broker has one event loop, and a few threads that are not to be counted"
_SHUTDOWN: Final = "a broker that is stopped always hands its partitions over"
_PUSHED: Final = "leaders send to followers, and followers fetch nothing"
_PURGATORY: Final = "requests that wait are woken, and those that are over are not kept"
_SYSTEM: Final = "the system chooses it"
_CLIENTS: Final = "clients say how long they wait"
_CHECKPOINTS: Final = "checkpoints come with the files of the write-ahead log"
_METADATA: Final = "metadata are kept as the controllers' log, with snapshots"
_RAFT: Final = "controllers are voters of a Raft group with timings of its own"
_WINDOWS: Final = "quotas look back on 11 windows of a second, Kafka's defaults"
_METRICS: Final = "metrics are read at the admin port"
_PLUGINS: Final = "there are no plugins"
_ASSIGNMENT: Final = "what members have is computed anew with what changes it, on the loop"
_TIERED: Final = "there is no tiered storage"
_STEPS: Final = "logs are read back in steps of a fixed size"
_CLEANER: Final = "see log.cleaner.dedupe.buffer.size"


def _taken(
    name: str,
    type_: OptionType,
    default: OptionValue,
    why: str,
    minimum: float | None = None,
    *,
    dynamic: bool = False,
    is_unset: bool = False,
) -> Option:
    """Return an option without effect; without a minimum it may be anything of its type."""
    is_number = type_ in _MAXIMUM
    least = {INT: -INT32_MAX - 1, LONG: -INT64_MAX - 1}.get(type_)
    return Option(
        name=name,
        type=type_,
        default=default,
        minimum=least if minimum is None else minimum,
        maximum=_MAXIMUM[type_] if is_number else None,
        dynamic=dynamic,
        is_unset=is_unset,
        doc=f"Taken for Kafka's tools and files, and without effect: {why}.",
    )


def _only(name: str, type_: OptionType, value: OptionValue, why: str) -> Option:
    """Return an option that has one value, which is what there is."""
    is_text = isinstance(value, str | bool)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return Option(
        name=name,
        type=type_,
        default=value,
        minimum=None if is_text else float(value),
        maximum=None if is_text else float(value),
        choices=(text,) if is_text else (),
        dynamic=False,
        why=why,
        doc=f"Taken for Kafka's tools and files where it says what there is: {why}.",
    )


def _each(names: Iterable[str], prefix: str, type_: OptionType, why: str) -> tuple[Option, ...]:
    """Return options without effect, each given as its name's end, its default and its minimum."""
    found = []
    for line in names:
        name, default, minimum = line.split()
        value: OptionValue = float(default) if type_ is DOUBLE else int(default)
        least = None if minimum == "any" else float(minimum)
        found.append(_taken(prefix + name, type_, value, why, least))
    return tuple(found)


HONOURED_OPTIONS = (
    Option(
        name="authorization.stale.ms.max",
        type=LONG,
        default=60_000,
        minimum=1_000,
        maximum=INT64_MAX,
        dynamic=False,
        doc="How old the rules may be by which a broker lets clients in. One that has heard of no "
        "controller for longer admits nobody, and closes the connections of those who have logged "
        "in. Without a listener that asks for a log-in it means nothing. See "
        "[Security](security.md).",
    ),
    Option(
        name="delegation.token.expiry.time.ms",
        type=LONG,
        default=24 * 60 * 60 * 1000,
        minimum=1,
        maximum=2**53,
        dynamic=False,
        doc="A delegation token ends after this, unless it is renewed.",
    ),
    Option(
        name="delegation.token.max.lifetime.ms",
        type=LONG,
        default=7 * 24 * 60 * 60 * 1000,
        minimum=1,
        maximum=2**53,
        dynamic=False,
        doc="A delegation token ends after this in any case.",
    ),
    Option(
        name="delete.topic.enable",
        type=BOOLEAN,
        default=True,
        dynamic=False,
        doc="Whether topics can be deleted.",
    ),
    Option(
        name="fetch.max.bytes",
        type=INT,
        default=55 * _MIB,
        minimum=1024,
        maximum=INT32_MAX,
        dynamic=False,
        doc="An answer to a consumer has so much, or one batch.",
    ),
    Option(
        name="max.incremental.fetch.session.cache.slots",
        type=INT,
        default=1000,
        minimum=0,
        maximum=INT32_MAX,
        dynamic=False,
        doc="Fetch sessions of one broker; other clients are answered without one.",
    ),
    Option(
        name="max.request.partition.size.limit",
        type=INT,
        default=2000,
        minimum=1,
        maximum=INT32_MAX,
        dynamic=False,
        doc="Partitions in one answer to DescribeTopicPartitions.",
    ),
    Option(
        name="socket.request.max.bytes",
        type=INT,
        default=100 * _MIB,
        minimum=1,
        maximum=INT32_MAX,
        dynamic=False,
        doc="The longest request; a client that announces a longer one is disconnected.",
    ),
)

_THREAD_OPTIONS = (
    _taken("num.io.threads", INT, 8, _THREADS, 1, dynamic=True),
    _taken("num.network.threads", INT, 3, _THREADS, 1, dynamic=True),
    _taken("background.threads", INT, 10, _THREADS, 1, dynamic=True),
    _taken("num.recovery.threads.per.data.dir", INT, 2, _THREADS, 1, dynamic=True),
    _taken("num.replica.fetchers", INT, 1, _THREADS, 1, dynamic=True),
    _taken("num.replica.alter.log.dirs.threads", INT, 1, _THREADS, is_unset=True),
    _taken("log.cleaner.threads", INT, 1, _THREADS, 1, dynamic=True),
    _taken("group.coordinator.threads", INT, 4, _THREADS, 1),
)

_NETWORK_OPTIONS = (
    *_each(
        ("send.buffer.bytes 102400 any", "receive.buffer.bytes 102400 any"),
        "socket.",
        INT,
        _SYSTEM,
    ),
    _taken("socket.listen.backlog.size", INT, 50, "it is Python's default", 1),
    _taken("socket.connection.setup.timeout.ms", LONG, 10_000, "brokers have a time of their own"),
    _taken(
        "socket.connection.setup.timeout.max.ms", LONG, 30_000, "brokers have a time of their own"
    ),
    _taken("request.timeout.ms", INT, 30_000, _CLIENTS),
    _taken("queued.max.requests", INT, 500, "requests are bounded for each connection", 1),
    _taken("queued.max.request.bytes", LONG, -1, "requests are bounded for each connection"),
    _only(
        "max.connection.creation.rate",
        INT,
        INT32_MAX,
        "addresses have the quota connection_creation_rate",
    ),
    _only(
        "max.connections.per.ip.overrides",
        STRING,
        "",
        "all addresses have the limit max.connections.per.ip",
    ),
    _taken("connection.failed.authentication.delay.ms", INT, 100, "nobody authenticates", 0),
    _taken("connections.max.reauth.ms", LONG, 0, "nobody authenticates"),
)

_REPLICATION_OPTIONS = (
    *_each(
        (
            "max.bytes 1048576 0",
            "wait.max.ms 500 any",
            "min.bytes 1 any",
            "backoff.ms 1000 0",
            "response.max.bytes 10485760 0",
        ),
        "replica.fetch.",
        INT,
        _PUSHED,
    ),
    *_each(
        ("timeout.ms 30000 any", "receive.buffer.bytes 65536 any"), "replica.socket.", INT, _PUSHED
    ),
    _taken("replica.high.watermark.checkpoint.interval.ms", LONG, 5000, _CHECKPOINTS),
    *_each(
        (
            "fetch.purgatory.purge.interval.requests 1000 any",
            "producer.purgatory.purge.interval.requests 1000 any",
            "delete.records.purgatory.purge.interval.requests 1 any",
        ),
        "",
        INT,
        _PURGATORY,
    ),
    _taken("leader.imbalance.per.broker.percentage", INT, 10, "any imbalance is taken back"),
    _only(
        "security.inter.broker.protocol",
        STRING,
        "PLAINTEXT",
        "[tls] in the file says whether brokers speak TLS",
    ),
    _taken("controlled.shutdown.enable", BOOLEAN, True, _SHUTDOWN),
    _taken("controlled.shutdown.max.retries", INT, 3, _SHUTDOWN),
    _taken("controlled.shutdown.retry.backoff.ms", LONG, 5000, _SHUTDOWN),
)

_LOG_OPTIONS = (
    *_each(
        (
            "offset.checkpoint.interval.ms 60000 0",
            "start.offset.checkpoint.interval.ms 60000 0",
        ),
        "log.flush.",
        INT,
        _CHECKPOINTS,
    ),
    _taken(
        "log.dir.failure.timeout.ms", LONG, 30_000, "a broker whose disk fails says so at once", 1
    ),
    _taken("log.cleaner.io.buffer.size", INT, 512 * 1024, _CLEANER, 0, dynamic=True),
    _taken("log.cleaner.io.buffer.load.factor", DOUBLE, 0.9, _CLEANER, 0, dynamic=True),
    _only("remote.log.storage.system.enable", BOOLEAN, False, _TIERED),
)

_CONTROLLER_OPTIONS = (
    *_each(
        (
            "initial.broker.registration.timeout.ms 60000 any",
            "broker.heartbeat.interval.ms 2000 any",
        ),
        "",
        INT,
        "brokers watch each other",
    ),
    *_each(
        (
            "election.timeout.ms 1000 any",
            "election.backoff.max.ms 1000 any",
            "fetch.timeout.ms 2000 any",
            "request.timeout.ms 2000 any",
            "retry.backoff.ms 20 any",
            "append.linger.ms 25 0",
        ),
        "controller.quorum.",
        INT,
        _RAFT,
    ),
    _only(
        "controller.quorum.auto.join.enable",
        BOOLEAN,
        False,
        "see kafkaesque cluster controllers",
    ),
    *_each(
        (
            "log.max.record.bytes.between.snapshots 20971520 1",
            "log.max.snapshot.interval.ms 3600000 0",
            "log.segment.ms 604800000 any",
            "max.retention.bytes 104857600 any",
            "max.retention.ms 604800000 any",
        ),
        "metadata.",
        LONG,
        _METADATA,
    ),
    *_each(
        ("log.segment.bytes 1073741824 8388608", "max.idle.interval.ms 500 0"),
        "metadata.",
        INT,
        _METADATA,
    ),
)

_COORDINATOR_OPTIONS = (
    _taken("offsets.load.buffer.size", INT, 5 * _MIB, _STEPS, 1),
    _taken("transaction.state.log.load.buffer.size", INT, 5 * _MIB, _STEPS, 1),
    _only("offsets.topic.compression.codec", INT, 0, "that topic is not compressed"),
    _taken("offsets.commit.timeout.ms", INT, 5000, _CLIENTS, 1),
    _taken(
        "offsets.retention.check.interval.ms",
        LONG,
        600_000,
        "each offset is forgotten in its own time",
        1,
    ),
    _taken(
        "transaction.state.log.min.isr", INT, 2, "transactions are committed by the majority", 1
    ),
    _taken(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10_000,
        "each transaction is aborted in its own time",
        1,
    ),
    _taken(
        "producer.id.expiration.check.interval.ms",
        INT,
        600_000,
        "they are looked for with old segments",
        1,
    ),
    _only(
        "transaction.partition.verification.enable",
        BOOLEAN,
        True,
        "batches of transactions are always verified",
    ),
    _only("transaction.two.phase.commit.enable", BOOLEAN, False, "a transaction has a timeout"),
    _taken("group.coordinator.append.linger.ms", INT, -1, "writes of one turn go together", -1),
    _taken(
        "group.coordinator.cached.buffer.max.bytes",
        INT,
        _MIB + 12,
        "buffers are not kept for reuse",
        1,
    ),
    _taken("group.consumer.assignment.interval.ms", INT, 1000, _ASSIGNMENT, 0),
    _taken("group.consumer.min.assignment.interval.ms", INT, 0, _ASSIGNMENT, 0),
    _taken("group.consumer.max.assignment.interval.ms", INT, 15_000, _ASSIGNMENT, 0),
    _taken("group.consumer.assignor.offload.enable", BOOLEAN, True, _ASSIGNMENT),
    _taken(
        "group.consumer.regex.refresh.interval.ms",
        INT,
        600_000,
        "patterns are matched anew as soon as topics change",
        10_000,
    ),
)

_QUOTA_OPTIONS = tuple(
    _only(name, INT, value, _WINDOWS)
    for kind in ("", "controller.", "replication.", "alter.log.dirs.replication.")
    for name, value in (
        (f"{kind}quota.window.num", 11),
        (f"{kind}quota.window.size.seconds", 1),
    )
)

_METRIC_OPTIONS = (
    _taken("metrics.num.samples", INT, 2, _METRICS, 1),
    _taken("metrics.sample.window.ms", LONG, 30_000, _METRICS, 1),
    _taken("metrics.recording.level", STRING, "INFO", _METRICS),
    _taken("kafka.metrics.polling.interval.secs", INT, 10, _METRICS, 1),
    _taken("telemetry.max.bytes", INT, _MIB, "clients are not asked for their metrics", 1),
)

_PLUGIN_OPTIONS = tuple(
    _only(name, type_, "", _PLUGINS)
    for name, type_ in (
        ("authorizer.class.name", STRING),
        ("create.topic.policy.class.name", STRING),
        ("alter.config.policy.class.name", STRING),
        ("client.quota.callback.class", STRING),
        ("metric.reporters", LIST),
        ("kafka.metrics.reporters", LIST),
    )
)

KAFKA_OPTIONS = (
    *HONOURED_OPTIONS,
    *_THREAD_OPTIONS,
    *_NETWORK_OPTIONS,
    *_REPLICATION_OPTIONS,
    *_LOG_OPTIONS,
    *_CONTROLLER_OPTIONS,
    *_COORDINATOR_OPTIONS,
    *_QUOTA_OPTIONS,
    *_METRIC_OPTIONS,
    *_PLUGIN_OPTIONS,
)
