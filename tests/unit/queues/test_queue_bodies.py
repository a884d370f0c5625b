"""Messages of a queue are read from its log in pieces, and each piece once."""

import pytest

from kafkaesque.broker.queues.bodies import KEPT_BYTES_MAX, Bodies, Found, OnRead
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.errors import RequestRefused, StorageFailed
from kafkaesque.model.records import Record

PIECE = 5


class Log:
    """Batches at their offsets, of which five are read at a time."""

    def __init__(self, *batches: tuple[int, ...], size: int = 10) -> None:
        self.batches = [
            (
                each[-1] + 1,
                bytes(
                    encode_batch(
                        [Record(at, 0, None, b"%d" % at * size, ()) for at in each],
                        BatchOptions(base_offset=each[0]),
                    )
                ),
            )
            for each in batches
        ]
        self.reads: list[int] = []
        self.damaged: list[int] = []
        self.has_copies = True
        self.bodies = Bodies(self.locate, self.on_damaged)

    def on_damaged(self, offset: int) -> bool:
        self.damaged.append(offset)
        return self.has_copies

    def damage(self, number: int, at: int = -1) -> None:
        """Flip a bit of a batch."""
        end, data = self.batches[number]
        damaged = bytearray(data)
        damaged[at] ^= 1
        self.batches[number] = end, bytes(damaged)

    def locate(self, offset: int, on_read: OnRead) -> None:
        self.reads.append(offset)
        on_read(b"".join([data for end, data in self.batches if end > offset][:PIECE]))

    def read(self, *offsets: int, bytes_max: int = 10**9) -> tuple[list[int], list[int]]:
        answers: list[Found | RequestRefused] = []
        self.bodies.read(offsets, bytes_max, answers.append)
        (found,) = answers
        assert isinstance(found, Found)
        assert all((b"%d" % at) in (each.value or b"") for at, each in found.records.items())
        return list(found.records), list(found.left)


def test_a_piece_is_read_once_for_the_batches_in_it() -> None:
    log = Log(*[tuple(range(at, at + 10)) for at in range(0, 120, 10)])
    for at in range(0, 120, 10):
        assert log.read(*range(at, at + 10)) == (list(range(at, at + 10)), [])
    assert log.reads == [0, 50, 100]


def test_what_is_between_batches_is_not_looked_for_again() -> None:
    log = Log((0, 1), (5, 6), (9, 11))
    assert log.read(0, 2, 3, 4, 6, 7, 8, 9, 10, 11) == ([0, 6, 9, 11], [])
    assert log.reads == [0]


def test_what_is_after_the_log_is_looked_for_each_time() -> None:
    log = Log((0, 1))
    assert log.read(0, 1, 2) == ([0, 1], [2])
    log.batches += Log((2,)).batches
    assert log.read(2) == ([2], [])
    assert log.reads == [0, 2, 2]


def test_what_is_forgotten_is_read_again() -> None:
    log = Log((0,), (1,), (2,))
    assert log.read(0) == ([0], [])
    log.bodies.forget()
    log.batches[1] = (2, Log((1,), size=20).batches[0][1])
    found: list[Found | RequestRefused] = []
    log.bodies.read([1], 10**9, found.append)
    assert isinstance(found[0], Found)
    assert found[0].records[1].value == b"1" * 20


def test_a_long_batch_is_not_kept() -> None:
    log = Log((0, 1), size=KEPT_BYTES_MAX)
    assert log.read(0, 1) == ([0, 1], [])
    assert log.read(0) == ([0], [])
    assert log.reads == [0, 0]


def test_messages_for_which_there_is_no_room_are_left() -> None:
    log = Log((0, 1), (2, 3))
    assert log.read(0, 1, 2, 3, bytes_max=1) == ([0], [1, 2, 3])
    assert log.read(1, 2, 3, bytes_max=100) == ([1, 2], [3])
    assert log.reads == [0]


def test_what_was_read_before_the_log_was_cut_is_read_again() -> None:
    log, reads = Log((0,), (1,), (2,)), list[tuple[int, OnRead]]()
    before = b"".join(data for _, data in log.batches)
    log.bodies.locate = lambda offset, on_read: reads.append((offset, on_read))
    found: list[Found | RequestRefused] = []
    log.bodies.read([1, 2], 10**9, found.append)
    log.bodies.forget()
    log.batches[1:] = Log((1,), (2,), size=20).batches
    reads.pop()[1](before)
    assert not found
    offset, on_read = reads.pop()
    assert offset == 1
    on_read(b"".join(data for _, data in log.batches[1:]))
    assert isinstance(found[0], Found)
    assert [each.value for each in found[0].records.values()] == [b"1" * 20, b"2" * 20]


#: Of a batch's bytes: no checksum covers those of its offset.
LAST_BYTE, OFFSET_BYTE = -1, 7


def refused(log: Log, *offsets: int) -> RequestRefused:
    answers: list[Found | RequestRefused] = []
    log.bodies.read(offsets, 10**9, answers.append)
    (refusal,) = answers
    assert isinstance(refusal, RequestRefused)
    return refusal


@pytest.mark.parametrize("at", [LAST_BYTE, OFFSET_BYTE])
def test_what_is_damaged_is_not_gone(at: int) -> None:
    log = Log((0,), (1,), (2,))
    log.damage(0, at)
    assert type(refused(log, 0, 1)) is StorageFailed
    assert (log.reads, log.damaged) == ([0, 0], [0])


def test_what_comes_before_damage_is_had() -> None:
    log = Log((0,), (1,), (2,))
    log.damage(1)
    assert log.read(0, 1, 2) == ([0], [1, 2])
    assert log.damaged == [1]
    assert type(refused(log, 1, 2)) is StorageFailed


def test_what_is_whole_when_it_is_read_again_was_not_damaged() -> None:
    log = Log((0,), (1,))
    whole = log.batches[0]
    log.damage(0)
    found: list[Found | RequestRefused] = []

    def repair(offset: int, on_read: OnRead) -> None:
        damaged, log.batches = log.batches, [whole, *log.batches[1:]]
        on_read(b"".join(data for _, data in damaged))

    log.bodies.locate = repair
    log.bodies.read([0, 1], 10**9, found.append)
    assert isinstance(found[0], Found)
    assert list(found[0].records) == [0, 1]
    assert not log.damaged


def test_damage_without_another_copy_is_a_message_that_is_gone() -> None:
    log = Log((0,), (1,), (2,))
    log.damage(1)
    log.has_copies = False
    assert log.read(0, 1, 2) == ([0, 2], [])
    assert log.damaged == [1]
