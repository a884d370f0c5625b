"""Makes topics, uses them, deletes them, and makes others of the same names."""

from collections.abc import Callable, Sequence
from typing import Final

from kafkaesque.env import Env
from kafkaesque.env.network import Address
from kafkaesque.sim.clients.bursts import rest_ms
from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.clients.topic_load import TopicLoad, TopicSpec

#: So few names, so that each is used again soon, and each with its number of partitions: a request
#: to make a topic may be carried out long after its client has given it up, when that name is free
#: again, and the topic that there is then has to be as good as the one that is wanted.
PARTITIONS: Final = {"passing-0": 1, "passing-1": 3}
NAMES: Final = tuple(PARTITIONS)
LOOK_MS: Final = 50
USE_MS_MAX: Final = 2_000


class TopicChurn:
    """One topic after the other; every one must hold what was sent to it, and nothing else."""

    def __init__(
        self,
        env: Env,
        bootstrap: Sequence[Address],
        findings: Findings,
        replicas: int,
        replicas_min: int = 1,
        distrusted: str | None = None,
    ) -> None:
        """`distrusted` is a machine whose disk may give it anything; it is asked again, then."""
        self._env: Final = env
        self._bootstrap: Final = bootstrap
        self._findings: Final = findings
        self._replicas: Final = replicas
        self._replicas_min: Final = replicas_min
        self._distrusted: Final = distrusted
        self._deleted_ids: Final[list[bytes]] = []
        self._load: TopicLoad | None = None
        #: Topics that have been made, used, checked and deleted.
        self.count = 0
        #: Make no more.
        self.is_stopped = False
        self._begin()

    @property
    def is_idle(self) -> bool:
        """Whether no topic is left."""
        return self._load is None

    @property
    def loads(self) -> list[TopicLoad]:
        """The topic that there is, if there is one."""
        return [] if self._load is None else [self._load]

    def describe(self) -> str:
        """Say what is waited for."""
        load = self._load
        if load is None:
            return "there is none"
        ends = [(each.position, each.high_watermark) for each in load.consumers]
        return (
            f"{load.spec.name}, made: {load.is_made}, id {load.topic_id.hex()}, acknowledged: "
            f"{load.is_acknowledged}, read up to (of) {ends}, deleted: {load.is_deleted}"
        )

    def _begin(self) -> None:
        if self.is_stopped:
            return
        dice = self._env.dice
        name = NAMES[dice.below(len(NAMES))]
        spec = TopicSpec(
            name=name,
            partitions=PARTITIONS[name],
            replicas=self._replicas_min + dice.below(self._replicas - self._replicas_min + 1),
            producers=1,
            is_passing=True,
        )
        self._load = TopicLoad(
            self._env,
            self._bootstrap,
            spec,
            self._findings,
            self._distrusted,
            ignored_ids=self._deleted_ids,
            label=f"#{self.count}",
        )
        self._later(self._await_made)

    def _later(self, act: Callable[[TopicLoad], None]) -> None:
        load = self._load
        if load is not None:
            self._env.clock.call_later(LOOK_MS, lambda: act(load))

    def _await_made(self, load: TopicLoad) -> None:
        if not load.is_made:
            self._later(self._await_made)
            return
        load.start()
        use_ms = self._env.dice.below(USE_MS_MAX)
        self._env.clock.call_later(use_ms, lambda: self._finish(load))

    def _finish(self, load: TopicLoad) -> None:
        load.stop_producing()
        self._await_used(load)

    def _await_used(self, load: TopicLoad) -> None:
        # Its id has to be known, and something has to have been read: then it has leaders.
        is_known = any(load.topic_id) and all(c.high_watermark >= 0 for c in load.consumers)
        if not (is_known and load.is_acknowledged and load.is_read):
            self._later(self._await_used)
            return
        load.stop()
        load.observations.check()
        load.delete()
        self._await_deleted(load)

    def _await_deleted(self, load: TopicLoad) -> None:
        if not load.is_deleted:
            self._later(self._await_deleted)
            return
        self._deleted_ids.append(load.topic_id)
        self.count += 1
        self._load = None
        self._env.clock.call_later(rest_ms(self._env) + LOOK_MS, self._begin)
