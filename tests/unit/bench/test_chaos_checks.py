"""Each checker of bench.chaos finds what it is there for, in a history with exactly that in it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.chaos.checks import Evidence, Partition, check_everything
from bench.chaos.history import Entry, History, Outcome, Transaction, Where, make_value

PLAIN: Where = ("plain", 0)
LEDGER: Where = ("ledger", 0)
TABLE: Where = ("table", 0)


class Story:
    """A history and logs, made record by record."""

    def __init__(self) -> None:
        self.history = History()
        self.logs: dict[bool, dict[Where, Partition]] = {False: {}, True: {}}
        self.lock: list[Entry] = []
        self._polls = 0
        for where in (PLAIN, LEDGER, TABLE):
            for log in self.logs.values():
                log[where] = Partition()

    def send(
        self,
        offset: int | None,
        *,
        where: Where = PLAIN,
        acknowledged: bool = True,
        said: int | None = None,
        key: bytes | None = None,
        transaction: Transaction | None = None,
        producer: str = "p",
        is_visible: bool = True,
    ) -> int:
        """A record is sent, and stands at an offset or nowhere; it is told to stand at `said`."""
        number = self.history.send(producer, where, key=key, transaction=transaction)
        if offset is not None:
            self.put(number, offset, where, is_visible=is_visible)
        if acknowledged:
            self.history.acknowledge(number, said if said is not None else offset or 0)
        return number

    def put(self, number: int, offset: int, where: Where = PLAIN, *, is_visible: bool) -> None:
        """A record stands at an offset."""
        self.logs[False][where].add(offset, number)
        if is_visible:
            self.logs[True][where].add(offset, number)

    def poll(
        self,
        *given: tuple[int, int],
        where: Where = PLAIN,
        reader: str = "r",
        is_committed: bool = False,
        assignment: int = 0,
    ) -> None:
        """One poll gives offsets with the records of these numbers."""
        self._polls += 1
        reading = self.history.reading(reader, where, is_committed=is_committed)
        for offset, number in given:
            self.history.read(
                reading,
                offset,
                make_value(number, 10),
                poll=self._polls,
                assignment=assignment,
            )

    def transact(self, outcome: Outcome) -> Transaction:
        """A transaction that the producer has asked to commit, if it was not aborted."""
        transaction = self.history.begin("t")
        if outcome is not Outcome.ABORTED:
            self.history.ask_commit(transaction)
        transaction.outcome = outcome
        return transaction

    def judge(self) -> list[str]:
        """Return what the checkers say."""
        return check_everything(
            Evidence(
                history=self.history,
                log=self.logs[False],
                committed=self.logs[True],
                compacted=frozenset({"table"}),
                transactional=frozenset({"ledger"}),
                lock=self.lock,
            )
        )


def a_lost_write(story: Story) -> None:
    story.send(0)
    story.send(None, said=1)
    story.send(1)


def a_lost_commit(story: Story) -> None:
    story.send(None, where=LEDGER, said=0, transaction=story.transact(Outcome.COMMITTED))


def a_lost_newest_of_a_key(story: Story) -> None:
    story.send(0, where=TABLE, key=b"k")
    story.send(None, where=TABLE, key=b"k", said=1)


def a_lost_newest_of_a_key_without_an_offset(story: Story) -> None:
    story.send(0, where=TABLE, key=b"k")
    story.send(None, where=TABLE, key=b"k", said=-1)
    story.send(2, where=TABLE, key=b"l")


def an_unseen_record(story: Story) -> None:
    story.send(0)
    story.send(1)
    story.poll((0, 0))


def a_duplicate(story: Story) -> None:
    number = story.send(0)
    story.put(number, 1, is_visible=True)


def an_inconsistent_acknowledgement(story: Story) -> None:
    story.send(0)
    story.send(1, said=2)
    story.send(2)


def an_inconsistent_reading(story: Story) -> None:
    story.send(0)
    story.send(1)
    story.poll((0, 0))
    story.poll((1, 0))


def a_spurious_zero(story: Story) -> None:
    story.send(0)
    story.send(1, said=0)


def an_unsent_record(story: Story) -> None:
    story.put(-2, 0, is_visible=True)


def a_record_in_another_partition(story: Story) -> None:
    story.put(story.send(None, where=TABLE, acknowledged=False), 0, PLAIN, is_visible=True)


def an_aborted_read(story: Story) -> None:
    story.send(0, where=LEDGER, transaction=story.transact(Outcome.ABORTED))


def an_aborted_read_that_is_gone(story: Story) -> None:
    transaction = story.transact(Outcome.ABORTED)
    transaction.commit_asked_at = 0.0
    number = story.send(0, where=LEDGER, transaction=transaction, is_visible=False)
    story.poll((0, number), where=LEDGER, is_committed=True)


def a_precommitted_read(story: Story) -> None:
    transaction = story.history.begin("t")
    number = story.send(0, where=LEDGER, transaction=transaction)
    story.poll((0, number), where=LEDGER, is_committed=True)
    story.history.ask_commit(transaction)
    transaction.outcome = Outcome.COMMITTED


def a_torn_transaction(story: Story) -> None:
    transaction = story.transact(Outcome.UNKNOWN)
    story.send(0, where=LEDGER, transaction=transaction)
    story.send(1, where=LEDGER, transaction=transaction, is_visible=False)


def a_poll_skip(story: Story) -> None:
    numbers = [story.send(offset) for offset in range(3)]
    story.poll((0, numbers[0]))
    story.poll((2, numbers[2]))
    story.poll((0, 0), (1, 1), (2, 2), reader="r", assignment=1)


def an_internal_poll_skip(story: Story) -> None:
    numbers = [story.send(offset) for offset in range(3)]
    story.poll((0, numbers[0]), (2, numbers[2]))
    story.poll((0, 0), (1, 1), (2, 2), reader="r", assignment=1)


def a_non_monotonic_poll(story: Story) -> None:
    story.send(0)
    story.poll((0, 0))
    story.poll((0, 0))


def an_internal_non_monotonic_poll(story: Story) -> None:
    story.send(0)
    story.send(1)
    story.poll((0, 0), (1, 1), (0, 0))


def a_non_monotonic_send(story: Story) -> None:
    first = story.send(None, said=1)
    second = story.send(None, said=0)
    story.put(second, 0, is_visible=True)
    story.put(first, 1, is_visible=True)


def an_internal_non_monotonic_send(story: Story) -> None:
    transaction = story.transact(Outcome.COMMITTED)
    first = story.send(None, where=LEDGER, said=1, transaction=transaction)
    second = story.send(None, where=LEDGER, said=0, transaction=transaction)
    story.put(second, 0, LEDGER, is_visible=True)
    story.put(first, 1, LEDGER, is_visible=True)


def a_send_skip(story: Story) -> None:
    story.send(0)
    story.send(2, producer="q")


def an_internal_send_skip(story: Story) -> None:
    story.send(0)
    story.send(2)


def a_log_that_begins_late(story: Story) -> None:
    story.send(1)


def two_holders(story: Story) -> None:
    story.lock = [
        Entry(offset=0, holder="a", token=None),
        Entry(offset=2, holder="b", token=None),
        Entry(offset=4, holder="a", token=0),
    ]


FAULTY: list[tuple[Callable[[Story], None], str]] = [
    (a_lost_write, "lost write"),
    (a_lost_commit, "lost write"),
    (a_lost_newest_of_a_key, "lost write"),
    (a_lost_newest_of_a_key_without_an_offset, "lost write"),
    (an_unseen_record, "unseen"),
    (a_duplicate, "duplicate"),
    (an_inconsistent_acknowledgement, "inconsistent offsets"),
    (an_inconsistent_reading, "inconsistent offsets"),
    (a_spurious_zero, "spurious zero offset"),
    (an_unsent_record, "unsent"),
    (a_record_in_another_partition, "unsent"),
    (an_aborted_read, "aborted read"),
    (an_aborted_read_that_is_gone, "aborted read"),
    (a_precommitted_read, "precommitted read"),
    (a_torn_transaction, "torn transaction"),
    (a_poll_skip, "poll skip"),
    (an_internal_poll_skip, "internal poll skip"),
    (a_non_monotonic_poll, "non-monotonic poll"),
    (an_internal_non_monotonic_poll, "internal non-monotonic poll"),
    (a_non_monotonic_send, "non-monotonic send"),
    (an_internal_non_monotonic_send, "internal non-monotonic send"),
    (a_send_skip, "send skip"),
    (an_internal_send_skip, "internal send skip"),
    (a_log_that_begins_late, "send skip"),
    (two_holders, "double lock holder"),
]


@pytest.mark.parametrize(("tell", "name"), FAULTY, ids=lambda each: getattr(each, "__name__", ""))
def test_a_checker_finds_its_anomaly(tell: Callable[[Story], None], name: str) -> None:
    story = Story()
    tell(story)
    assert name in {anomaly.partition(":")[0] for anomaly in story.judge()}


def test_what_is_as_it_should_be_is_no_anomaly() -> None:
    story = Story()
    story.send(0)
    for offset in (1, 2):
        story.send(offset, said=-1)  # it was there already, and nobody said where
    story.send(None, acknowledged=False)  # nobody was promised anything
    story.poll((0, 0), (1, 1))
    story.poll((2, 2))
    # A member that got a partition again begins where the group had committed.
    story.poll((0, 0), (1, 1), (2, 2), reader="group/one", assignment=1)
    story.poll((1, 1), (2, 2), reader="group/one", assignment=2)
    # The first transaction's end is at 1; nobody knows how the last one ended.
    for offset, outcome in ((0, Outcome.COMMITTED), (2, Outcome.ABORTED), (4, Outcome.UNKNOWN)):
        story.send(
            offset,
            where=LEDGER,
            transaction=story.transact(outcome),
            is_visible=outcome is not Outcome.ABORTED,
        )
    # Compacted away, because there is a newer one of its key.
    story.send(None, where=TABLE, key=b"k", said=0)
    story.send(1, where=TABLE, key=b"k")
    # The same, of one that was there already: it is before its producer's next record.
    story.send(None, where=TABLE, key=b"l", said=-1)
    story.send(3, where=TABLE, key=b"m")
    story.send(4, where=TABLE, key=b"l")
    # And of one with nothing behind it, which a reader was given.
    given = story.send(None, where=TABLE, key=b"l", said=-1, producer="q")
    story.poll((2, given), where=TABLE)
    story.lock = [
        Entry(offset=0, holder="a", token=None),
        Entry(offset=2, holder="a", token=0),
        Entry(offset=4, holder="b", token=None),
        Entry(offset=6, holder="b", token=4),
    ]
    assert story.judge() == []


def test_a_record_that_is_acknowledged_twice_is_an_anomaly() -> None:
    story = Story()
    story.history.acknowledge(story.send(0), 0)
    assert "acknowledged at 0 and at 0" in story.history.anomalies[0]
