"""One topic that is written in transactions, by pairs of rivals, and readers of what is committed.

A pair shares one transactional id. The first pair keeps its epoch, the second learns the next one.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from kafkaesque.env import Env
from kafkaesque.env.network import Address
from kafkaesque.sim.clients.committed_reader import CommittedReader, CommittedReaders
from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.clients.topic_load import TopicLoad, TopicSpec
from kafkaesque.sim.clients.transaction_history import TransactionHistory, Who
from kafkaesque.sim.clients.transactor import SimTransactor

TOPIC: Final = "ledger"
PARTITIONS: Final = 3
#: Transactional ids, and producers of each.
IDS: Final = 2
RIVALS: Final = 2


class TransactionLoad:
    """Producers, and a reader for each partition."""

    def __init__(
        self,
        env: Env,
        bootstrap: Sequence[Address],
        findings: Findings,
        *,
        replicas: int,
        configs: Mapping[str, str],
        distrusted: str | None = None,
    ) -> None:
        self.history: Final = TransactionHistory(findings)
        self._env: Final = env
        self._bootstrap: Final = bootstrap
        self._distrusted: Final = distrusted
        self._producers: Final[list[SimTransactor]] = []
        self._readers: Final = CommittedReaders()
        spec = TopicSpec(name=TOPIC, partitions=PARTITIONS, replicas=replicas, configs=configs)
        self._topic: Final = TopicLoad(env, bootstrap, spec, findings)

    def _client(self) -> KafkaClient:
        return KafkaClient(self._env, self._bootstrap, TOPIC)

    @property
    def is_made(self) -> bool:
        """Whether there is a topic."""
        return self._topic.is_made

    @property
    def count(self) -> int:
        """How many commits were answered."""
        return self.history.committed_count

    def start(self) -> None:
        """Let the clients begin."""
        for number in range(IDS):
            for rival in range(RIVALS):
                who = Who(f"t{number}.{rival}", f"id-{number}")
                self._producers.append(
                    SimTransactor(
                        self._client(), who, PARTITIONS, self.history, learns_epoch=number > 0
                    )
                )
        for partition in range(PARTITIONS):
            self._readers.add(
                CommittedReader(self._client(), partition, self.history, self._distrusted)
            )

    def stop(self) -> None:
        """Begin no transaction any more; what was begun is ended."""
        for producer in self._producers:
            producer.is_stopped = True

    @property
    def is_idle(self) -> bool:
        """Whether all producers have ended what they had begun."""
        return all(producer.is_idle for producer in self._producers)

    def conclude(self) -> None:
        """All is ended: let the readers read what there is now."""
        self._readers.conclude()

    @property
    def is_read(self) -> bool:
        """Whether no transaction is open in any partition, and all is read."""
        return self._readers.are_at_end

    def describe(self) -> str:
        """Say what is waited for."""
        return str(self._readers)
