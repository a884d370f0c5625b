"""Times that were set for one group: what its members are told, and when they are missed."""

from kafkaesque.groups.consumer.config import ConsumerTimes
from tests.unit.groups.consumers import ConsumerDesk
from tests.unit.groups.desk import GROUP

SLOW = ConsumerTimes(session_timeout_ms=90_000, heartbeat_interval_ms=60_000)


def new_desk(times: dict[str, ConsumerTimes]) -> ConsumerDesk:
    desk = ConsumerDesk(times=times)
    desk.topics(flights=4)
    return desk


def test_members_are_told_the_interval_of_their_group() -> None:
    times: dict[str, ConsumerTimes] = {}
    desk = new_desk(times)
    epoch = desk.enter("a").member_epoch
    assert desk.beat("a", epoch).heartbeat_interval_ms == 5_000
    times[GROUP] = SLOW
    assert desk.beat("a", epoch).heartbeat_interval_ms == 60_000
    assert desk.enter("z", group_id="other").heartbeat_interval_ms == 5_000
    del times[GROUP]
    assert desk.beat("a", epoch).heartbeat_interval_ms == 5_000


def test_a_member_is_missed_after_the_timeout_of_its_group() -> None:
    times = {GROUP: SLOW}
    desk = new_desk(times)
    epoch = desk.enter("a").member_epoch
    desk.advance(89_999)
    assert list(desk.group().members) == ["a"]
    times.clear()
    # It has been given its time; the next heartbeat gives it the other one.
    desk.beat("a", epoch)
    desk.advance(44_999)
    assert list(desk.group().members) == ["a"]
    desk.advance(1)
    assert not desk.group().members


def test_the_next_leader_gives_members_the_time_of_their_group() -> None:
    desk = new_desk({GROUP: SLOW})
    desk.enter("a")
    later = ConsumerDesk(log=desk.log, times={GROUP: SLOW})
    later.topics(flights=4)
    later.advance(89_999)
    assert list(later.group().members) == ["a"]
    later.advance(1)
    assert not later.group().members


def test_a_group_is_not_assigned_anew_within_its_interval() -> None:
    interval = ConsumerTimes(
        session_timeout_ms=45_000, heartbeat_interval_ms=5_000, assignment_interval_ms=2_000
    )
    desk = new_desk({GROUP: interval})
    epoch = desk.enter("a").member_epoch
    desk.enter("b")
    assert desk.group().target_epoch == epoch
    desk.advance(1_999)
    desk.beat("a", epoch)
    assert desk.group().target_epoch == epoch
    desk.advance(1)
    desk.beat("a", epoch)
    assert desk.group().target_epoch == epoch + 1
