"""Makes a topic of the brokers' own, when it is first needed."""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.internal_topics import sealing_of_internal_topics
from kafkaesque.broker.metadata.live_options import LiveOptions
from kafkaesque.broker.options.encryption import INTERNAL_ENCRYPTION
from kafkaesque.broker.requests.commands import CreateTopic
from kafkaesque.env.clock import Clock

REPLICATION_FACTOR: Final = 3
CREATE_MS_MAX: Final = 10_000
#: A topic that was just made is looked for again after this, so often.
SEEN_AGAIN_MS: Final = 50
SEEN_AGAIN_MAX: Final = 100


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


class InternalTopic:
    """A topic of one partition, and compacted, if nothing else is said."""

    __slots__ = (
        "_clock",
        "_configs",
        "_controller",
        "_metadata",
        "_options",
        "_partition_count",
        "_waiting",
        "name",
    )

    def __init__(
        self,
        name: str,
        configs: Mapping[str, str],
        *,
        clock: Clock,
        metadata: KnownMetadata,
        controller: TopicMaker,
        options: LiveOptions,
        partition_count: int = 1,
    ) -> None:
        self.name: Final = name
        self._partition_count: Final = partition_count
        self._configs: Final = configs
        self._clock: Final = clock
        self._metadata: Final = metadata
        self._controller: Final = controller
        self._options: Final = options
        self._waiting: list[Callable[[bool], None]] = []

    @property
    def is_there(self) -> bool:
        """Whether this broker has heard of the topic."""
        return self.name in self._metadata.state.topics

    def make(self, on_done: Callable[[bool], None]) -> None:
        """Make the topic; `on_done` tells whether this broker sees it, whoever has made it."""
        self._waiting.append(on_done)
        if len(self._waiting) > 1:
            return
        expected = self._controller.expected_brokers(self._metadata.state)
        command = CreateTopic(
            name=self.name,
            partition_count=self._partition_count,
            replication_factor=min(REPLICATION_FACTOR, expected),
            configs={
                "cleanup.policy": "compact",
                **self._configs,
                **sealing_of_internal_topics(
                    self._options.get(INTERNAL_ENCRYPTION), self._metadata.state
                ),
            },
        )
        self._controller.submit(command, CREATE_MS_MAX, lambda _: self._look_for_it(0))

    def _look_for_it(self, times: int) -> None:
        if self.is_there or times >= SEEN_AGAIN_MAX:
            is_there = self.is_there
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                each(is_there)
        else:
            self._clock.call_later(SEEN_AGAIN_MS, lambda: self._look_for_it(times + 1))
