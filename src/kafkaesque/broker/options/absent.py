"""Options of Apache Kafka that Kafkaesque does not have, each with why, or with what there is.

Who asks for one has not mistyped it: it is refused by its name, and not as unknown.
"""

from collections.abc import Mapping
from typing import Final

_TIERED: Final = "there is no tiered storage"
_ADDRESS: Final = (
    "the file has [[listener]] tables, and host, kafka.port and advertised.host in [broker]"
)
_ZOOKEEPER: Final = "there is no ZooKeeper"
_RAFT: Final = "[controllers] of the file and kafkaesque cluster controllers say who votes"
_TIMESTAMPS: Final = "see message.timestamp.before.max.ms and message.timestamp.after.max.ms"
_SASL: Final = "access and sasl.mechanisms of the file's [[listener]] say it"
_OAUTH: Final = "sasl.oauthbearer keys in the file's [broker] say it"
_TLS: Final = "the file has a section [tls], and tls keys in [[listener]] tables"
_SHARE: Final = "there are no share groups"
_STREAMS: Final = "there are no groups of Kafka Streams' own protocol"

_ABSENT_TOPIC: Final[Mapping[str, str]] = {
    "message.downconversion.enable": "batches are handed out as they were written",
    "message.format.version": "there is one format, Kafka's newest",
    "message.timestamp.difference.max.ms": _TIMESTAMPS,
}

_ABSENT_BROKER: Final[Mapping[str, str]] = {
    "broker.id.generation.enable": "it is id in the file's [broker]",
    "log.message.downconversion.enable": "batches are handed out as they were written",
    "log.message.format.version": "there is one format, Kafka's newest",
    "log.message.timestamp.difference.max.ms": _TIMESTAMPS,
    "reserved.broker.max.id": "it is id in the file's [broker]",
    "advertised.listeners": _ADDRESS,
    "allow.everyone.if.no.acl.found": "without a rule there is no access",
    "broker.id": "it is id in the file's [broker]",
    "broker.rack": "it is rack in the file's [broker]",
    "control.plane.listener.name": _ADDRESS,
    "controller.listener.names": _ADDRESS,
    "controller.quorum.bootstrap.servers": _RAFT,
    "controller.quorum.voters": _RAFT,
    "inter.broker.listener.name": _ADDRESS,
    "inter.broker.protocol.version": "brokers of one release speak one protocol",
    "listeners": _ADDRESS,
    "listener.security.protocol.map": _ADDRESS,
    "log.dir": "it is data in the file's [broker]",
    "log.dirs": "a broker has one data directory: data in the file's [broker]",
    "metadata.log.dir": "it is kept in the data directory",
    "node.id": "it is id in the file's [broker]",
    "offsets.commit.required.acks": "offsets are committed by the majority",
    "process.roles": "every broker serves clients; see kafkaesque cluster controllers",
    "unclean.leader.election.interval.ms": "it takes place when it has to",
    "delegation.token.expiry.check.interval.ms": "tokens that are over go when one is made",
    "delegation.token.master.key": "tokens are drawn, and have no key",
    "delegation.token.secret.key": "tokens are drawn, and have no key",
    "early.start.listeners": _ADDRESS,
    "principal.builder.class": "there are no classes of one's own",
    "security.providers": _TLS,
    "ssl.principal.mapping.rules": "it is ssl.principal.mapping.rules in the file's [broker]",
    "super.users": "it is super.users in the file's [broker]",
}

#: Broker options that come in families; the first part of the name is enough.
_ABSENT_FAMILIES: Final[Mapping[str, str]] = {
    "group.share.": _SHARE,
    "group.streams.": _STREAMS,
    "remote.fetch.": _TIERED,
    "remote.list.": _TIERED,
    "remote.log.index.": _TIERED,
    "remote.log.manager.": _TIERED,
    "remote.log.metadata.": _TIERED,
    "remote.log.reader.": _TIERED,
    "remote.log.storage.manager.": _TIERED,
    "sasl.oauthbearer.": _OAUTH,
    "sasl.": _SASL,
    "share.coordinator.": _SHARE,
    "ssl.": _TLS,
    "zookeeper.": _ZOOKEEPER,
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
