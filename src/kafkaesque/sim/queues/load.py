"""Queues of a run in the simulator, and what is found wrong with them."""

from collections.abc import Mapping
from typing import Final

from kafkaesque.env import Env
from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.cluster import SimCluster
from kafkaesque.sim.loop import NS_PER_MS
from kafkaesque.sim.queues.client import VHOST
from kafkaesque.sim.queues.crowd import QueueCrowd
from kafkaesque.sim.queues.history import QueueSpec
from kafkaesque.sim.queues.replicas import QueueReplicas


class QueueLoad(QueueCrowd):
    """Those who use queues, and a look into the brokers."""

    def __init__(
        self,
        specs: Mapping[str, QueueSpec],
        env: Env,
        cluster: SimCluster,
        findings: Findings,
        *,
        replicas: int,
        do_clocks_tell: bool,
    ) -> None:
        loop = cluster.world.loop
        super().__init__(
            specs,
            env,
            cluster.addresses,
            lambda: loop.now_ns / NS_PER_MS,
            lambda what: findings.note(f"queues: {what}"),
            replicas=replicas,
            do_clocks_tell=do_clocks_tell,
        )
        self._replicas: Final = QueueReplicas(cluster, findings, VHOST, list(specs))

    def look(self) -> None:
        """Compare what the brokers know."""
        self._replicas.look()

    def conclude(self) -> None:
        """All is healed: empty the queues."""
        self._replicas.check()
        super().conclude()

    def note_records(self, acknowledged: Mapping[tuple[int, bytes], int]) -> None:
        """Tell what was acknowledged in the topic that some queues are over."""
        for spec in self.history.specs.values():
            if spec.topic:
                self.history.records[spec.name] = acknowledged

    def check(self) -> None:
        """Look at all that was seen, and at what the replicas have."""
        super().check()
        self._replicas.check()
