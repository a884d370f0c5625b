"""Pieces of a request: a bounded number at a time, one end."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.gateway.kafka.gathering import Queue


def test_nothing_to_do_ends_at_once() -> None:
    ended: list[bool] = []
    Queue([], lambda: ended.append(True)).start()
    assert ended == [True]


def test_ten_thousand_pieces_that_end_at_once_do_not_nest() -> None:
    ended: list[bool] = []
    Queue([lambda done: done()] * 10_000, lambda: ended.append(True)).start()
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
    Queue(pieces, lambda: ended.append(len(begun)), room).start()
    while open_pieces:
        assert ended == []
        open_pieces.pop(data.draw(st.integers(0, len(open_pieces) - 1)))()
    assert begun == list(range(count))
    assert ended == [count]
