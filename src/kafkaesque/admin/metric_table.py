"""Every metric of `/metrics`: its name, type, labels and meaning; docs/metrics.md is made of it.

Names end in their unit, and counters in `_total`, as Prometheus has it. What stands here once keeps
its name and meaning. Labels take few values: APIs, error codes, brokers; groups up to a bound, and
topics only where they are asked for by name. Clients never are one.
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
    "1, with who this broker is.",
    "broker",
    "cluster_id",
    "rack",
    "version",
)
BROKER_TIME = _gauge(
    "broker_time_seconds", "The broker's clock: Unix time. Compare it with your own."
)
BROKER_READY = _gauge("broker_ready", "1 if /health/ready says so, else 0.")
BROKER_FAILED = _gauge(
    "broker_failed", "1 if the disk has failed and only a restart helps, else 0."
)
PEER_ALIVE = _gauge(
    "peer_alive", "1 for each registered broker that this one hears of, else 0.", "peer"
)
CONTROLLER = _gauge(
    "controller_node", "Which broker's controller leads, as far as is known; else -1."
)
METADATA_OFFSET = _gauge(
    "metadata_applied_offset",
    "How much of the cluster's metadata this broker has applied; the same on all, but for moments.",
)

MESSAGES_IN = _counter("messages_in", "Records appended here for producers.")
BYTES_IN = _counter("bytes_in", "Bytes of the batches that producers have had appended here.")
BYTES_OUT = _counter("bytes_out", "Bytes of the batches that consumers have fetched from here.")
REQUEST_SECONDS = _histogram(
    "request_seconds",
    "Requests of Kafka's protocol: from the whole request to the whole answer, waiting for "
    "replicas or for new records included.",
    "api",
)
PRODUCE_ERRORS = _counter(
    "produce_errors", "Partitions of Produce answers with an error, by Kafka's name of it.", "error"
)
FETCH_ERRORS = _counter(
    "fetch_errors", "Partitions of Fetch answers with an error, by Kafka's name of it.", "error"
)
CONNECTIONS = _gauge("connections", "Open connections to the Kafka port.")
CONNECTIONS_ACCEPTED = _counter("connections_accepted", "Connections to the Kafka port.")
CONNECTIONS_REFUSED = _counter(
    "connections_refused", "Connections closed because of a limit or quota on connections."
)
THROTTLED = _counter("throttled_requests", "Answers that told a client to wait for its quota.")
THROTTLE_SECONDS = _counter("throttle_seconds", "How long they were told to wait, in all.")

LEADERS = _gauge("partitions_led", "Partitions that this broker leads.")
REPLICAS = _gauge("replicas", "Partitions that this broker has a copy of, or is to have.")
UNDER_REPLICATED = _gauge(
    "under_replicated_partitions",
    "Partitions led here with replicas that are not in sync; while they move, with old ones.",
)
UNDER_MIN_ISR = _gauge(
    "under_min_isr_partitions",
    "Partitions led here that refuse acks=all, for fewer than min.insync.replicas are in sync.",
)
LEADERLESS = _gauge(
    "leaderless_partitions",
    "Partitions of the whole cluster without a leader, as far as this broker knows.",
)
FORMING = _gauge(
    "forming_partitions",
    "Partitions of the whole cluster that are being formed anew and wait for replicas.",
)
UNCLEAN = _gauge(
    "unclean_partitions",
    "Partitions of the whole cluster that an unclean election has ever led to.",
)
GIVEN_UP = _gauge(
    "given_up_records",
    "Records that unclean elections gave up, as far as their replicas have come back.",
)
OFFLINE_REPLICAS = _gauge(
    "offline_replicas", "Copies here that cannot be opened, because they are damaged."
)
DAMAGED_REPLICAS = _gauge(
    "damaged_replicas",
    "Copies here that serve, and of which a part is not what was written, as reading has shown.",
)
RECOVERING_REPLICAS = _gauge(
    "recovering_replicas",
    "Copies here that are not opened yet, or are made anew; those that a move brings aside.",
)
IN_SYNC_SHRINKS = _counter("isr_shrinks", "Replicas that fell out of sync, of partitions led here.")
IN_SYNC_EXPANDS = _counter("isr_expands", "Replicas that came into sync, of partitions led here.")
ELECTIONS_BEGUN = _counter("elections_begun", "Elections in which this broker was a candidate.")
ELECTIONS_WON = _counter("elections_won", "Elections that this broker has won.")
LEADERSHIPS_LOST = _counter("leaderships_lost", "Leaderships that this broker had and has not.")
TRUNCATIONS = _counter("log_truncations", "Ends of logs given up for what another leader had.")
COMMIT_SECONDS = _histogram(
    "raft_commit_seconds",
    "From an append on the leader until it is committed; one at a time in each partition.",
)

SYNC_SECONDS = _histogram("wal_sync_seconds", "Syncs of the write-ahead log.")
SYNC_RECORDS = _histogram("wal_sync_records", "Records of the write-ahead log in one sync.")
WAL_BYTES = _counter("wal_bytes", "Bytes written to the write-ahead log.")
CHECKPOINTS = _counter("checkpoints", "Checkpoints, which let the write-ahead log be reused.")
CHECKPOINTS_LATE = _counter(
    "checkpoints_late", "Files of the write-ahead log full before a checkpoint was done."
)
COLD_READS = _counter("cold_reads", "Reads that had to wait for the disk.")
LOG_BYTES = _gauge("log_bytes", "Bytes of all partitions' segments here.")
DISK_FREE = _gauge("disk_free_bytes", "Bytes that are free on the data directory's volume.")
DISK_TOTAL = _gauge("disk_total_bytes", "Bytes of the data directory's volume.")
APPENDS_REFUSED = _gauge(
    "appends_refused", "1 while nothing is appended, because the disk is too full; else 0."
)
COMPACTIONS = _counter("compactions", "Logs that were compacted to their end.")
COMPACTION_RUNNING = _gauge("compaction_running", "1 while a log is being compacted, else 0.")
SCRUBBED_BYTES = _counter(
    "scrubbed_bytes", "Bytes of closed segments that were compared with their checksums."
)
SCRUB_PASSES = _counter(
    "scrub_passes", "Passes over all closed segments, comparing, that were done to their end."
)
RECOVERY_SECONDS = _gauge(
    "recovery_seconds", "How long the recovery of the logs took at the start."
)

GROUPS = _gauge("groups", "Groups of consumers that this broker coordinates.")
GROUP_LAG = _gauge(
    "group_lag_messages",
    "Offsets from the committed ones to the high watermarks, over the partitions that this broker "
    f"has a copy of; the {GROUPS_MAX} groups that are furthest behind.",
    "group",
)
GROUP_LAG_UNKNOWN = _gauge(
    "group_partitions_elsewhere",
    "Committed partitions that this broker has no copy of: their lag is in nobody's sum here.",
)
TRANSACTIONAL_IDS = _gauge("transactional_ids", "Transactional ids that this broker coordinates.")
TRANSACTIONS_OPEN = _gauge("transactions_open", "Transactions that are open, of those ids.")
TRANSACTION_OLDEST = _gauge(
    "transaction_oldest_seconds", "Age of the oldest of them; 0 if there is none."
)

LOOP_LAG = _histogram(
    "loop_lag_seconds", "How late a timer is, four times a second: how busy the event loop is."
)
RESIDENT_BYTES = Metric(
    name="process_resident_memory_bytes", kind=Kind.GAUGE, doc="Memory that the process has."
)
CPU_SECONDS = Metric(
    name="process_cpu_seconds_total", kind=Kind.COUNTER, doc="Processor time, user and system."
)
OPEN_FILES = Metric(name="process_open_fds", kind=Kind.GAUGE, doc="Open files and sockets.")
OPEN_FILES_MAX = Metric(name="process_max_fds", kind=Kind.GAUGE, doc="How many may be open.")
START_SECONDS = Metric(
    name="process_start_time_seconds", kind=Kind.GAUGE, doc="When the process began: Unix time."
)

PARTITION_START = _gauge(
    "partition_log_start_offset", "The first offset that can be read.", "topic", "partition"
)
PARTITION_END = _gauge(
    "partition_high_watermark", "The offset after the last committed record.", "topic", "partition"
)
PARTITION_BYTES = _gauge("partition_log_bytes", "Bytes of its segments.", "topic", "partition")
PARTITION_IN_SYNC = _gauge(
    "partition_in_sync_replicas", "Replicas in sync; only on the leader.", "topic", "partition"
)
PARTITION_EPOCH = _gauge("partition_leader_epoch", "The newest known term.", "topic", "partition")

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
        title="Partitions of topics that are asked for",
        metrics=(
            PARTITION_START,
            PARTITION_END,
            PARTITION_BYTES,
            PARTITION_IN_SYNC,
            PARTITION_EPOCH,
        ),
    ),
)
