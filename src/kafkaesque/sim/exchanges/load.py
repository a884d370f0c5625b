"""Exchanges of a run in the simulator, those who use them, and what is found wrong."""

from __future__ import annotations

from typing import Final

from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST
from kafkaesque.env import Env
from kafkaesque.env.network import Address
from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.cluster import AMQP_PORT, SimCluster
from kafkaesque.sim.exchanges.checks import ExchangeChecks
from kafkaesque.sim.exchanges.consumer import ExchangeConsumer
from kafkaesque.sim.exchanges.history import ExchangeHistory
from kafkaesque.sim.exchanges.maker import Maker
from kafkaesque.sim.exchanges.publisher import ExchangePublisher
from kafkaesque.sim.exchanges.topology import QUEUES
from kafkaesque.sim.queues.replicas import QueueReplicas, leader_of

PUBLISHERS: Final = 3


class ExchangeLoad:
    """See the module."""

    def __init__(self, env: Env, cluster: SimCluster, findings: Findings) -> None:
        self._env: Final = env
        self._cluster: Final = cluster
        self._bootstrap: Final = [Address(name, AMQP_PORT) for name in cluster.names]
        self.history: Final = ExchangeHistory(lambda what: findings.note(f"exchanges: {what}"))
        self._replicas: Final = QueueReplicas(cluster, findings, DEFAULT_VHOST, list(QUEUES))
        self._maker: Final = Maker(env, self._bootstrap, self.history)
        self._publishers: Final[list[ExchangePublisher]] = []
        self._consumers: Final[list[ExchangeConsumer]] = []

    @property
    def is_made(self) -> bool:
        """Whether all exchanges, queues and bindings are there."""
        return self._maker.is_done

    def start(self) -> None:
        """Let everybody begin."""
        env, bootstrap, history = self._env, self._bootstrap, self.history
        for number in range(PUBLISHERS):
            self._publishers.append(ExchangePublisher(env, bootstrap, history, f"p{number}"))
        for queue, count in QUEUES.items():
            for number in range(count):
                name = f"{queue}.{number}"
                self._consumers.append(ExchangeConsumer(env, bootstrap, history, name, queue))

    def look(self) -> None:
        """Compare what the brokers know."""
        self._replicas.look()

    def counts(self) -> dict[str, int]:
        """Return what went on, by name."""
        return self.history.tally()

    # -- coming to an end

    def stop(self) -> None:
        """Publish nothing new."""
        for each in self._publishers:
            each.is_stopped = True

    @property
    def is_idle(self) -> bool:
        """Whether no publisher waits for an answer."""
        return all(each.is_idle for each in self._publishers)

    def conclude(self) -> None:
        """All is healed: let consumers take what there is, and keep nothing."""
        for each in self._consumers:
            each.is_draining = True

    @property
    def is_drained(self) -> bool:
        """Whether all queues are empty, and everybody knows it."""
        if not all(each.is_idle for each in self._consumers):
            return False
        return all(self._left_in(name) == 0 for name in QUEUES)

    def _left_in(self, name: str) -> int:
        found = leader_of(self._cluster, name)
        return -1 if found is None else sum(1 for _ in found[1].live.offsets())

    def describe(self) -> str:
        """Say what is waited for."""
        left = {name: self._left_in(name) for name in QUEUES}
        users: list[ExchangePublisher | ExchangeConsumer] = [*self._publishers, *self._consumers]
        busy = [each.name for each in users if not each.is_idle]
        return f"left in queues: {left}; busy: {busy}; made: {self.is_made}"

    def check(self) -> None:
        """Look at all that was seen, and at what the replicas have."""
        ExchangeChecks(self.history).check()
        self._replicas.check()
