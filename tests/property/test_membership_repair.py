"""Two members that compare themselves come to know the same, in as many rounds as it takes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.env.network import Address
from kafkaesque.membership.config import FRAME_BYTES
from kafkaesque.membership.digests import DigestTable
from kafkaesque.membership.entries import Fact, Member
from kafkaesque.membership.messages import SyncMode
from kafkaesque.model.ids import NodeId
from kafkaesque.sim.dice import Chance
from kafkaesque.sim.gossip.epidemics import Comparer, compare


def pair(ours: dict[str, int], theirs: dict[str, int]) -> tuple[Comparer, Comparer]:
    made = []
    for node, facts in ((1, ours), (2, theirs)):
        comparer = Comparer(NodeId(node), Chance(node))
        for each in (1, 2):
            comparer.view.merge(Member(NodeId(each), Address("host", 1), 1, 1), 0)
        for name, version in facts.items():
            comparer.view.merge(Fact(NodeId(1), name, version, version), 0)
        made.append(comparer)
    return made[0], made[1]


def facts(comparer: Comparer) -> dict[str, int]:
    return {name: fact.version for name, fact in comparer.view.facts(NodeId(1)).items()}


def newest(ours: dict[str, int], theirs: dict[str, int]) -> dict[str, int]:
    return {name: max(ours.get(name, 0), theirs.get(name, 0)) for name in {*ours, *theirs}}


def exchange(first: Comparer, second: Comparer, mode: SyncMode) -> None:
    for learner, entry in compare(first, second, mode):
        learner.view.merge(entry, 0)


TABLES = st.dictionaries(
    st.integers(0, 30).map(lambda number: f"fact{number}"), st.integers(2, 9), max_size=25
)


@given(TABLES, TABLES, st.sampled_from(SyncMode))
def test_each_mode_teaches_whom_it_is_to_teach(
    ours: dict[str, int], theirs: dict[str, int], mode: SyncMode
) -> None:
    first, second = pair(ours, theirs)
    exchange(first, second, mode)
    assert facts(first) == (newest(ours, theirs) if mode & SyncMode.PULL else ours)
    assert facts(second) == (newest(ours, theirs) if mode & SyncMode.PUSH else theirs)


def test_tables_that_no_frame_holds_become_equal_bit_by_bit() -> None:
    ours = {f"leader/{number}": 2 + number % 5 for number in range(5_000)}
    theirs = {f"leader/{number}": 2 + number % 3 for number in range(2_500, 9_000)}
    first, second = pair(ours, theirs)
    rounds = 0
    while first.view.digests.root != second.view.digests.root:
        exchange(first, second, SyncMode.PUSH_PULL)
        rounds += 1
        assert rounds < 200
    assert facts(first) == facts(second) == newest(ours, theirs)
    assert rounds > 10


def test_equal_tables_cost_one_frame() -> None:
    same = {f"fact{number}": 2 for number in range(500)}
    first, second = pair(same, same)
    first.repair.begin(second.node, second.address, SyncMode.PUSH_PULL)
    (datagram,) = first.take_datagrams()
    assert len(datagram.data) < 100 < FRAME_BYTES


@given(st.dictionaries(st.integers(0, 40), st.integers(0, 5), max_size=30), st.data())
def test_checksums_depend_on_what_there_is_and_not_on_how_it_came(
    wanted: dict[int, int], data: st.DataObject
) -> None:
    plain, devious = DigestTable(), DigestTable()
    for number, version in wanted.items():
        plain.put((NodeId(1), f"fact{number}"), version)
    for number in data.draw(st.permutations(sorted({*wanted, *range(35, 45)}))):
        key = (NodeId(1), f"fact{number}")
        devious.put(key, 99)
        devious.put(key, wanted.get(number, 98))
        if number not in wanted:
            devious.remove(key)
    assert plain.root == devious.root
    assert plain.differing(devious.checksums()) == []


def learn_despite(names: list[str], refused: set[str], rounds: int) -> set[str]:
    """Push facts to one who never takes some of them in; returns what it has in the end."""
    first, second = pair(dict.fromkeys(names, 2), {})
    for _ in range(rounds):
        for learner, entry in compare(first, second, SyncMode.PUSH):
            if isinstance(entry, Fact) and entry.name not in refused:
                learner.view.merge(entry, 0)
    return set(facts(second))


def test_what_one_side_never_takes_in_holds_up_no_other_bucket() -> None:
    names = [f"leader/{number}" for number in range(2_000)]
    wanted = set(names[::20])
    assert learn_despite(names, set(names) - wanted, 600) == wanted


def test_what_one_side_never_takes_in_holds_up_nothing_in_its_bucket() -> None:
    table = DigestTable()
    for number in range(40_000):
        table.put((NodeId(1), f"leader/{number}"), 2)
    names = [name for _, name in table.versions(7)]
    assert len(names) > 120, "more than a frame has room for"
    wanted = set(names[-5:])
    assert learn_despite(names, set(names) - wanted, 60) == wanted
