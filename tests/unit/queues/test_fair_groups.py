"""A queue that is fair among groups: who has fewest messages in flight is served first."""

from collections.abc import Iterator
from typing import Any

import pytest

from kafkaesque.model.errors import InvalidConfig
from kafkaesque.queues.offset_set import OffsetSet
from kafkaesque.queues.policy import Policy
from kafkaesque.queues.requests import Configure, GiveBack
from tests.unit.queues.queue_host import PLAIN, Message, QueueHost


def fair_queue() -> QueueHost:
    return QueueHost(policy=Policy(is_fair_by_group=True))


def test_a_group_with_a_backlog_does_not_let_the_others_wait() -> None:
    host = fair_queue()
    for _ in range(40):
        busy = host.put(*[Message(group=b"busy")] * 500)
    first, second = host.put(Message(group=b"a"), Message(group=b"b"))
    assert not {first, second} & set(host.take_offsets(4)), "no more than 8,192 are looked at"
    found = host.take_offsets(4, wait_ms=10_000) + host.take_offsets(4) + host.take_offsets(4)
    assert {first, second} < set(found)
    assert host.take_offsets(1)[0] < busy[0], "nothing is held back where nobody else waits"


def test_who_has_fewest_messages_in_flight_is_served_first() -> None:
    host = fair_queue()
    a, b = Message(group=b"a"), Message(group=b"b")
    a1, a2, a3, a4, a5 = host.put(a, a, a, a, a)
    assert host.take_offsets(3) == [a1, a2, a3], "the only one has all"
    b1, b2, b3, b4, plain = host.put(b, b, b, b, PLAIN)
    assert host.take_offsets(1) == [b1]
    assert host.take_offsets(1) == [plain], "what has no group is a group of its own"
    assert host.take_offsets(2) == [b2, b3]
    assert sorted(host.take_offsets(2)) == [a4, b4]
    assert host.take_offsets(2) == [a5]


def test_no_more_groups_are_looked_at_than_have_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    host = fair_queue()
    groups = [Message(group=b"%d" % number) for number in range(500)]
    host.put(*groups, *groups, *groups)
    assert len(host.take(500)) == 500
    host.take(1)
    looked_at: list[OffsetSet] = []
    real = OffsetSet.offsets

    def offsets(self: OffsetSet) -> Iterator[int]:
        looked_at.append(self)
        return real(self)

    monkeypatch.setattr(OffsetSet, "offsets", offsets)
    assert len(host.table.state.fair_groups.next_offsets(3)) == 3
    assert len(looked_at) == 3


def test_messages_of_a_group_are_given_back_to_it() -> None:
    host = fair_queue()
    a, b = Message(group=b"a"), Message(group=b"b")
    a1, _, b1 = host.put(a, a, b)
    claims = host.take(2)
    assert [claim.first for claim in claims] == [a1, b1]
    host.new_leader()
    host.ask(GiveBack, claims=claims)
    assert host.take_offsets(2) == [a1, b1]


def test_a_queue_may_stop_to_be_fair_while_messages_wait() -> None:
    host = fair_queue()
    a, b = Message(group=b"a"), Message(group=b"b")
    a1, a2, a3, b1 = host.put(a, a, a, b)
    assert host.take_offsets(1) == [a1]
    host.ask(Configure, policy=Policy())
    assert host.take_offsets(3) == [a2, a3, b1]


@pytest.mark.parametrize("more", [{"is_ordered": True}, {"priorities": 3}])
def test_what_is_ordered_otherwise_is_not_fair_among_groups(more: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfig, match="not given to groups in turn"):
        Policy(is_fair_by_group=True, **more).check()
