"""The leader of a queue is killed, again and again, while thousands of messages are in flight."""

from dataclasses import dataclass
from typing import Final

from kafkaesque.queues.state import State
from kafkaesque.sim.agreement import disagreement
from kafkaesque.sim.cluster import SimCluster
from kafkaesque.sim.env import World
from kafkaesque.sim.loop import SimStuck
from kafkaesque.sim.options import SimOptions
from kafkaesque.sim.queues.history import QueueSpec
from kafkaesque.sim.queues.load import QueueLoad
from kafkaesque.sim.queues.promises import CountedFindings
from kafkaesque.sim.queues.replicas import leaders_of
from kafkaesque.sim.queues.small_files import small_files

QUEUE: Final = "work"
DEAD: Final = "dead"
#: Messages that one worker has at a time, and how long it works on each part of them; less of both
#: where few messages are to be in flight.
TAKEN: Final = 100
TAKEN_LEAST: Final = 10
WORK_MS: Final = (1_000, 50_000)
WORK_SHARE_LEAST: Final = 0.1
MANY: Final = 10_000
LOCK_MS: Final = 90_000
#: Half of the messages are in groups, of which there is one for so many messages in flight: one
#: message of a group is in flight at a time.
GROUP_SHARE: Final = 4
#: So long a broker is away, and so long after it is back the next one is killed, at most.
AWAY_MS_MAX: Final = 600
BETWEEN_MS_MAX: Final = 500
WAIT_MS_MAX: Final = 60_000
#: The replicas' states are compared after so many kills.
LOOKED_AT: Final = 5
SETTLE_MS_MAX: Final = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class KillReport:
    """What came of it."""

    seed: int
    kills: int
    #: The least that were in flight when a leader was killed, and the most.
    in_flight_least: int
    in_flight_most: int
    anomalies: list[str]
    #: How often each promise of queues was broken, by its name.
    broken: dict[str, int]
    counts: dict[str, int]


def kill_leaders(seed: int, times: int, in_flight: int, partitions: int = 1) -> KillReport:
    """Kill the leader so often; at each kill about so many messages are in flight.

    Of several partitions it is the leader of any, and the dead letters' queue has as many.
    """
    with small_files(seed):
        return _Kills(seed, times, in_flight, partitions).go()


def _specs(in_flight: int, partitions: int) -> dict[str, QueueSpec]:
    share = min(1, in_flight / MANY)
    taken = max(TAKEN_LEAST, round(TAKEN * share))
    parted = {} if partitions == 1 else {"partitions": str(partitions)}
    least, most = (round(ms * max(WORK_SHARE_LEAST, share)) for ms in WORK_MS)
    work = QueueSpec(
        name=QUEUE,
        options={
            "visibility.timeout.ms": str(LOCK_MS),
            "delivery.limit": "2",
            "dead.letter.queue": DEAD,
            "ordered.groups": "true",
            **parted,
        },
        is_ordered=True,
        grouped_one_in=2,
        groups=max(1, in_flight // GROUP_SHARE),
        dead_letters_to=DEAD,
        limit=2,
        lock_ms_min=LOCK_MS,
        locks_ms=(-1, LOCK_MS, 2 * LOCK_MS),
        workers=in_flight * 8 // (5 * taken) + 1,
        take_max=2 * taken,
        work_ms=(least, most),
        put_max=100,
        put_pause_ms=8,
        put_at_once=2 * in_flight,
    )
    return {QUEUE: work, DEAD: QueueSpec(name=DEAD, options=parted, publishers=0, workers=0)}


class _Kills:
    def __init__(self, seed: int, times: int, in_flight: int, partitions: int) -> None:
        self._seed: Final = seed
        self._times: Final = times
        self._wanted: Final = in_flight
        self._partitions: Final = partitions
        self._world: Final = World(seed)
        self._chance: Final = self._world.loop.chance("kills")
        self._cluster: Final = SimCluster(self._world, SimOptions())
        self._findings: Final = CountedFindings()
        self._in_flight: Final[list[int]] = []
        self._cluster.start()
        self._load: Final = QueueLoad(
            _specs(in_flight, partitions),
            self._world.add_machine("client").boot(),
            self._cluster,
            self._findings,
            replicas=3,
            do_clocks_tell=True,
        )

    def go(self) -> KillReport:
        """Kill, and check."""
        try:
            self._drive()
        except SimStuck as stuck:
            missing = disagreement(self._cluster)
            self._findings.note(f"stuck: {stuck}; {missing}; {self._load.describe()}")
        return KillReport(
            seed=self._seed,
            kills=len(self._in_flight),
            in_flight_least=min(self._in_flight, default=0),
            in_flight_most=max(self._in_flight, default=0),
            anomalies=self._findings.anomalies,
            broken=self._findings.broken(),
            counts=self._load.counts(),
        )

    def _drive(self) -> None:
        loop, load = self._world.loop, self._load
        loop.run_until(lambda: load.is_made, WAIT_MS_MAX)
        load.start_publishing()
        loop.run_until(lambda: len(load.history.sent) > 2 * self._wanted, WAIT_MS_MAX, every_ms=20)
        load.start_working()
        # What workers settle at once is missing.
        enough = self._wanted * 4 // 5
        loop.run_until(lambda: self._flying() >= enough, WAIT_MS_MAX, every_ms=20)
        while len(self._in_flight) < self._times:
            self._kill()
        load.stop()
        loop.run_until(lambda: load.is_idle, SETTLE_MS_MAX, every_ms=20)
        self._come_to_rest()
        load.conclude()
        loop.run_until(lambda: load.is_drained, SETTLE_MS_MAX, every_ms=20)
        self._come_to_rest()
        load.check()

    def _come_to_rest(self) -> None:
        self._world.loop.run_until(
            lambda: disagreement(self._cluster) is None, WAIT_MS_MAX, every_ms=20
        )

    def _flying(self) -> int:
        return sum(state.flight_count for _, state in self._leaders())

    def _leaders(self) -> list[tuple[str, State]]:
        """Return who leads the partitions; none as long as it is not exactly one for each."""
        found = leaders_of(self._cluster, QUEUE)
        return found if len(found) == self._partitions else []

    def _kill(self) -> None:
        """Kill whoever leads in the midst of its work, and let it come back."""
        loop = self._world.loop
        loop.run_for(self._chance.randrange(1, BETWEEN_MS_MAX))
        loop.run_until(lambda: self._leaders() != [], WAIT_MS_MAX, every_ms=10)
        found = self._leaders()
        if not found:
            return
        which = 0 if len(found) == 1 else self._chance.randrange(len(found))
        machine = self._world.machines[found[which][0]]
        self._in_flight.append(self._flying())
        machine.kill()
        loop.run_for(self._chance.randrange(1, AWAY_MS_MAX))
        self._cluster.boot(machine)
        loop.run_until(lambda: self._cluster.is_back(machine), WAIT_MS_MAX, every_ms=10)
        if len(self._in_flight) % LOOKED_AT == 0:
            self._load.look()
