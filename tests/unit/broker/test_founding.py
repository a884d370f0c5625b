"""An empty controller finds out whether the cluster is new."""

from dataclasses import dataclass, field

from kafkaesque.broker.controller.founding import (
    FOUNDING_MS,
    GRACE_MS,
    Decision,
    Founding,
    GroupState,
)
from kafkaesque.broker.peers.controller_word import NOTHING
from kafkaesque.broker.peers.controller_word import SETTLED as HAS_LOG
from kafkaesque.model.ids import NodeId
from kafkaesque.sim.env import World
from kafkaesque.sim.loop import SimLoop

CONTROLLERS = (NodeId(1), NodeId(2), NodeId(3))
FRESH = GroupState(is_empty=True, term=0)
SETTLED = GroupState(is_empty=False, term=5, has_log=True)
NEW = [Decision(is_amnesiac=False, term=0)]


@dataclass
class One:
    """A controller and what it has decided."""

    node: NodeId
    founding: Founding
    incarnation: int
    sequence: int = 0
    seen: dict[NodeId, int] = field(default_factory=dict)
    decided: list[Decision] = field(default_factory=list)
    state: GroupState = GroupState(is_empty=True, term=0)


class Ring:
    """Controllers that hear one another's heartbeats when the test says so."""

    def __init__(self) -> None:
        world = World(1)
        self.loop: SimLoop = world.loop
        self.clock = world.add_machine("m").boot().clock
        self.reports: list[str] = []
        self.all: dict[NodeId, One] = {}
        self.incarnations = 0

    def start(
        self,
        node: int,
        *,
        state: GroupState = FRESH,
        among: tuple[NodeId, ...] = CONTROLLERS,
    ) -> One:
        self.incarnations += 1
        founding = Founding(
            node=NodeId(node),
            incarnation=self.incarnations,
            founders=among,
            is_fresh=state == FRESH,
            group_state=lambda: self.all[NodeId(node)].state,
            clock=self.clock,
            on_decided=lambda decision: self._on_decided(NodeId(node), decision),
            report=self.reports.append,
        )
        one = One(NodeId(node), founding, self.incarnations, state=state)
        self.all[one.node] = one
        founding.start()
        return one

    def wait(self) -> None:
        """Let the time pass in which nobody founds a cluster."""
        self.loop.run_for(FOUNDING_MS + 1)

    def _on_decided(self, node: NodeId, decision: Decision) -> None:
        one = self.all[node]
        one.decided.append(decision)
        one.state = one.state._replace(term=max(one.state.term, decision.term))

    def beat(self, sender: int, *receivers: int) -> None:
        """Let heartbeats arrive."""
        one = self.all[NodeId(sender)]
        one.sequence += 1
        for receiver in receivers:
            other = self.all[NodeId(receiver)]
            word = one.founding.word_for(other.node)
            echoed = one.seen.get(other.node, 0)
            other.seen[one.node] = one.sequence
            other.founding.on_word(
                one.node,
                one.incarnation,
                word,
                own_sequence=other.sequence,
                echoed_sequence=echoed,
            )

    def beat_all(self, times: int = 1) -> None:
        for _ in range(times):
            for node in self.all:
                self.beat(node, *(other for other in self.all if other != node))


def test_three_empty_ones_are_a_new_cluster() -> None:
    ring = Ring()
    three = [ring.start(node) for node in (1, 2, 3)]
    ring.wait()
    ring.beat_all(6)
    assert [one.decided for one in three] == [NEW] * 3


def test_without_all_controllers_nothing_is_decided() -> None:
    ring = Ring()
    two = [ring.start(node) for node in (1, 2)]
    ring.wait()
    ring.beat_all(10)
    ring.loop.run_for(60_000)
    assert [one.decided for one in two] == [[], []]
    assert "controller(s) 3 to say" in ring.reports[-1]
    assert len(ring.reports) > 4


def test_a_single_controller_is_new_by_itself_and_one_with_a_log_asks_nobody() -> None:
    ring = Ring()
    single = ring.start(1, among=(NodeId(1),))
    assert not single.decided, "another broker may know of a cluster"
    ring.wait()
    assert single.decided == NEW
    assert ring.start(1, state=SETTLED).decided == NEW


def test_who_is_no_founder_is_amnesiac_at_once_and_forbids_nothing_before_it_has_a_log() -> None:
    ring = Ring()
    four = ring.start(4)
    assert [decision.is_amnesiac for decision in four.decided] == [True]
    four.state = GroupState(is_empty=False, term=0)
    assert four.founding.word_for(NodeId(1)).standing == NOTHING
    three = [ring.start(node) for node in (1, 2, 3)]
    ring.wait()
    ring.beat_all(6)
    assert [one.decided for one in three] == [NEW] * 3
    four.state = SETTLED
    assert four.founding.word_for(NodeId(1)).standing == HAS_LOG


def test_a_log_at_any_broker_forbids_a_founding_even_if_only_one_hears_of_it() -> None:
    """The controllers have changed, and those in the files have all lost their disks."""
    ring = Ring()
    ring.start(4, state=SETTLED)
    three = [ring.start(node) for node in (1, 2, 3)]
    ring.beat_all(6)
    ring.beat(4, 1)
    ring.all.pop(NodeId(4))
    ring.beat_all(6)
    ring.loop.run_for(GRACE_MS + 1)
    ring.beat_all(6)
    for one in three:
        (decision,) = one.decided
        assert decision.is_amnesiac
    assert three[0].decided[0].settled == 4


def test_nothing_is_founded_before_others_had_the_time_to_say_what_they_have() -> None:
    ring = Ring()
    three = [ring.start(node) for node in (1, 2, 3)]
    ring.beat_all(6)
    assert not any(one.decided for one in three)
    ring.wait()
    ring.beat_all(1)
    assert [one.decided for one in three] == [NEW] * 3


def test_an_empty_one_in_an_older_cluster_is_amnesiac() -> None:
    ring = Ring()
    ring.start(1, state=SETTLED)
    empty = ring.start(2)
    ring.beat_all(3)
    assert not empty.decided, "somebody may have counted it"
    ring.loop.run_for(GRACE_MS + 1)
    assert [decision.is_amnesiac for decision in empty.decided] == [True]


def test_one_that_was_counted_by_another_takes_part() -> None:
    ring = Ring()
    one, two, _ = (ring.start(node) for node in (1, 2, 3))
    ring.wait()
    for _ in range(6):  # 2 hears nobody yet
        ring.beat(1, 3)
        ring.beat(2, 1, 3)
        ring.beat(3, 1)
    # It was counted, but nobody has proof yet that it hears anybody.
    assert (one.decided, two.decided) == ([], [])
    ring.beat(1, 2)
    ring.beat(3, 2)
    for _ in range(4):
        ring.beat(1, 3)
        ring.beat(2, 1)
        ring.beat(3, 1)
    assert one.decided == NEW
    ring.beat(1, 2)
    assert two.decided == NEW


def test_who_was_counted_before_it_lost_its_disk_is_not_counted_any_more() -> None:
    ring = Ring()
    one = ring.start(1)
    for node in (2, 3):
        ring.start(node)
    ring.wait()
    ring.beat_all(6)
    assert one.decided == NEW
    one.state = ring.all[NodeId(3)].state = SETTLED
    again = ring.start(2)
    ring.beat_all(4)
    assert not again.decided
    ring.loop.run_for(GRACE_MS + 1)
    assert [decision.is_amnesiac for decision in again.decided] == [True]


def test_a_word_from_before_a_start_does_not_prove_anything() -> None:
    """3 was empty before 2 was started; the two may have promised something together before."""
    ring = Ring()
    one = ring.start(1)
    ring.start(3)
    for _ in range(5):
        ring.beat(1, 3)
        ring.beat(3, 1)
    ring.loop.run_for(FOUNDING_MS - 1)
    two = ring.start(2)
    ring.beat(2, 1)
    ring.beat(1, 2)
    ring.beat(2, 1)
    assert not one.decided
    assert not two.decided
    ring.all[NodeId(3)].founding.stop()
    ring.all[NodeId(3)].state = SETTLED
    ring.beat(3, 1)
    ring.loop.run_for(GRACE_MS + 1)
    assert [decision.is_amnesiac for decision in one.decided] == [True]


def test_timers_end_with_it() -> None:
    ring = Ring()
    one = ring.start(1)
    one.founding.stop()
    ring.loop.run_for(60_000)
    assert not ring.reports
    assert not one.decided


def test_a_cluster_that_was_stopped_while_it_was_founded_is_founded_by_the_next_start() -> None:
    """1 had asked for votes in term 2; the others had decided nothing."""
    ring = Ring()
    one = ring.start(1, state=GroupState(is_empty=True, term=2))
    two, three = ring.start(2), ring.start(3)
    assert one.decided == NEW, "it remembers"
    ring.wait()
    ring.beat_all(6)
    # They may have given it their votes, and have forgotten that.
    assert two.decided == three.decided == [Decision(is_amnesiac=False, term=2)]


def test_who_is_counted_by_another_gives_no_votes_in_older_terms_either() -> None:
    ring = Ring()
    ring.start(1, state=GroupState(is_empty=True, term=2))
    two, three = ring.start(2), ring.start(3)
    ring.wait()
    for _ in range(6):
        ring.beat(1, 3)
        ring.beat(2, 1, 3)
        ring.beat(3, 1, 2)
    assert three.decided == [Decision(is_amnesiac=False, term=2)]
    assert two.decided == [Decision(is_amnesiac=False, term=2)]
