"""Every metric of `/metrics`: its name, type, labels and meaning; docs/metrics.md is made of it.

Names end in their unit, and counters in `_total`, as Prometheus has it. What stands here once keeps
its name and meaning. Labels take few values: APIs, error codes, brokers; groups and queues up to a
bound, and topics only where they are asked for by name. Clients never are one.
"""

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """Prometheus's types."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric."""

    name: str
    kind: Kind
    doc: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Metrics that belong together."""

    title: str
    metrics: tuple[Metric, ...]


#: Groups with a lag of their own: those that are furthest behind.
GROUPS_MAX = 100
#: Queues with numbers of their own: those whose oldest messages are the oldest.
QUEUES_MAX = 100
#: Queues that one request may ask for by name.
QUEUES_ASKED_MAX = 20
#: Topics that one request may ask for, and partitions of them that are answered.
TOPICS_MAX = 20
PARTITIONS_MAX = 2_000


def _counter(name: str, doc: str, *labels: str) -> Metric:
    return Metric(name=f"kafkaesque_{name}_total", kind=Kind.COUNTER, doc=doc, labels=labels)


def _gauge(name: str, doc: str, *labels: str) -> Metric:
    return Metric(name=f"kafkaesque_{name}", kind=Kind.GAUGE, doc=doc, labels=labels)


def _histogram(name: str, doc: str, *labels: str) -> Metric:
    return Metric(name=f"kafkaesque_{name}", kind=Kind.HISTOGRAM, doc=doc, labels=labels)


BROKER_INFO = _gauge(
    "broker_info",
    "Always 1; the labels identify this broker.",
    "broker",
    "cluster_id",
    "rack",
    "version",
)
BROKER_TIME = _gauge(
    "broker_time_seconds", "The broker's clock, as Unix time, to compare with your own."
)
BROKER_READY = _gauge("broker_ready", "1 if /health/ready answers 200, else 0.")
BROKER_FAILED = _gauge(
    "broker_failed", "1 if the disk has failed and only a restart helps, else 0."
)
PEER_ALIVE = _gauge(
    "peer_alive", "1 for each registered broker that this one hears of, else 0.", "peer"
)
CONTROLLER = _gauge(
    "controller_node", "Id of the broker that leads the controllers; -1 if this broker knows none."
)
METADATA_OFFSET = _gauge(
    "metadata_applied_offset",
    "Offset in the cluster's metadata log up to which this broker has applied it; all brokers "
    "agree, except for moments.",
)

MESSAGES_IN = _counter("messages_in", "Records from producers that were appended here.")
BYTES_IN = _counter("bytes_in", "Bytes of batches from producers that were appended here.")
BYTES_OUT = _counter("bytes_out", "Bytes of batches that consumers fetched from here.")
REQUEST_SECONDS = _histogram(
    "request_seconds",
    "Duration of Kafka requests, from the complete request to the complete response. Includes "
    "waiting for replicas or for new records.",
    "api",
)
PRODUCE_ERRORS = _counter(
    "produce_errors",
    "Partitions in Produce responses that had an error, by the error's name in Kafka.",
    "error",
)
FETCH_ERRORS = _counter(
    "fetch_errors",
    "Partitions in Fetch responses that had an error, by the error's name in Kafka.",
    "error",
)
CONNECTIONS = _gauge("connections", "Open connections to the Kafka port.")
CONNECTIONS_ACCEPTED = _counter("connections_accepted", "Connections that the Kafka port accepted.")
CONNECTIONS_REFUSED = _counter(
    "connections_refused", "Connections closed because of a limit or quota on connections."
)
THROTTLED = _counter(
    "throttled_requests", "Responses that told a client to wait because of its quota."
)
THROTTLE_SECONDS = _counter(
    "throttle_seconds", "Total time that clients were told to wait because of quotas."
)

LISTENER_CONNECTIONS = _gauge(
    "listener_connections", "Open connections to a listener.", "protocol", "listener"
)
LISTENER_ACCEPTED = _counter(
    "listener_connections_accepted", "Connections to a listener.", "protocol", "listener"
)
LISTENER_REFUSED = _counter(
    "listener_connections_refused",
    "Connections to a listener that were closed because of a limit or quota on connections.",
    "protocol",
    "listener",
)
LISTENER_LOGGED_IN = _counter(
    "listener_logins",
    "Log-ins at a listener that succeeded, repeated ones included.",
    "protocol",
    "listener",
)
LISTENER_LOGIN_FAILURES = _counter(
    "listener_login_failures", "Log-ins at a listener that were refused.", "protocol", "listener"
)
LISTENER_WITHOUT_LOGIN = _counter(
    "listener_connections_without_login",
    "Connections that used a listener without a log-in, where access is optional.",
    "protocol",
    "listener",
)
AUDIT_EVENTS = _counter(
    "audit_events", "Log-ins, refusals, changes and uses of keys that were audited.", "kind"
)
AUDIT_DROPPED = _counter(
    "audit_dropped", "Audited events that were lost because too many waited to be written."
)
TRACE_SPANS = _counter("trace_spans", "Spans that were made of traced messages.")
TRACE_SPANS_LOST = _counter(
    "trace_spans_lost", "Spans that the collector did not take, or that had no room."
)
TRACE_BATCHES_SKIPPED = _counter(
    "trace_batches_skipped", "Batches that were not searched for traces, as it would take too long."
)
AUDIT_WAITING = _gauge("audit_waiting", "Audited events that wait to be written.")
LISTENER_REQUESTS = _counter(
    "listener_requests",
    "Requests that were begun: of Kafka's protocol, over HTTP, or lines.",
    "protocol",
    "listener",
)
LISTENER_BYTES_IN = _counter(
    "listener_bytes_in", "Bytes received, whatever they were for.", "protocol", "listener"
)
LISTENER_BYTES_OUT = _counter(
    "listener_bytes_out", "Bytes sent, whatever they were for.", "protocol", "listener"
)

LOG_INS_OPEN = _gauge(
    "logins_open",
    "Open connections that have logged in, by what they have logged in by: a SASL mechanism, "
    "certificate, http-basic or http-bearer.",
    "mechanism",
)
SESSIONS = _gauge(
    "sessions", "Sessions of people that have not ended, in the whole cluster as this broker knows."
)
RULES_AGE = _gauge(
    "rules_age_seconds",
    "Users and rules are at most so old at this broker. Left out where no listener has a log-in.",
)
RULES_STALE = _gauge(
    "rules_stale",
    "1 if users and rules may be older than authorization.stale.ms.max: nobody is let in. Else 0.",
)
KEY_KEEPER = _gauge(
    "key_keeper", "1 if this broker has a key keeper, so that it can seal and open; else 0."
)
KEYS_MISSING = _gauge(
    "topic_keys_missing",
    "Versions of keys of encrypted topics that this broker does not have: it can neither seal nor "
    "open with them.",
)

LEADERS = _gauge("partitions_led", "Partitions that this broker leads.")
REPLICAS = _gauge("replicas", "Partitions of which this broker has a copy, or will have one.")
UNDER_REPLICATED = _gauge(
    "under_replicated_partitions",
    "Partitions led here with replicas that are not in sync. During a move, only the old replicas "
    "count.",
)
UNDER_MIN_ISR = _gauge(
    "under_min_isr_partitions",
    "Partitions led here that refuse acks=all, because fewer than min.insync.replicas are in sync.",
)
LEADERLESS = _gauge(
    "leaderless_partitions",
    "Partitions of the whole cluster without a leader, as far as this broker knows.",
)
FORMING = _gauge(
    "forming_partitions",
    "Partitions of the whole cluster that are being recovered without a majority and wait for "
    "replicas.",
)
UNCLEAN = _gauge(
    "unclean_partitions",
    "Partitions of the whole cluster that ever had an unclean election.",
)
GIVEN_UP = _gauge(
    "given_up_records",
    "Records that unclean elections gave up, as counted when the replicas that had them came back.",
)
OFFLINE_REPLICAS = _gauge(
    "offline_replicas", "Copies here that cannot be opened, because they are damaged."
)
DAMAGED_REPLICAS = _gauge(
    "damaged_replicas",
    "Copies here that still serve, but in which a check found damaged data.",
)
RECOVERING_REPLICAS = _gauge(
    "recovering_replicas",
    "Copies here that are not open yet, or are being copied again from other replicas. Copies "
    "that a move creates do not count.",
)
IN_SYNC_SHRINKS = _counter(
    "isr_shrinks", "Times that a replica of a partition led here fell out of sync."
)
IN_SYNC_EXPANDS = _counter(
    "isr_expands", "Times that a replica of a partition led here came back in sync."
)
ELECTIONS_BEGUN = _counter("elections_begun", "Elections in which this broker was a candidate.")
ELECTIONS_WON = _counter("elections_won", "Elections that this broker has won.")
LEADERSHIPS_LOST = _counter(
    "leaderships_lost", "Times that this broker stopped leading a partition."
)
TRUNCATIONS = _counter(
    "log_truncations", "Times that the end of a log was cut off because the leader's log differs."
)
COMMIT_SECONDS = _histogram(
    "raft_commit_seconds",
    "Time from an append on the leader until it is committed. One append at a time is measured in "
    "each partition.",
)

SYNC_SECONDS = _histogram("wal_sync_seconds", "Duration of syncs of the write-ahead log.")
SYNC_RECORDS = _histogram(
    "wal_sync_records", "Records that one sync of the write-ahead log covers."
)
WAL_BYTES = _counter("wal_bytes", "Bytes written to the write-ahead log.")
CHECKPOINTS = _counter(
    "checkpoints", "Checkpoints made; each lets files of the write-ahead log be reused."
)
CHECKPOINTS_LATE = _counter(
    "checkpoints_late",
    "Times that a file of the write-ahead log was full before the checkpoint was finished.",
)
COLD_READS = _counter("cold_reads", "Reads that had to wait for the disk.")
KEY_INDEXES_BUILT = _counter(
    "key_indexes_built",
    "Indexes of closed segments' keys that were made, for consumers that want few subjects.",
)
RECORDS_PASSED_OVER = _counter(
    "records_passed_over",
    "Records that consumers of few subjects did not have to read because of such indexes.",
)
LOG_BYTES = _gauge("log_bytes", "Bytes in the segments of all partitions here.")
DISK_FREE = _gauge("disk_free_bytes", "Free bytes on the volume of the data directory.")
DISK_TOTAL = _gauge("disk_total_bytes", "Size in bytes of the volume of the data directory.")
APPENDS_REFUSED = _gauge(
    "appends_refused", "1 while the broker refuses appends because its disk is full, else 0."
)
COMPACTIONS = _counter("compactions", "Compactions that were completed.")
COMPACTION_RUNNING = _gauge("compaction_running", "1 while a log is being compacted, else 0.")
SCRUBBED_BYTES = _counter(
    "scrubbed_bytes", "Bytes of closed segments that were compared with their checksums."
)
SCRUB_PASSES = _counter("scrub_passes", "Completed checks of all closed segments.")
RECOVERY_SECONDS = _gauge(
    "recovery_seconds", "How long the broker took to recover its logs at its start."
)

GROUPS = _gauge("groups", "Consumer groups that this broker coordinates.")
GROUP_LAG = _gauge(
    "group_lag_messages",
    "Lag: offsets between the committed ones and the high watermarks, summed over the partitions "
    f"of which this broker has a copy. Only for the {GROUPS_MAX} groups that are furthest behind.",
    "group",
)
GROUP_LAG_UNKNOWN = _gauge(
    "group_partitions_elsewhere",
    "Partitions with committed offsets of which this broker has no copy; "
    "kafkaesque_group_lag_messages does not include them.",
)
TRANSACTIONAL_IDS = _gauge("transactional_ids", "Transactional ids that this broker coordinates.")
TRANSACTIONS_OPEN = _gauge(
    "transactions_open", "Open transactions of the transactional ids that this broker coordinates."
)
TRANSACTION_OLDEST = _gauge(
    "transaction_oldest_seconds",
    "Age of the oldest open transaction that this broker coordinates; 0 if there is none.",
)

QUEUES = _gauge("queues", "Queues of the whole cluster, as this broker knows.")
QUEUES_LED = _gauge(
    "queues_led",
    "Logs of queues that this broker leads. A queue has one, or as many as its option partitions "
    "says; a queue over a topic has as many as the topic.",
)
QUEUES_LEADERLESS = _gauge(
    "queues_leaderless", "Logs of queues of the whole cluster without a leader, as far as known."
)
QUEUES_PLACES = _gauge(
    "queues_messages",
    "Messages of all queues led here, by where they are: ready, delayed, in-flight, parked or "
    "moving.",
    "place",
)
QUEUES_BYTES = _gauge("queues_log_bytes", "Bytes in the logs of all queues led here.")
QUEUES_MEMORY = _gauge(
    "queues_memory_bytes", "Bytes of memory that this broker's transient queues hold."
)
QUEUES_ARRIVED = _counter("queues_arrived", "Messages that came into queues led here.")
QUEUES_ATTEMPTS = _counter(
    "queues_attempts", "Messages that queues led here gave to consumers, again ones included."
)
QUEUES_REDELIVERIES = _counter(
    "queues_redeliveries",
    "Messages that queues led here gave to consumers, not for the first time.",
)
QUEUES_SETTLED = _counter("queues_settled", "Messages that consumers have acknowledged here.")
QUEUES_DEAD_LETTERS = _counter(
    "queues_dead_letters",
    "Messages that queues led here gave up and moved to their dead-letter targets, by why: "
    "expired, too_long, rejected or attempts.",
    "reason",
)
QUEUES_PARKED = _counter(
    "queues_parked",
    "Messages that queues led here gave up and keep, because they have no dead-letter target.",
    "reason",
)
QUEUES_REDRIVEN = _counter("queues_redriven", "Messages that queues led here moved on request.")
QUEUES_DROPPED = _counter(
    "queues_dropped",
    "Messages that are gone from queues led here though nobody has acknowledged them, by why: "
    "expired, too_long, purged, rejected or attempts.",
    "reason",
)

LIVE_SUBSCRIPTIONS = _gauge(
    "live_subscriptions", "Subscriptions of MQTT, NATS and STOMP on this broker that are live."
)
LIVE_PUBLISHED = _counter(
    "live_published", "Messages published through this broker that live subscribers may want."
)
LIVE_GIVEN = _counter("live_given", "Copies of messages given to live subscribers on this broker.")
LIVE_DROPPED = _counter(
    "live_dropped",
    "Messages that live subscribers may have wanted and did not get, because too many waited or a "
    "broker could not be reached.",
)
CLIENT_DROPS = _counter(
    "client_drops",
    "Messages that clients wanted and were not given, because they did not read, or could not take "
    "messages like these.",
    "protocol",
)

_ONE_QUEUE = ("vhost", "queue", "partition")
QUEUE_READY = _gauge("queue_ready_messages", "Messages that can be taken.", *_ONE_QUEUE)
QUEUE_DELAYED = _gauge("queue_delayed_messages", "Messages that wait for their time.", *_ONE_QUEUE)
QUEUE_IN_FLIGHT = _gauge("queue_in_flight_messages", "Messages that consumers have.", *_ONE_QUEUE)
QUEUE_PARKED = _gauge(
    "queue_parked_messages", "Messages that were given up and are kept here.", *_ONE_QUEUE
)
QUEUE_MOVING = _gauge(
    "queue_moving_messages", "Messages on their way to another queue or topic.", *_ONE_QUEUE
)
QUEUE_CONSUMERS = _gauge("queue_consumers", "Consumers that are attached.", *_ONE_QUEUE)
QUEUE_UNWANTED = _gauge(
    "queue_unwanted_seconds",
    "For how long nobody has asked for messages, as far as this leader knows.",
    *_ONE_QUEUE,
)
QUEUE_OLDEST = _gauge(
    "queue_oldest_seconds",
    "Age of the oldest message that is not done with; 0 if there is none.",
    *_ONE_QUEUE,
)
QUEUE_HEAD_FAILURES = _gauge(
    "queue_head_failures", "Attempts at this oldest message that have failed.", *_ONE_QUEUE
)
QUEUE_BYTES = _gauge("queue_log_bytes", "Bytes in the queue's log.", *_ONE_QUEUE)
QUEUE_HOLDER = _gauge(
    "queue_log_holder",
    "Always 1; the label says what the log is kept from: message (the oldest that is not done "
    "with), snapshot (of the queue's state), or nothing.",
    *_ONE_QUEUE,
    "holder",
)
QUEUE_ARRIVED = _counter(
    "queue_arrived", "Messages that have come since the queue was made.", *_ONE_QUEUE
)
QUEUE_REMOVED = _counter(
    "queue_removed",
    "Messages that are gone since the queue was made, by why: settled, expired, too_long, purged, "
    "rejected, attempts or redriven. Dead letters count as gone when their target has them.",
    *_ONE_QUEUE,
    "reason",
)

LOOP_LAG = _histogram(
    "loop_lag_seconds",
    "How late a timer fires, measured four times a second: it shows how busy the event loop is.",
)
RESIDENT_BYTES = Metric(
    name="process_resident_memory_bytes", kind=Kind.GAUGE, doc="Resident memory of the process."
)
CPU_SECONDS = Metric(
    name="process_cpu_seconds_total", kind=Kind.COUNTER, doc="Processor time, user and system."
)
OPEN_FILES = Metric(name="process_open_fds", kind=Kind.GAUGE, doc="Open files and sockets.")
OPEN_FILES_MAX = Metric(
    name="process_max_fds", kind=Kind.GAUGE, doc="Limit on open files and sockets."
)
START_SECONDS = Metric(
    name="process_start_time_seconds",
    kind=Kind.GAUGE,
    doc="When the process started, as Unix time.",
)

PARTITION_START = _gauge(
    "partition_log_start_offset", "The first offset that can be read.", "topic", "partition"
)
PARTITION_END = _gauge(
    "partition_high_watermark", "The offset after the last committed record.", "topic", "partition"
)
PARTITION_BYTES = _gauge(
    "partition_log_bytes", "Bytes in the partition's segments.", "topic", "partition"
)
PARTITION_IN_SYNC = _gauge(
    "partition_in_sync_replicas", "In-sync replicas; only on the leader.", "topic", "partition"
)
PARTITION_EPOCH = _gauge(
    "partition_leader_epoch",
    "The newest leader epoch that this broker knows.",
    "topic",
    "partition",
)

SECTIONS = (
    Section(
        title="The broker",
        metrics=(
            BROKER_INFO,
            BROKER_TIME,
            BROKER_READY,
            BROKER_FAILED,
            PEER_ALIVE,
            CONTROLLER,
            METADATA_OFFSET,
        ),
    ),
    Section(
        title="Clients",
        metrics=(
            MESSAGES_IN,
            BYTES_IN,
            BYTES_OUT,
            REQUEST_SECONDS,
            PRODUCE_ERRORS,
            FETCH_ERRORS,
            CONNECTIONS,
            CONNECTIONS_ACCEPTED,
            CONNECTIONS_REFUSED,
            THROTTLED,
            THROTTLE_SECONDS,
        ),
    ),
    Section(
        title="Listeners",
        metrics=(
            LISTENER_CONNECTIONS,
            LISTENER_ACCEPTED,
            LISTENER_REFUSED,
            LISTENER_LOGGED_IN,
            LISTENER_LOGIN_FAILURES,
            LISTENER_WITHOUT_LOGIN,
            AUDIT_EVENTS,
            AUDIT_DROPPED,
            AUDIT_WAITING,
            TRACE_SPANS,
            TRACE_SPANS_LOST,
            TRACE_BATCHES_SKIPPED,
            LISTENER_REQUESTS,
            LISTENER_BYTES_IN,
            LISTENER_BYTES_OUT,
        ),
    ),
    Section(
        title="Access and keys",
        metrics=(LOG_INS_OPEN, SESSIONS, RULES_AGE, RULES_STALE, KEY_KEEPER, KEYS_MISSING),
    ),
    Section(
        title="Replication",
        metrics=(
            LEADERS,
            REPLICAS,
            UNDER_REPLICATED,
            UNDER_MIN_ISR,
            LEADERLESS,
            FORMING,
            UNCLEAN,
            GIVEN_UP,
            OFFLINE_REPLICAS,
            DAMAGED_REPLICAS,
            RECOVERING_REPLICAS,
            IN_SYNC_SHRINKS,
            IN_SYNC_EXPANDS,
            ELECTIONS_BEGUN,
            ELECTIONS_WON,
            LEADERSHIPS_LOST,
            TRUNCATIONS,
            COMMIT_SECONDS,
        ),
    ),
    Section(
        title="Storage",
        metrics=(
            SYNC_SECONDS,
            SYNC_RECORDS,
            WAL_BYTES,
            CHECKPOINTS,
            CHECKPOINTS_LATE,
            COLD_READS,
            KEY_INDEXES_BUILT,
            RECORDS_PASSED_OVER,
            LOG_BYTES,
            DISK_FREE,
            DISK_TOTAL,
            APPENDS_REFUSED,
            COMPACTIONS,
            COMPACTION_RUNNING,
            SCRUBBED_BYTES,
            SCRUB_PASSES,
            RECOVERY_SECONDS,
        ),
    ),
    Section(
        title="Groups and transactions",
        metrics=(
            GROUPS,
            GROUP_LAG,
            GROUP_LAG_UNKNOWN,
            TRANSACTIONAL_IDS,
            TRANSACTIONS_OPEN,
            TRANSACTION_OLDEST,
        ),
    ),
    Section(
        title="Queues",
        metrics=(
            QUEUES,
            QUEUES_LED,
            QUEUES_LEADERLESS,
            QUEUES_PLACES,
            QUEUES_BYTES,
            QUEUES_MEMORY,
            QUEUES_ARRIVED,
            QUEUES_ATTEMPTS,
            QUEUES_REDELIVERIES,
            QUEUES_SETTLED,
            QUEUES_DEAD_LETTERS,
            QUEUES_PARKED,
            QUEUES_REDRIVEN,
            QUEUES_DROPPED,
        ),
    ),
    Section(
        title="Live messages",
        metrics=(LIVE_SUBSCRIPTIONS, LIVE_PUBLISHED, LIVE_GIVEN, LIVE_DROPPED),
    ),
    Section(
        title="Single queues: those led here with the oldest messages, and requested ones",
        metrics=(
            QUEUE_READY,
            QUEUE_DELAYED,
            QUEUE_IN_FLIGHT,
            QUEUE_PARKED,
            QUEUE_MOVING,
            QUEUE_CONSUMERS,
            QUEUE_UNWANTED,
            QUEUE_OLDEST,
            QUEUE_HEAD_FAILURES,
            QUEUE_BYTES,
            QUEUE_HOLDER,
            QUEUE_ARRIVED,
            QUEUE_REMOVED,
        ),
    ),
    Section(
        title="The process",
        metrics=(
            LOOP_LAG,
            RESIDENT_BYTES,
            CPU_SECONDS,
            OPEN_FILES,
            OPEN_FILES_MAX,
            START_SECONDS,
        ),
    ),
    Section(
        title="Partitions of requested topics",
        metrics=(
            PARTITION_START,
            PARTITION_END,
            PARTITION_BYTES,
            PARTITION_IN_SYNC,
            PARTITION_EPOCH,
        ),
    ),
)
