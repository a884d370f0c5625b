"""The rate at which copies are made holds on average, and a change of it counts at once."""

from kafkaesque.broker.replication.throttle import (
    CHUNK_BYTES_MIN,
    WAIT_MS_MAX,
    ReplicationThrottle,
)
from kafkaesque.model.ids import NodeId


class _Clock:
    def __init__(self) -> None:
        self.ms = 1_000

    def now_ms(self) -> int:
        return self.ms


def _send_for(throttle: ReplicationThrottle, clock: _Clock, node: NodeId, ms: int) -> int:
    sent, end = 0, clock.ms + ms
    while clock.ms < end:
        wait_ms = throttle.wait_ms(node)
        assert wait_ms <= WAIT_MS_MAX
        if wait_ms:
            clock.ms += wait_ms
        else:
            sent += throttle.bytes_max
            throttle.on_sent(node, throttle.bytes_max)
    return sent


def test_without_a_rate_nobody_waits() -> None:
    throttle = ReplicationThrottle(_Clock())  # type: ignore[arg-type]
    throttle.on_sent(NodeId(2), 1 << 40)
    assert not throttle.is_active


def test_the_leaders_rate_holds_for_all_it_sends() -> None:
    clock = _Clock()
    throttle = ReplicationThrottle(clock)  # type: ignore[arg-type]
    throttle.set_rates(100_000, {})
    sent = 0
    for _ in range(10):
        sent += _send_for(throttle, clock, NodeId(2), 1_000)
        sent += _send_for(throttle, clock, NodeId(3), 1_000)
    assert 1_900_000 <= sent <= 2_300_000


def test_a_followers_rate_holds_for_it_alone() -> None:
    clock = _Clock()
    throttle = ReplicationThrottle(clock)  # type: ignore[arg-type]
    throttle.set_rates(None, {NodeId(2): 50_000})
    assert 950_000 <= _send_for(throttle, clock, NodeId(2), 20_000) <= 1_150_000
    assert throttle.wait_ms(NodeId(3)) == 0


def test_a_rate_that_is_raised_or_taken_back_counts_at_once() -> None:
    clock = _Clock()
    throttle = ReplicationThrottle(clock)  # type: ignore[arg-type]
    throttle.set_rates(1, {})
    throttle.on_sent(NodeId(2), CHUNK_BYTES_MIN)
    assert throttle.wait_ms(NodeId(2)) == WAIT_MS_MAX
    throttle.set_rates(1_000_000_000, {})
    assert throttle.wait_ms(NodeId(2)) <= 1
    throttle.set_rates(None, {})
    assert throttle.wait_ms(NodeId(2)) == 0
