"""Options of Apache Kafka that Kafkaesque does not have, each with why, or with what there is.

Who asks for one has not mistyped it: it is refused by its name, and not as unknown.
"""

from collections.abc import Mapping
from typing import Final

_SYNCED: Final = (
    "a write is synced before it is acknowledged; write.caching=true acknowledges it before"
)
_TIERED: Final = "there is no tiered storage"
_THROTTLED: Final = "the rate of copies is looked at all the time"
_ADDRESS: Final = "host, kafka.port and advertised.host stand in the file's [broker]"
_ZOOKEEPER: Final = "there is no ZooKeeper"
_RAFT: Final = "[controllers] of the file and kafkaesque cluster controllers say who votes"
_THREADS: Final = "a broker has one event loop, and a few threads that are not to be counted"
_INDEX: Final = "index files grow with their segments"
_SHUTDOWN: Final = "a broker that is stopped always hands its partitions over"
_QUOTA_WINDOWS: Final = "quotas look back on 11 windows of a second, Kafka's defaults"
_PUSHED: Final = "leaders send to followers, and followers fetch nothing"
_TIMESTAMPS: Final = "timestamps are not compared with the clock"
_HEARTBEATS: Final = "brokers watch each other"
_PURGATORY: Final = "requests that wait are woken, and those that are over are not kept"

_ABSENT_TOPIC: Final[Mapping[str, str]] = {
    "file.delete.delay.ms": "files are deleted when nobody reads them any more",
    "flush.messages": _SYNCED,
    "flush.ms": _SYNCED,
    "local.retention.bytes": _TIERED,
    "local.retention.ms": _TIERED,
    "message.downconversion.enable": "batches are handed out as they were written",
    "message.format.version": "there is one format, Kafka's newest",
    "message.timestamp.after.max.ms": _TIMESTAMPS,
    "message.timestamp.before.max.ms": _TIMESTAMPS,
    "message.timestamp.difference.max.ms": _TIMESTAMPS,
    "preallocate": "segment files are never preallocated",
    "remote.log.copy.disable": _TIERED,
    "remote.log.delete.on.disable": _TIERED,
    "remote.storage.enable": _TIERED,
    "segment.index.bytes": _INDEX,
    "segment.jitter.ms": "segments are closed at their age",
}

_ABSENT_BROKER: Final[Mapping[str, str]] = {
    "broker.heartbeat.interval.ms": _HEARTBEATS,
    "broker.id.generation.enable": "it is id in the file's [broker]",
    "controlled.shutdown.max.retries": _SHUTDOWN,
    "controlled.shutdown.retry.backoff.ms": _SHUTDOWN,
    "fetch.max.bytes": "an answer has up to 55 MiB and one batch",
    "fetch.purgatory.purge.interval.requests": _PURGATORY,
    "log.cleaner.io.buffer.load.factor": "see log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.buffer.size": "see log.cleaner.dedupe.buffer.size",
    "log.message.downconversion.enable": "batches are handed out as they were written",
    "log.message.format.version": "there is one format, Kafka's newest",
    "log.message.timestamp.difference.max.ms": _TIMESTAMPS,
    "max.incremental.fetch.session.cache.slots": "the number of fetch sessions is fixed",
    "max.request.partition.size.limit": "a topic has up to 100,000 partitions",
    "num.replica.alter.log.dirs.threads": "a broker has one data directory",
    "offsets.load.buffer.size": "logs are read back in steps of a fixed size",
    "offsets.topic.compression.codec": "that topic is not compressed",
    "producer.purgatory.purge.interval.requests": _PURGATORY,
    "reserved.broker.max.id": "it is id in the file's [broker]",
    "transaction.state.log.load.buffer.size": "logs are read back in steps of a fixed size",
    "transaction.state.log.min.isr": "transactions are committed by the majority",
    "advertised.listeners": _ADDRESS,
    "allow.everyone.if.no.acl.found": "there are no access control lists",
    "authorizer.class.name": "there are no access control lists",
    "background.threads": _THREADS,
    "broker.id": "it is id in the file's [broker]",
    "broker.rack": "it is rack in the file's [broker]",
    "client.quota.callback.class": "quotas are not computed by plugins",
    "control.plane.listener.name": _ADDRESS,
    "controlled.shutdown.enable": _SHUTDOWN,
    "controller.listener.names": _ADDRESS,
    "controller.quorum.bootstrap.servers": _RAFT,
    "controller.quorum.voters": _RAFT,
    "create.topic.policy.class.name": "there are no policies",
    "alter.config.policy.class.name": "there are no policies",
    "delete.topic.enable": "topics can be deleted",
    "group.coordinator.threads": _THREADS,
    "inter.broker.listener.name": _ADDRESS,
    "inter.broker.protocol.version": "brokers of one release speak one protocol",
    "leader.imbalance.per.broker.percentage": "any imbalance is taken back",
    "listeners": _ADDRESS,
    "listener.security.protocol.map": _ADDRESS,
    "log.cleaner.threads": _THREADS,
    "log.dir": "it is data in the file's [broker]",
    "log.dirs": "a broker has one data directory: data in the file's [broker]",
    "log.flush.interval.messages": _SYNCED,
    "log.flush.interval.ms": _SYNCED,
    "log.flush.scheduler.interval.ms": _SYNCED,
    "log.index.interval.bytes": "it is the topic option index.interval.bytes",
    "log.index.size.max.bytes": _INDEX,
    "log.message.timestamp.after.max.ms": _TIMESTAMPS,
    "log.message.timestamp.before.max.ms": _TIMESTAMPS,
    "log.preallocate": "segment files are never preallocated",
    "log.retention.hours": "it is log.retention.ms, in milliseconds",
    "log.retention.minutes": "it is log.retention.ms, in milliseconds",
    "log.roll.hours": "it is log.roll.ms, in milliseconds",
    "log.roll.jitter.hours": "segments are closed at their age",
    "log.roll.jitter.ms": "segments are closed at their age",
    "log.segment.delete.delay.ms": "files are deleted when nobody reads them any more",
    "max.connection.creation.rate": "addresses have the quota connection_creation_rate",
    "max.connections.per.ip.overrides": "all addresses have the limit max.connections.per.ip",
    "metadata.log.dir": "it is kept in the data directory",
    "metric.reporters": "there are no plugins for metrics",
    "node.id": "it is id in the file's [broker]",
    "num.io.threads": _THREADS,
    "num.network.threads": _THREADS,
    "num.recovery.threads.per.data.dir": _THREADS,
    "num.replica.fetchers": _THREADS,
    "offsets.commit.required.acks": "offsets are committed by the majority",
    "offsets.commit.timeout.ms": "clients say how long they wait",
    "process.roles": "every broker serves clients; see kafkaesque cluster controllers",
    "queued.max.requests": "requests are bounded for each connection",
    "quota.window.num": _QUOTA_WINDOWS,
    "quota.window.size.seconds": _QUOTA_WINDOWS,
    "request.timeout.ms": "clients say how long they wait",
    "socket.receive.buffer.bytes": "the system chooses it",
    "socket.request.max.bytes": "a request has up to 100 MiB",
    "socket.send.buffer.bytes": "the system chooses it",
    "unclean.leader.election.interval.ms": "it takes place when it has to",
    "zookeeper.connect": _ZOOKEEPER,
}

#: Broker options that come in families; the first part of the name is enough.
_ABSENT_FAMILIES: Final[Mapping[str, str]] = {
    "remote.log.": _TIERED,
    "zookeeper.": _ZOOKEEPER,
    "alter.log.dirs.replication.quota.": "a broker has one data directory",
    "controller.quorum.": _RAFT,
    "controller.quota.": _QUOTA_WINDOWS,
    "kafka.metrics.": "there are no plugins for metrics",
    "log.local.retention.": _TIERED,
    "replica.fetch.": _PUSHED,
    "replica.socket.": _PUSHED,
    "replication.quota.": _THROTTLED,
    "metadata.log.": "metadata are kept as the controllers' log, with snapshots",
    "metrics.": "there are no plugins for metrics",
}


def absent_options() -> list[tuple[str, str, str]]:
    """Return what they belong to, their names and the reasons; a family's name ends with `*`."""
    found = [("topic", name, why) for name, why in sorted(_ABSENT_TOPIC.items())]
    brokers = {**_ABSENT_BROKER, **{f"{start}*": why for start, why in _ABSENT_FAMILIES.items()}}
    return found + [("broker", name, why) for name, why in sorted(brokers.items())]


def absent_topic_option(name: str) -> str | None:
    """Return why there is no such topic option, if it is one of Kafka's."""
    return _ABSENT_TOPIC.get(name)


def absent_broker_option(name: str) -> str | None:
    """Return why there is no such broker option, if it is one of Kafka's."""
    reason = _ABSENT_BROKER.get(name)
    if reason is None:
        for start, said in _ABSENT_FAMILIES.items():
            if name.startswith(start):
                return said
    return reason
