"""A request over an older connection than its producer speaks over now is a late one."""

from kafkaesque.transactions.connection_fence import ConnectionFence

P = 4_000


def test_who_has_spoken_over_a_newer_connection_is_not_heard_over_the_older_one() -> None:
    fence = ConnectionFence(10)
    assert not fence.is_late(P, 0, 7)
    fence.note(P, 0, 7)
    assert not fence.is_late(P, 0, 7)
    assert not fence.is_late(P, 0, 8)
    fence.note(P, 0, 8)
    assert fence.is_late(P, 0, 7)
    assert not fence.is_late(P + 1, 0, 7), "somebody else"


def test_a_new_incarnation_may_have_connected_long_ago() -> None:
    fence = ConnectionFence(10)
    fence.note(P, 0, 7)
    assert not fence.is_late(P, 1, 2)
    fence.note(P, 1, 2)
    assert not fence.is_late(P, 1, 2)
    assert fence.is_late(P, 0, 9), "the one before"
    fence.note(P, 0, 9)
    assert not fence.is_late(P, 1, 2), "which cannot shut it out"


def test_who_was_silent_for_longest_is_forgotten_first() -> None:
    fence = ConnectionFence(2)
    for producer_id in (1, 2, 1, 3):
        fence.note(producer_id, 0, 7)
    assert [fence.is_late(each, 0, 6) for each in (1, 2, 3)] == [True, False, True]
