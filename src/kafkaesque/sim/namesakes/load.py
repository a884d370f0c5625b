"""Everybody who uses a topic that is deleted and made again, one that stays, and their readers."""

from collections.abc import Mapping, Sequence
from typing import Final

from kafkaesque.env import Env
from kafkaesque.env.network import Address
from kafkaesque.sim.clients.committed_reader import CommittedReader, CommittedReaders
from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.clients.topic_load import TopicLoad, TopicSpec
from kafkaesque.sim.namesakes.committer import NamesakeCommitter
from kafkaesque.sim.namesakes.history import STAYING, NamesakeHistory
from kafkaesque.sim.namesakes.offset_history import OffsetHistory
from kafkaesque.sim.namesakes.topic import PARTITIONS, Namesake, PassingTopic
from kafkaesque.sim.namesakes.transactor import KINDS, NamesakeTransactor

STAYING_TOPIC: Final = "staying"


class _TopicReads:
    """What the committed readers of one topic tell."""

    def __init__(self, history: NamesakeHistory, topic: int) -> None:
        self._history: Final = history
        self._topic: Final = topic

    def note_anomaly(self, what: str) -> None:
        self._history.note_anomaly(f"topic {self._topic}: {what}")

    def note_read(self, partition: int, offset: int, value: bytes) -> None:
        self._history.note_read(self._topic, partition, offset, value)


class NamesakeLoad:
    """Producers, groups, and a reader for each partition."""

    def __init__(
        self,
        env: Env,
        bootstrap: Sequence[Address],
        findings: Findings,
        *,
        replicas: int,
        replicas_min: int,
        configs: Mapping[str, str],
        do_clocks_tell: bool,
        distrusted: str | None = None,
    ) -> None:
        """`replicas_min` is how many copies the topic that passes has at least."""
        self.history: Final = NamesakeHistory(findings)
        self._env: Final = env
        self._bootstrap: Final = bootstrap
        self._findings: Final = findings
        self._distrusted: Final = distrusted
        self._do_clocks_tell: Final = do_clocks_tell
        self._replicas: Final = replicas_min, replicas
        self._passing: PassingTopic | None = None
        self._producers: Final[list[NamesakeTransactor]] = []
        self._groups: Final[list[NamesakeCommitter]] = []
        #: Of the topic that stays, and of the newest of those that pass.
        self._readers: Final = CommittedReaders()
        self._newest = CommittedReaders()
        spec = TopicSpec(name=STAYING_TOPIC, replicas=replicas, configs=configs)
        self._staying: Final = TopicLoad(env, bootstrap, spec, findings)

    def _client(self) -> KafkaClient:
        return KafkaClient(self._env, self._bootstrap, STAYING_TOPIC)

    @property
    def is_made(self) -> bool:
        """Whether there is the topic that stays."""
        return self._staying.is_made

    @property
    def count(self) -> int:
        """How many topics were deleted."""
        return 0 if self._passing is None else self._passing.count

    def start(self) -> None:
        """Let the clients begin."""
        fewest, most = self._replicas
        passing = PassingTopic(self._env, self._bootstrap, most, fewest, self._on_made)
        self._passing = passing
        reads = _TopicReads(self.history, STAYING)
        self._readers.add(CommittedReader(self._client(), 0, reads, self._distrusted))
        for kind in KINDS:
            offsets = self._offsets(f"namesakes-{kind.name}", is_by_id=False)
            self._producers.append(
                NamesakeTransactor(self._client(), passing, kind, self.history, offsets)
            )
            self._groups.append(
                NamesakeCommitter(self._client(), passing, offsets, commits_by_id=None)
            )
        for name, by_id in (("namesakes-by-name", False), ("namesakes-by-id", True)):
            offsets = self._offsets(name, is_by_id=by_id)
            self._groups.append(
                NamesakeCommitter(self._client(), passing, offsets, commits_by_id=by_id)
            )

    def _offsets(self, group_id: str, *, is_by_id: bool) -> OffsetHistory:
        return OffsetHistory(
            self._findings, group_id, is_by_id=is_by_id, do_clocks_tell=self._do_clocks_tell
        )

    def _on_made(self, topic: Namesake) -> None:
        """Read the new topic, and no other of its name."""
        self._newest.stop()
        self.history.last = topic.number
        reads = _TopicReads(self.history, topic.number)
        self._newest = CommittedReaders()
        for partition in range(PARTITIONS):
            client = topic.client(self._env, self._bootstrap)
            self._newest.add(CommittedReader(client, partition, reads, self._distrusted))

    def stop(self) -> None:
        """Delete no more, and begin nothing any more but what the end is seen by."""
        if self._passing is not None:
            self._passing.is_stopped = True
        for producer in self._producers:
            producer.is_stopped = True

    @property
    def is_idle(self) -> bool:
        """Whether the last topic is there, and all producers have ended what they had begun."""
        return all(producer.is_idle for producer in self._producers)

    def conclude(self) -> None:
        """All is ended: let the readers read what there is now."""
        for readers in (self._readers, self._newest):
            readers.conclude()
        for group in self._groups:
            group.conclude()

    @property
    def is_read(self) -> bool:
        """Whether no transaction is open, and all is read, the committed offsets too."""
        is_at_end = self._readers.are_at_end and self._newest.are_at_end
        return is_at_end and all(group.is_concluded for group in self._groups)

    def describe(self) -> str:
        """Say what is waited for."""
        waited = (self._readers, self._newest, *self._producers, *self._groups)
        return "; ".join(map(str, waited))
