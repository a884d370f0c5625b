"""Pieces of a request: a bounded number at a time, one end."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.chassis.relief import TURN_MS_MAX
from kafkaesque.env.clock import Timer
from kafkaesque.gateway.kafka.gathering import Queue


class StillClock:
    """Time stands still unless the test moves it; what is called soon waits for the test."""

    def __init__(self) -> None:
        self.ms = 0
        self.soon: list[Callable[[], None]] = []

    def now_ms(self) -> int:
        return self.ms

    def now_ns(self) -> int:
        return self.ms * 1_000_000

    def wall_ms(self) -> int:
        return self.ms

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        raise NotImplementedError


def test_nothing_to_do_ends_at_once() -> None:
    ended: list[bool] = []
    Queue(StillClock(), [], lambda: ended.append(True)).start()
    assert ended == [True]


def test_ten_thousand_pieces_that_end_at_once_do_not_nest() -> None:
    ended: list[bool] = []
    Queue(StillClock(), [lambda done: done()] * 10_000, lambda: ended.append(True)).start()
    assert ended == [True]


@given(st.integers(0, 30), st.integers(1, 5), st.data())
def test_all_pieces_run_once_in_order_and_never_too_many(
    count: int, room: int, data: st.DataObject
) -> None:
    begun: list[int] = []
    open_pieces: list[Callable[[], None]] = []
    ended: list[int] = []

    def piece(number: int, *, at_once: bool) -> Callable[[Callable[[], None]], None]:
        def run(done: Callable[[], None]) -> None:
            begun.append(number)
            if at_once:
                done()
            else:
                open_pieces.append(done)
                assert len(open_pieces) <= room

        return run

    pieces = [piece(number, at_once=data.draw(st.booleans())) for number in range(count)]
    Queue(StillClock(), pieces, lambda: ended.append(len(begun)), room).start()
    while open_pieces:
        assert ended == []
        open_pieces.pop(data.draw(st.integers(0, len(open_pieces) - 1)))()
    assert begun == list(range(count))
    assert ended == [count]


def test_pieces_that_take_long_are_spread_over_turns() -> None:
    clock = StillClock()
    begun: list[int] = []
    waiting: list[Callable[[], None]] = []
    ended: list[bool] = []

    def slow(done: Callable[[], None]) -> None:
        begun.append(clock.ms)
        clock.ms += TURN_MS_MAX
        done()

    def late(done: Callable[[], None]) -> None:
        begun.append(clock.ms)
        waiting.append(done)

    Queue(clock, [late, slow, slow, slow], lambda: ended.append(True)).start()
    assert begun == [0, 0]
    # Something that ends meanwhile begins nothing: others are to have their turn.
    waiting.pop()()
    assert begun == [0, 0]
    clock.soon.pop()()
    assert begun == [0, 0, TURN_MS_MAX]
    assert ended == []
    clock.soon.pop()()
    assert begun == [0, 0, TURN_MS_MAX, 2 * TURN_MS_MAX]
    assert ended == [True]
    assert clock.soon == []
