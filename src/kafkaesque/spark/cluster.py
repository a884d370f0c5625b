"""The brokers of a cluster, as a client sees them: who leads what, and asking until answered."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.errors import MalformedRequest
from kafkaesque.protocols.kafka.messages.find_coordinator_request import FindCoordinatorRequest
from kafkaesque.protocols.kafka.messages.metadata_request import (
    MetadataRequest,
    MetadataRequestTopic,
)
from kafkaesque.protocols.kafka.wire import Message
from kafkaesque.spark.connection import Connection
from kafkaesque.spark.errors import Passing, Refused, Unavailable, check
from kafkaesque.spark.sasl import authenticate
from kafkaesque.spark.security import SecurityOptions

Result = TypeVar("Result")

GROUP, TRANSACTION = 0, 1

_METADATA_VERSION = 9
_COORDINATOR_VERSION = 3
_CONNECT_TIMEOUT_S = 10.0
_BACKOFF_S_MIN, _BACKOFF_S_MAX = 0.002, 0.5
#: For so long the number of a topic's partitions is believed.
_TOPIC_AGE_S_MAX = 60.0
_NO_LEADER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """Where the brokers are, and for how long to try."""

    bootstrap_servers: tuple[tuple[str, int], ...]
    client_id: str = "kafkaesque-spark"
    #: Until one answer is there.
    request_timeout_s: float = 30.0
    #: Until a request has succeeded, all attempts together.
    api_timeout_s: float = 60.0
    security: SecurityOptions = SecurityOptions()


class Cluster:
    """Connections to the brokers, opened as they are needed, and what Metadata said last."""

    def __init__(self, options: ClusterOptions) -> None:
        self.options = options
        self._connections: dict[tuple[str, int], Connection] = {}
        self._brokers: dict[int, tuple[str, int]] = {}
        #: Topic -> leader of each partition; none has `_NO_LEADER`.
        self._leaders: dict[str, dict[int, int]] = {}
        #: Topic -> when it was asked about.
        self._asked_at: dict[str, float] = {}
        self._coordinators: dict[tuple[int, str], tuple[str, int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_waiting(self) -> bool:
        """Whether an answer has not been read."""
        return any(connection.is_waiting for connection in self._connections.values())

    def close(self) -> None:
        """End all connections; the next request opens new ones."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def retry(self, what: str, attempt: Callable[[], Result]) -> Result:
        """Return what `attempt` returns; make it again for as long as what fails may pass.

        Raises:
            Unavailable: it has not passed in `api_timeout_s`.
        """
        deadline = time.monotonic() + self.options.api_timeout_s
        pause_s = _BACKOFF_S_MIN
        while True:
            try:
                return attempt()
            except (Passing, OSError, MalformedRequest) as error:
                if not isinstance(error, Passing):
                    self.close()
                if not isinstance(error, Passing) or error.may_have_moved:
                    self._leaders.clear()
                    self._coordinators.clear()
                if time.monotonic() + pause_s > deadline:
                    seconds = self.options.api_timeout_s
                    raise Unavailable(f"{what}: not within {seconds:g} s ({error})") from None
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _BACKOFF_S_MAX)

    def topics(self, names: Iterable[str] | None = None) -> dict[str, list[int]]:
        """Return the partitions of these topics, or of all that are not internal.

        A name that is no topic's is left out.
        """
        wanted = None if names is None else sorted(names)
        return self.retry("asking for the topics", lambda: self._ask_topics(wanted))

    def _ask_topics(self, names: Sequence[str] | None) -> dict[str, list[int]]:
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics, allow_auto_topic_creation=False)
        answer = self._ask_any(ApiKey.METADATA, _METADATA_VERSION, request)
        self._brokers = {each.node_id: (each.host, each.port) for each in answer.brokers}
        found: dict[str, list[int]] = {}
        for topic in answer.topics:
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            check(topic.error_code, f"topic {topic.name!r}")
            if names is None and topic.is_internal:
                continue
            leaders = {each.partition_index: each.leader_id for each in topic.partitions}
            self._leaders[topic.name] = leaders
            self._asked_at[topic.name] = time.monotonic()
            found[topic.name] = sorted(leaders)
        return found

    def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic has, or had a minute ago at most; 0: no such topic."""
        age_s = time.monotonic() - self._asked_at.get(topic, -_TOPIC_AGE_S_MAX)
        if topic in self._leaders and age_s < _TOPIC_AGE_S_MAX:
            return len(self._leaders[topic])
        return len(self.topics([topic]).get(topic, ()))

    def leader(self, topic: str, partition: int) -> Connection:
        """Return a connection to the leader of a partition; to be called within `retry`.

        Raises:
            Passing: it has none at the moment. Refused: there is no such partition.
        """
        if topic not in self._leaders:
            self._ask_topics([topic])
        node_id = self._leaders.get(topic, {}).get(partition)
        if node_id is None:
            raise Refused(
                f"topic {topic!r} has no partition {partition}",
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
        if node_id == _NO_LEADER or node_id not in self._brokers:
            raise Passing(f"partition {topic}-{partition} has no leader")
        return self._connect(self._brokers[node_id])

    def coordinator(self, kind: int, key: str) -> Connection:
        """Return a connection to a group's or transaction's coordinator; within `retry`.

        Raises:
            Passing: there is none at the moment.
        """
        if (kind, key) not in self._coordinators:
            request = FindCoordinatorRequest(key=key, key_type=kind)
            found = self._ask_any(ApiKey.FIND_COORDINATOR, _COORDINATOR_VERSION, request)
            check(found.error_code, f"looking for the coordinator of {key!r}")
            self._coordinators[kind, key] = (found.host, found.port)
        return self._connect(self._coordinators[kind, key])

    def _ask_any(self, api_key: int, api_version: int, request: Message) -> Any:
        """Return the answer of the first broker that can be reached.

        Raises:
            Passing: none can; it says which were asked.
        """
        refused: list[str] = []
        for address in dict.fromkeys((*self.options.bootstrap_servers, *self._brokers.values())):
            try:
                return self._connect(address).ask(api_key, api_version, request)
            except OSError as error:
                self._drop(address)
                refused.append(f"{address[0]}:{address[1]} ({error.strerror or error})")
        raise Passing(f"no broker answers at {', '.join(refused)}")

    def _connect(self, address: tuple[str, int]) -> Connection:
        connection = self._connections.get(address)
        if connection is not None and connection.is_expired and not connection.is_waiting:
            self._drop(address)
            connection = None
        if connection is None:
            connection = self._connections[address] = self._open(address)
        return connection

    def _open(self, address: tuple[str, int]) -> Connection:
        options = self.options
        connection = Connection(
            *address,
            connect_timeout_s=min(_CONNECT_TIMEOUT_S, options.request_timeout_s),
            timeout_s=options.request_timeout_s,
            client_id=options.client_id,
            tls=options.security.tls,
        )
        if options.security.sasl is not None:
            try:
                authenticate(connection, options.security.sasl)
            except BaseException:
                connection.close()
                raise
        return connection

    def _drop(self, address: tuple[str, int]) -> None:
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()
