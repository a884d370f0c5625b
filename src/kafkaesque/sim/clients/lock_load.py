"""A lock: candidates of which one holds it at a time, as `examples/leader_election.py` has it.

The candidates are members of a group on a topic of one partition, each on a machine of its own that
is killed and paused. Whoever is given the partition holds the lock: it takes the transactional id
that all share (InitProducerId shuts out who had it before), and writes its decisions in
transactions. One that has only slept through the loss of its lock goes on with what it was about to
do. The checker knows *double lock holder*: something was written, or committed, by a candidate
after another one held the lock; or the records of two holders stand mixed in the log.
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
from kafkaesque.sim.env import Machine, World
from kafkaesque.sim.pipeline.classic_member import ClassicMember

TOPIC: Final = "lock"
CANDIDATES: Final = ("l1", "l2", "l3")
_PARTITION: Final = 0


class LockLoad:
    """The candidates, and a reader of their decisions."""

    def __init__(
        self,
        world: World,
        env: Env,
        bootstrap: Sequence[Address],
        findings: Findings,
        *,
        replicas: int,
        configs: Mapping[str, str],
        distrusted: str | None = None,
    ) -> None:
        self.history: Final = TransactionHistory(findings, TOPIC, is_lock=True)
        self._env: Final = env
        self._bootstrap: Final = bootstrap
        self._distrusted: Final = distrusted
        self._machines: Final = {name: world.add_machine(name) for name in CANDIDATES}
        self._lives: Final = dict.fromkeys(CANDIDATES, 0)
        self._holders: Final[dict[str, SimTransactor]] = {}
        self._readers: Final = CommittedReaders()
        self._is_stopped = False
        spec = TopicSpec(name=TOPIC, replicas=replicas, configs=configs)
        self._topic: Final = TopicLoad(env, bootstrap, spec, findings)

    @property
    def is_made(self) -> bool:
        """Whether there is a topic."""
        return self._topic.is_made

    @property
    def count(self) -> int:
        """How many decisions were committed."""
        return self.history.committed_count

    def start(self) -> None:
        """Let the candidates begin."""
        for machine in self._machines.values():
            self.boot(machine)
        client = KafkaClient(self._env, self._bootstrap, TOPIC)
        self._readers.add(CommittedReader(client, _PARTITION, self.history, self._distrusted))

    def has(self, machine: Machine) -> bool:
        """Return whether a machine is a candidate's."""
        return machine.name in self._machines

    def boot(self, machine: Machine) -> None:
        """Start a candidate."""
        name = machine.name
        if machine.running:
            return
        self._lives[name] += 1
        who = Who(f"{name}.{self._lives[name]}", TOPIC)

        def run(env: Env) -> None:
            member = ClassicMember(KafkaClient(env, self._bootstrap, TOPIC), TOPIC, 1)
            holder = SimTransactor(
                KafkaClient(env, self._bootstrap, TOPIC),
                who,
                1,
                self.history,
                learns_epoch=True,
                may_act=lambda: _PARTITION in member.ownership.partitions,
            )
            holder.is_stopped = self._is_stopped
            self._holders[name] = holder

        machine.start(run)

    def stop(self) -> None:
        """Decide nothing any more; what was begun is ended."""
        self._is_stopped = True
        for holder in self._holders.values():
            holder.is_stopped = True

    @property
    def is_idle(self) -> bool:
        """Whether all candidates have ended what they had begun."""
        return all(holder.is_idle for holder in self._holders.values())

    def conclude(self) -> None:
        """All is ended: let the reader read what there is now."""
        self._readers.conclude()

    @property
    def is_read(self) -> bool:
        """Whether no transaction is open, and all is read."""
        return self._readers.are_at_end

    def describe(self) -> str:
        """Say what is waited for."""
        return str(self._readers)
