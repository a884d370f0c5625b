"""What a run is made of: said by hand, or drawn from a seed."""

import random
from dataclasses import dataclass, replace
from typing import Final

from kafkaesque.broker.config import PeerTimings
from kafkaesque.membership.config import MembershipConfig
from kafkaesque.sim.nemesis import ALL, LOSING, SURVIVABLE, draw_loser

#: What may go on in a cluster beside producing and consuming.
ACTIVITIES: Final = (
    #: A group commits offsets and reads them back.
    "commits",
    #: An administrator lets preferred leaders lead.
    "transfers",
    #: Records of a topic of its own are deleted: by request, and because they are too many.
    "deletions",
    #: Topics are created, used, deleted and created again.
    "topics",
    #: Replicas move from broker to broker, of all topics that stay.
    "moves",
    #: Copies are throttled, and not any more, while a topic's retention is faster than they are.
    "throttles",
    #: Other brokers become controllers, and controllers are ones no more.
    "controllers",
    #: A topic is a table: of its records, and of committed offsets, the last of each key stay.
    "compaction",
    #: Producers write a topic of its own in transactions, in pairs that shut each other out.
    "transactions",
    #: A topic that transactions write to, and that groups commit for, is deleted and made again.
    "namesakes",
    #: Members of a group hold a lock in turn, and write as holders.
    "lock",
    #: A topic goes on with what is left of it: groups lose their majorities, and their records.
    "unclean",
    #: People with telnet publish and read by lines, and somebody asks the admin ports.
    "text",
    #: Messages go to one worker each, with every option that queues have.
    "queues",
    #: Clients of AMQP publish to exchanges and consume queues behind them.
    "exchanges",
    #: Workers of a group consume, transform and produce in transactions, and die of all there is.
    "exactly-once",
)
#: Each drawn for itself, in one of so many runs, because they came later: a seed draws the others
#: as it did before.
_LATER: Final = {"compaction": 3, "transactions": 3, "moves": 3, "namesakes": 5, "text": 4}
#: Not drawn here, but for the asking, as it takes long, or with all faults.
_ASKED_FOR: Final = ("exactly-once", "controllers", "throttles", "queues", "exchanges")
#: A long run has one of so many of the activities that a short one with its seed has.
_LONG_KEEPS_ONE_IN: Final = 2
#: With all faults, copies are throttled in one run of so many.
_THROTTLES_ONE_IN: Final = 8
#: How many brokers runs with all faults have; mostly three.
_BROKERS: Final = (3, 3, 3, 3, 3, 3, 4, 5)
#: Drawn in one of so many long runs only: majorities are lost for longer than a short one takes.
_LONG_ONLY: Final = ("unclean",)
_LONG_ONLY_ONE_IN: Final = 16
#: One run in so many has it, because its members are never quiet.
_LOCK_ONE_IN: Final = 6
#: Words for kinds of faults that belong together.
FAULTS: Final = {
    #: Whatever a cluster survives, wherever it strikes.
    "survivable": SURVIVABLE,
    #: These, and one machine that loses its disk again and again.
    "lost disks": (*SURVIVABLE, *LOSING),
    #: Everything: one machine, a minority, is also struck by what costs it its copy.
    "all": ALL,
}
#: So few brokers have no minority that might lose its copies.
MINORITY_BROKERS_MIN: Final = 3
#: Where groups lose their majorities there are so many brokers, one of them damaged, three with the
#: topic, and controllers that decide.
UNCLEAN_BROKERS_MIN: Final = 5
#: Groups that have lost their majority are recovered after one of these.
UNCLEAN_SESSION_TIMEOUTS_MS: Final = (500, 1_000, 3_000)
#: So many machines keep the cluster's metadata; the others learn it.
CONTROLLERS_MAX: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SimOptions:
    """What a run is made of."""

    brokers: int = 3
    #: The first broker's id; the others follow it.
    first_id: int = 1
    #: How long things go wrong; after that everything is healed, and must come to its end.
    duration_ms: int = 10_000
    #: From fault to fault, on average.
    between_ms: int = 1_500
    kinds: tuple[str, ...] = SURVIVABLE
    #: One process fault in so many strikes all brokers at once.
    all_one_in: int = 10
    #: Whether links between brokers and the controller are struck beside, whoever that is.
    strikes_controller: bool = False
    #: The one machine that faults of the kinds `nemesis.DAMAGING` strike.
    damaged: str | None = None
    #: Whether the damaged machine is taken away in the end; or else it gets a new disk then.
    loses_damaged: bool = False
    #: Clients work around so many of a hundred faults, and rest between; None: all the time.
    busy_percent: int | None = None
    partitions: int = 2
    replicas: int = 3
    controllers: int = CONTROLLERS_MAX
    min_insync: int = 1
    #: How often brokers show one another that they live, by their links and by gossip.
    heartbeat_ms: int = PeerTimings().heartbeat_ms
    probe_ms: int = MembershipConfig().probe_ms
    #: Of the brokers, in their order; none where there are fewer.
    racks: tuple[str, ...] = ()
    #: A group that has lost its majority is recovered after this long.
    session_timeout_ms: int = 9_000
    write_caching: bool = False
    #: Topics of clients and of brokers are encrypted at rest.
    is_encrypted: bool = False
    activities: tuple[str, ...] = ()
    #: With "namesakes": clocks go right, so that it is known whose an offset is (ADR 22).
    steady_clocks: bool = False
    #: Batches that a producer has under way for one partition, at most.
    in_flight: int = 1
    #: A snapshot of the cluster's metadata is made after so many records.
    snapshot_records: int = 10_000

    @property
    def broker_ids(self) -> range:
        """The ids of the brokers, in the order of their machines."""
        return range(self.first_id, self.first_id + self.brokers)


#: Six minutes, so that ten thousand of them are a thousand hours.
LONG_RUN: Final = SimOptions(duration_ms=360_000, busy_percent=10)
#: How often brokers of long runs hear of one another, in multiples of the usual time; of more than
#: three brokers, which have several times as many links; and around how many of a hundred faults
#: clients work.
_PACES: Final = (1, 4, 4)
_PACES_OF_MANY: Final = (2, 4, 4)
_BUSY_PERCENT: Final = (5, 10, 15)


def _is_one_in(count: int, seed: int, what: str) -> bool:
    return random.Random(f"{seed}/{what}").randrange(count) == 0


def name_brokers(count: int) -> list[str]:
    """Return the names of the machines that brokers run on."""
    return [f"b{number}" for number in range(1, count + 1)]


def draw_brokers(seed: int, faults: str) -> int:
    """Return how many brokers a run has where nobody says it: with all faults the seed draws."""
    return random.Random(f"{seed}/brokers").choice(_BROKERS) if faults == "all" else _BROKERS[0]


def with_faults(seed: int, options: SimOptions, faults: str) -> SimOptions:
    """Return the options with the faults that a word of `FAULTS` stands for.

    Of all faults, one strikes every 1.5 to 2.5 s on average. Drawn are which machine is damaged,
    whether it is taken away in the end, how often brokers hear of one another, how much clients
    rest, whether links around the controller are struck beside, and whether copies are throttled.
    """
    # A recovered partition may have a single replica for a while, which must keep its disk.
    kinds = SURVIVABLE if "unclean" in options.activities else FAULTS[faults]
    if options.brokers < MINORITY_BROKERS_MIN:
        return replace(options, kinds=tuple(each for each in kinds if each in SURVIVABLE))
    if faults != "all":
        return replace(options, kinds=kinds)
    is_small = options.brokers <= MINORITY_BROKERS_MIN
    pace = random.Random(f"{seed}/pace").choice(_PACES if is_small else _PACES_OF_MANY)
    busy = random.Random(f"{seed}/busy").choice(_BUSY_PERCENT)
    has_loser = kinds != SURVIVABLE
    activities = options.activities
    if random.Random(f"{seed}/throttles").randrange(_THROTTLES_ONE_IN) == 0:
        # Copies are made after lost disks, too; moves make more, where there is room for them.
        more = ("throttles",) if is_small else ("moves", "throttles")
        activities += tuple(each for each in more if each not in activities)
    return replace(
        options,
        kinds=kinds,
        activities=activities,
        between_ms=random.Random(f"{seed}/between").choice((1_500, 3_000, 3_000, 3_000)),
        heartbeat_ms=pace * options.heartbeat_ms,
        probe_ms=pace * options.probe_ms,
        busy_percent=None if options.busy_percent is None else busy,
        strikes_controller=random.Random(f"{seed}/strikes controller").randrange(2) == 0,
        damaged=draw_loser(seed, name_brokers(options.brokers)) if has_loser else None,
        loses_damaged=has_loser and random.Random(f"{seed}/loses damaged").randrange(2) == 0,
    )


def with_lost_majorities(seed: int, options: SimOptions) -> SimOptions:
    """Return the options with what the activity "unclean" needs, if that goes on."""
    if "unclean" not in options.activities:
        return options
    chance = random.Random(f"{seed}/session timeout")
    return replace(
        options,
        brokers=max(UNCLEAN_BROKERS_MIN, options.brokers),
        session_timeout_ms=chance.choice(UNCLEAN_SESSION_TIMEOUTS_MS),
    )


def draw_options(seed: int, base: SimOptions | None = None) -> SimOptions:
    """Return options in which the seed decides what `base` need not say.

    Drawn are the activities, `min_insync`, `between_ms`, `in_flight`, `snapshot_records` and
    `steady_clocks`: whatever is on in every run hides what happens only without it.
    """
    base = base or SimOptions()
    chance = random.Random(f"{seed}/options")
    apart = (*_LATER, *_LONG_ONLY, *_ASKED_FOR, "lock")
    known = [each for each in ACTIVITIES if each not in apart]
    drawn = [each for each in known if chance.randrange(3) == 0]
    drawn += [each for each, one_in in _LATER.items() if _is_one_in(one_in, seed, each)]
    if random.Random(f"{seed}/lock").randrange(_LOCK_ONE_IN) == 0:
        drawn.append("lock")
    if base.duration_ms >= LONG_RUN.duration_ms:
        drawn = [each for each in drawn if _is_one_in(_LONG_KEEPS_ONE_IN, seed, f"keeps {each}")]
        drawn += [each for each in _LONG_ONLY if _is_one_in(_LONG_ONLY_ONE_IN, seed, each)]
    return replace(
        base,
        activities=tuple(drawn),
        min_insync=chance.choice((1, 1, 2)) if base.brokers > 1 else 1,
        between_ms=chance.choice((500, 1_500, 1_500, 3_000)),
        steady_clocks=random.Random(f"{seed}/clocks").randrange(2) == 0,
        in_flight=random.Random(f"{seed}/in flight").choice((1, 5)),
        snapshot_records=chance.choice((4, 20, 10_000)),
    )
