"""What whoever makes a topic of the brokers' own has to know of the cluster."""

from collections.abc import Callable
from typing import Protocol

from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.requests.commands import CreateTopic


class KnownMetadata(Protocol):
    """Where it is seen whether the topic is there."""

    @property
    def state(self) -> ClusterState:
        """The metadata as they are known here."""


class TopicMaker(Protocol):
    """What is needed of `ControllerClient`."""

    def submit(
        self, command: CreateTopic, timeout_ms: int, on_done: Callable[[object], None]
    ) -> None:
        """Carry out a command."""

    def expected_brokers(self, state: ClusterState) -> int:
        """Return how many brokers there are to be."""
