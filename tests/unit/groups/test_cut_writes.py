"""Writes that are cut into several: of each, the log may only have the first ones.

A part may be refused (too large, too few replicas), and a coordinator may go between two of them.
"""

from collections.abc import Iterator

import pytest

from kafkaesque.groups.config import GroupConfig
from kafkaesque.groups.consumer.records import KeyKind, read_consumer_key
from kafkaesque.groups.consumer.topics import Partitions
from kafkaesque.groups.errors import GroupError
from kafkaesque.tables.log_table import Append, LogRecord, RequestToken
from tests.unit.groups.consumers import FLIGHTS, NONE, ConsumerDesk, parts
from tests.unit.groups.desk import Desk
from tests.unit.groups.test_consumer_migration import BUSY, classic_group, join, offer, synced

CONFIG = GroupConfig(records_per_write_max=2)
LONG = {"session_timeout_ms": 60_000}


def desk_with_flights(count: int) -> ConsumerDesk:
    desk = ConsumerDesk(CONFIG)
    desk.topics(flights=count)
    return desk


def taken_over(desk: ConsumerDesk, keeps: int, flights: int) -> ConsumerDesk:
    """The next leader's desk; of the writes in flight the first few have made it."""
    desk.table.unload()
    log = [*desk.log, *(each for write in desk.held[:keeps] for each in write.records)]
    later = ConsumerDesk(CONFIG, log=log)
    later.topics(flights=flights)
    return later


def enter_later(desk: ConsumerDesk, member_id: str) -> RequestToken:
    """Join while writes are held."""
    return desk.send(
        member_id, 0, topic_names=("flights",), rebalance_timeout_ms=30_000, owned=frozenset()
    )


def kinds_of(records: tuple[LogRecord, ...]) -> list[tuple[KeyKind, str]]:
    keys = (read_consumer_key(record.key) for record in records)
    return [(key.kind, key.name) for _, key in filter(None, keys)]


def live_keys(desk: Desk) -> list[bytes]:
    last = {record.key: record.value for record in desk.log}
    return [key for key, value in last.items() if value is not None]


def shares(desk: ConsumerDesk, *member_ids: str) -> list[Partitions]:
    """Let everybody join anew and settle; return who has what."""
    for member_id in member_ids:
        assert desk.enter(member_id).error is NONE
    desk.settle(*member_ids)
    return [desk.assigned(member_id) for member_id in member_ids]


def second_member_in_parts() -> ConsumerDesk:
    """One member is stored, and the write in which a second one comes is held, in three parts."""
    desk = desk_with_flights(5)
    desk.enter("m1")
    desk.holds_writes = True
    enter_later(desk, "m2")
    assert [kinds_of(write.records) for write in desk.held] == [
        [(KeyKind.GROUP, ""), (KeyKind.MEMBER, "m2")],
        [(KeyKind.TARGET_MEMBER, "m1"), (KeyKind.TARGET_MEMBER, "m2")],
        [(KeyKind.TARGET, ""), (KeyKind.CURRENT, "m2")],
    ]
    return desk


# -- the parts of one write


def test_a_part_that_is_refused_takes_all_that_follow_with_it() -> None:
    desk = second_member_in_parts()
    first, *others = [write for write in desk.held if isinstance(write, Append)]
    assert first.follows is None
    assert [each.follows for each in others] == [first.token, others[0].token]
    before = list(desk.log)
    desk.fail_held()
    assert not desk.held
    assert desk.log == before
    desk.holds_writes = False
    assert desk.beat("m1", 1, owned=parts(FLIGHTS, 0, 1, 2, 3, 4)).error is NONE
    assert set(desk.next_desk().group().members) == {"m1", "m2"}


@pytest.mark.parametrize("keeps", [0, 1, 2, 3])
@pytest.mark.parametrize("fails", [False, True], ids=["in flight", "refused"])
def test_a_coordinator_that_takes_over_gives_everybody_a_share(fails: bool, keeps: int) -> None:
    desk = second_member_in_parts()
    if fails:
        desk.fail_held()
    later = taken_over(desk, keeps, flights=5)
    assert sorted(map(len, shares(later, "m1", "m2"))) == [2, 3]


@pytest.mark.parametrize("keeps", [0, 1, 2, 3])
@pytest.mark.parametrize("fails", [False, True], ids=["in flight", "refused"])
def test_of_a_member_that_left_before_it_was_stored_nothing_stays(fails: bool, keeps: int) -> None:
    desk = second_member_in_parts()
    if fails:
        desk.fail_held()
    desk.send("m2", -1)
    later = taken_over(desk, keeps, flights=5)
    later.enter("m3")
    later.advance(CONFIG.consumer.session_timeout_ms)
    later.enter("m3")
    later.beat("m3", -1)
    later.advance(CONFIG.offsets_retention_check_interval_ms)
    assert later.table.group_count == 0
    assert live_keys(later) == []


def test_a_record_that_would_make_a_write_too_large_begins_the_next_one() -> None:
    desk = ConsumerDesk(GroupConfig(write_bytes_max=400))
    desk.topics(flights=1)
    desk.enter("m", topic_expression="x" * 350)
    sizes = [
        [len(record.key) + len(record.value or b"") for record in write.records]
        for write in desk.written
    ]
    assert [each for each in sizes if sum(each) > 400 and len(each) > 1] == []
    assert max(map(sum, sizes)) > 350


# -- logs in which a later part is, and an earlier one is not


def torn(*numbers: int) -> ConsumerDesk:
    """The next leader of a group whose second member was written in parts, of which it has some."""
    desk = second_member_in_parts()
    log = [*desk.log, *(each for number in numbers for each in desk.held[number].records)]
    later = ConsumerDesk(CONFIG, log=log)
    later.topics(flights=5)
    return later


@pytest.mark.parametrize("numbers", [(1,), (2,), (0, 2), (1, 2)], ids=str)
def test_a_target_of_which_parts_are_missing_is_computed_again(numbers: tuple[int, ...]) -> None:
    later = torn(*numbers)
    assert sorted(map(len, shares(later, "m1", "m2"))) == [2, 3]
    ended = later.group()
    assert ended.epoch == ended.target_epoch


@pytest.mark.parametrize("numbers", [(1,), (2,), (1, 2)], ids=str)
def test_what_is_stored_of_nobody_is_deleted(numbers: tuple[int, ...]) -> None:
    later = torn(*numbers)
    assert set(later.group().members) == {"m1"}
    assert later.enter("m1").error is NONE
    of_nobody = {
        key.name
        for _, key in filter(None, map(read_consumer_key, live_keys(later)))
        if key.name not in ("", "m1")
    }
    assert of_nobody == set()


def test_a_member_whose_part_of_the_target_is_missing_gets_one() -> None:
    desk = desk_with_flights(1)
    desk.enter("m")
    desk.log = [each for each in desk.log if kinds_of((each,)) != [(KeyKind.TARGET_MEMBER, "m")]]
    later = taken_over(desk, 0, flights=1)
    later.beat("m", 1)
    assert later.group().target["m"] == parts(FLIGHTS, 0)


# -- from one kind to the other


def while_upgraded() -> Iterator[tuple[ConsumerDesk, list[str]]]:
    """Two classic members that go on consuming, and coordinators that have more and more of it."""
    desk = desk_with_flights(4)
    members = classic_group(desk, (0, 1), (2, 3), **LONG)
    desk.holds_writes = True
    enter_later(desk, "new")
    assert len(desk.held) > 3
    for keeps in range(len(desk.held) + 1):
        yield taken_over(desk, keeps, flights=4), members


def test_a_group_is_upgraded_as_a_whole_or_not_at_all() -> None:
    seen = set()
    for later, (one, two) in while_upgraded():
        seen.add(later.listed()[0].group_type)
        later.enter("new")
        # None of the two has said a word, so whatever they consume is nobody else's.
        assert later.assigned(one) == parts(FLIGHTS, 0, 1)
        assert later.assigned(two) == parts(FLIGHTS, 2, 3)
        assert later.assigned("new") == frozenset()
    assert seen == {"classic", "consumer"}


def test_a_group_is_downgraded_as_a_whole_or_not_at_all() -> None:
    desk = desk_with_flights(4)
    one, two = classic_group(desk, (0, 1), (2, 3), **LONG)
    desk.enter("new")
    desk.holds_writes = True
    desk.send("new", -1)
    writes = len(desk.held)
    assert writes > 3
    seen = set()
    for keeps in range(writes + 1):
        later = taken_over(desk, keeps, flights=4)
        seen.add(later.listed()[0].group_type)
        later.enter("newer")
        assert later.assigned(one) == parts(FLIGHTS, 0, 1)
        assert later.assigned(two) == parts(FLIGHTS, 2, 3)
        assert later.assigned("newer") == frozenset()
        later.advance(later.config.offsets_retention_check_interval_ms)
        assert later.table._context.leftovers.group_ids() == []
    assert seen == {"classic", "consumer"}


def test_what_a_downgrade_could_not_store_is_what_a_new_coordinator_knows() -> None:
    desk = desk_with_flights(4)
    members = classic_group(desk, (0, 1), (2, 3), **LONG)
    desk.enter("new")
    desk.holds_writes = True
    token = desk.send("new", -1)
    desk.fail_held()
    assert not desk.held
    assert desk.answer(token).error is GroupError.COORDINATOR_NOT_AVAILABLE
    later = taken_over(desk, 0, flights=4)
    assert set(later.group().members) == {*members, "new"}


def test_what_a_classic_member_has_still_to_give_up_is_its_own_after_a_downgrade() -> None:
    desk = desk_with_flights(2)
    (one,) = classic_group(desk, (0, 1), **LONG)
    desk.enter("new")
    assert desk.heartbeat(one, 1) is BUSY
    assert len(synced(desk, one, join(desk, one, 0, 1, **LONG).generation)) == 1
    # It is told to give one up, and has not said that it did.
    desk.beat("new", -1)
    later = desk.next_desk()
    later.topics(flights=2)
    for each in (desk, later):
        assert each.listed()[0].group_type == "classic"
        each.enter("newer")
        assert each.assigned(one) == parts(FLIGHTS, 0, 1)
        assert each.assigned("newer") == frozenset()


def test_what_members_own_while_they_wait_for_an_assignment_is_not_given_away() -> None:
    desk = desk_with_flights(4)
    one, two = classic_group(desk, (0, 1), (2, 3), **LONG)
    tokens = [
        desk.join(one, protocols=offer(0, 1), **LONG),
        desk.join(two, protocols=offer(2, 3), **LONG),
    ]
    generation = desk.answer(tokens[0]).generation
    assert generation == 2
    desk.holds_writes = True
    desk.sync(one, generation, {}, protocol_name="cooperative-sticky")
    desk.fail_held()
    assert desk.state() == "PreparingRebalance", "what the leader has assigned could not be stored"
    desk.holds_writes = False
    desk.enter("new")
    assert desk.assigned(one) == parts(FLIGHTS, 0, 1)
    assert desk.assigned(two) == parts(FLIGHTS, 2, 3)
    assert desk.assigned("new") == frozenset()


# -- before the topics are known


def test_nobody_loses_anything_while_a_new_coordinator_knows_no_topics() -> None:
    desk = desk_with_flights(2)
    (one,) = classic_group(desk, (0, 1), **LONG)
    desk.enter("new")
    later = desk.next_desk()
    assert later.table.lacks_topics
    loading = GroupError.COORDINATOR_LOAD_IN_PROGRESS
    assert later.heartbeat(one, 1) is NONE
    assert join(later, one, 0, 1, **LONG).error is loading
    assert later.answer(later.sync(one, 1, protocol_name="cooperative-sticky")).error is loading
    assert later.answer(later.leave((one, None))).error is loading
    assert later.error("new", 2) is loading
    later.advance(50_000)
    assert set(later.group().members) == {one, "new"}, "nobody could be answered"
    later.topics(flights=2)
    assert later.assigned(one) == parts(FLIGHTS, 0, 1)
    assert later.group().epoch == desk.group().epoch
    assert later.error("new", 2) is NONE
    later.advance(120_000)
    assert later.listed()[0].state == "Empty"
