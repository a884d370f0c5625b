"""What a broker knows of each kind of table that lives in a topic of its own: the list of kinds.

A kind's words (events, answers, work) are its own and its callers'; the broker, which has a list of
kinds, only tells them of leadership and of topics, and lets them register the servers of what other
brokers ask of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.records import GroupConfigChanged, TopicDeleted
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.requests.desk import RequestDesk
from kafkaesque.model.ids import TopicPartition


class CoordinatorTables(Protocol):
    """The tables of one kind; see `TableHosts`."""

    def find(self, key: str) -> TopicPartition:
        """Return the partition whose leader coordinates what has this name."""

    def when_found(self, keys: Sequence[str], on_done: Callable[[], None]) -> None:
        """Call when it can be said where tables are, or the time is up."""

    def on_leadership(self, partition: Partition) -> None:
        """A partition on this broker has a new leader, perhaps this broker."""

    def on_topic_deleted(self, record: TopicDeleted) -> None:
        """A topic is gone; those that keep something of it forget it."""

    def on_group_config(self, record: GroupConfigChanged) -> None:
        """A group's options have changed."""

    def on_state_loaded(self, state: ClusterState) -> None:
        """The metadata are what a snapshot says."""

    def on_removed(self, partition: Partition) -> None:
        """A partition, of whatever topic, is led here no more."""

    def close(self) -> None:
        """Coordinate nothing any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredTables:
    """One kind: its tables, and who serves what other brokers ask of them."""

    tables: CoordinatorTables
    #: Each registers the requests that it serves.
    servers: tuple[Callable[[RequestDesk], None], ...]
