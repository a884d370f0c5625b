"""Committed offsets against a model, with transactions, writes in flight, failing, and failovers.

The model replays what is in the log, in the plainest way.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kafkaesque.groups.config import GroupConfig
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import (
    CommitOffsets,
    CommitOffsetsInTransaction,
    DeletedTopic,
    OffsetToCommit,
    TopicsDeleted,
    TransactionEnded,
)
from kafkaesque.groups.results import (
    AppendInTransaction,
    CommitResult,
    DeleteGroupsResult,
    DeleteOffsetsResult,
)
from kafkaesque.model.ids import TopicPartition
from kafkaesque.tables.log_table import Append, RequestToken
from tests.unit.groups.desk import Desk

Place = tuple[str, str, int]
GROUPS = st.sampled_from(["g1", "g2"])
TOPICS = st.sampled_from(["a", "b"])
PARTITIONS = st.lists(st.tuples(TOPICS, st.integers(0, 2)), min_size=1, max_size=3, unique=True)


PRODUCERS = st.sampled_from([1, 2])
CONFIG = GroupConfig(records_per_write_max=2)


@dataclass(frozen=True, kw_only=True)
class Write:
    """A write in flight, or in the log."""

    changes: dict[Place, int | None]
    token: RequestToken | None = None
    #: Of which transaction it is; None: of none.
    producer_id: int | None = None


class Model:
    """What a log says: what readers see, and what counts when its transaction is committed."""

    def __init__(self) -> None:
        self.visible: dict[Place, int] = {}
        self.pending: dict[int, dict[Place, int]] = {}

    def apply(self, write: Write) -> None:
        for place, offset in write.changes.items():
            if write.producer_id is not None:
                assert offset is not None
                self.pending.setdefault(write.producer_id, {})[place] = offset
                continue
            for pending in self.pending.values():
                pending.pop(place, None)
            if offset is None:
                self.visible.pop(place, None)
            else:
                self.visible[place] = offset

    def end(self, producer_id: int, *, is_commit: bool) -> None:
        pending = self.pending.pop(producer_id, {})
        if not is_commit:
            return
        self.visible |= pending
        for place, offset in pending.items():
            # What was written before it; the machine's offsets rise from write to write.
            for others in self.pending.values():
                if others.get(place, offset) < offset:
                    del others[place]

    def pending_places(self) -> list[Place]:
        return list(dict.fromkeys(each for pending in self.pending.values() for each in pending))

    def groups(self) -> set[str]:
        return {place[0] for place in (*self.visible, *self.pending_places())}


class OffsetMachine(RuleBasedStateMachine):
    """The model: what each write in flight changes, and what all committed ones have left."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk(CONFIG)
        self.desk.holds_writes = True
        self.model = Model()
        self.in_flight: list[Write] = []
        self.log: list[Append | AppendInTransaction | TransactionEnded] = []
        self.next_offset = 0

    def known(self, *, group_id: str = "", topic: str = "") -> list[Place]:
        """What may be there once all writes in flight have ended, one way or another."""
        places = dict.fromkeys((*self.model.visible, *self.model.pending_places()))
        for write in self.in_flight:
            found = (each for each, offset in write.changes.items() if offset is not None)
            places |= dict.fromkeys(found)
        return [each for each in places if group_id in ("", each[0]) and topic in ("", each[1])]

    def is_gone(self, group_id: str) -> bool:
        """Whether nothing is left if all writes in flight succeed."""
        later = Model()
        later.visible = dict(self.model.visible)
        later.pending = {key: dict(value) for key, value in self.model.pending.items()}
        for write in self.in_flight:
            later.apply(write)
        return group_id not in later.groups()

    def expect_writes(self, removed: Sequence[Place], token: RequestToken | None) -> None:
        """Pair what the table wants written with what the model says that it changes."""
        writes = self.desk.held[len(self.in_flight) :]
        remaining = list(removed)
        for write in writes:
            count = sum(record.key[:2] == b"\x00\x01" for record in write.records)
            part, remaining = remaining[:count], remaining[count:]
            self.in_flight.append(Write(changes=dict.fromkeys(part), token=token))
        assert not remaining

    @rule(group_id=GROUPS, partitions=PARTITIONS)
    def commit(self, group_id: str, partitions: list[tuple[str, int]]) -> None:
        self.next_offset += 1
        offsets = dict.fromkeys(partitions, self.next_offset)
        token = self.desk.commit(offsets, group_id=group_id)
        changes: dict[Place, int | None] = {
            (group_id, *partition): self.next_offset for partition in partitions
        }
        self.in_flight.append(Write(changes=changes, token=token))
        assert len(self.desk.held) == len(self.in_flight)

    @rule(producer_id=PRODUCERS, group_id=GROUPS, partitions=PARTITIONS)
    def commit_in_transaction(
        self, producer_id: int, group_id: str, partitions: list[tuple[str, int]]
    ) -> None:
        self.next_offset += 1
        commit = CommitOffsets(
            token=self.desk.token(),
            group_id=group_id,
            generation=-1,
            member_id="",
            instance_id=None,
            offsets=tuple(
                OffsetToCommit(TopicPartition(*each), self.next_offset, -1, "")
                for each in partitions
            ),
        )
        event = CommitOffsetsInTransaction(commit=commit, producer_id=producer_id, producer_epoch=0)
        self.desk.ask(event)
        changes: dict[Place, int | None] = {
            (group_id, *partition): self.next_offset for partition in partitions
        }
        write = Write(changes=changes, token=commit.token, producer_id=producer_id)
        self.in_flight.append(write)
        assert len(self.desk.held) == len(self.in_flight)

    @rule(producer_id=PRODUCERS, is_commit=st.booleans())
    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        """The marker stands behind all that its transaction has written."""
        while any(write.producer_id == producer_id for write in self.in_flight):
            self.commit_one()
        ended = TransactionEnded(producer_id=producer_id, is_commit=is_commit)
        self.log.append(ended)
        self.model.end(producer_id, is_commit=is_commit)
        self.desk.ask(ended)

    @precondition(lambda self: not self.in_flight)
    @rule()
    def sweep(self) -> None:
        """Groups of which nothing is left go; no offset is old enough."""
        self.desk.advance(CONFIG.offsets_retention_check_interval_ms)
        for group_id in self.model.groups():
            assert self.desk.state(group_id) == "Empty"
        self.expect_removal([], None)

    @rule(group_id=GROUPS, partitions=PARTITIONS)
    def delete_offsets(self, group_id: str, partitions: list[tuple[str, int]]) -> None:
        known = self.known(group_id=group_id)
        token = self.desk.delete_offsets(*partitions, group_id=group_id)
        result = self.desk.answer(token)
        if result is not None and result.error is GroupError.GROUP_ID_NOT_FOUND:
            assert self.is_gone(group_id)
        else:
            places = [(group_id, *each) for each in partitions]
            self.expect_removal([each for each in places if each in known], token)

    @rule(topic=TOPICS)
    def delete_topic(self, topic: str) -> None:
        known = self.known(topic=topic)
        self.desk.ask(TopicsDeleted(topics=(DeletedTopic(topic),)))
        self.expect_removal(known, None)

    @rule(group_id=GROUPS)
    def delete_group(self, group_id: str) -> None:
        known = self.known(group_id=group_id)
        token = self.desk.delete_groups(group_id)
        result = self.desk.answer(token)
        if result is not None:
            assert result.groups == ((group_id, GroupError.GROUP_ID_NOT_FOUND),)
            assert self.is_gone(group_id)
        else:
            self.expect_removal(known, token)

    def expect_removal(self, places: list[Place], token: RequestToken | None) -> None:
        """The order in which they are removed is the table's; read it off the records."""
        wanted = set(places)
        written = [
            place_of(record.key)
            for write in self.desk.held[len(self.in_flight) :]
            for record in write.records
            if record.key[:2] == b"\x00\x01"
        ]
        assert sorted(written) == sorted(wanted)
        self.expect_writes(written, token)

    @precondition(lambda self: self.in_flight)
    @rule()
    def commit_one(self) -> None:
        write = self.in_flight.pop(0)
        self.model.apply(write)
        self.log.append(self.desk.held[0])
        self.desk.commit_held(1)
        self.expect_answer(write.token, GroupError.NONE)

    @rule()
    def commit_all(self) -> None:
        while self.in_flight:
            self.commit_one()

    @precondition(lambda self: self.in_flight)
    @rule()
    def fail_one(self) -> None:
        write = self.in_flight.pop(0)
        self.desk.fail_held()
        self.expect_answer(write.token, None)

    def expect_answer(self, token: RequestToken | None, error: GroupError | None) -> None:
        if token is None or any(each.token == token for each in self.in_flight):
            return
        result = self.desk.answer(token)
        assert isinstance(result, CommitResult | DeleteOffsetsResult | DeleteGroupsResult)
        if isinstance(result, CommitResult):
            wanted = error or GroupError.COORDINATOR_NOT_AVAILABLE
            assert {each.error for each in result.partitions} == {wanted}

    @rule()
    def fail_over(self) -> None:
        """What was not committed is lost here; what was is all there."""
        self.desk.table.unload()
        self.desk.pump()
        assert set(self.desk.asked) == set(self.desk.answers)
        self.desk = restored(self.log)
        self.desk.holds_writes = True
        self.in_flight = []

    @invariant()
    def readers_see_exactly_what_is_committed(self) -> None:
        for group_id in ("g1", "g2"):
            expected = {
                place[1:]: offset
                for place, offset in self.model.visible.items()
                if place[0] == group_id
            }
            assert self.desk.offsets(group_id) == expected

    @invariant()
    def nothing_is_left_without_its_group(self) -> None:
        if not self.in_flight:
            for group_id in self.model.groups():
                assert self.desk.state(group_id) == "Empty"


def restored(log: Sequence[Append | AppendInTransaction | TransactionEnded]) -> Desk:
    desk = Desk(CONFIG, is_active=False)
    for each in log:
        if isinstance(each, TransactionEnded):
            desk.table.restore_end(each)
            continue
        pairs = [(record.key, record.value) for record in each.records]
        if isinstance(each, AppendInTransaction):
            desk.table.restore_in_transaction(each.producer_id, pairs)
        else:
            desk.table.restore(pairs)
    assert desk.table.records_skipped == 0
    desk.table.activate(desk.now)
    return desk


def place_of(key: bytes) -> Place:
    """Group, topic and partition of a key, all names here being short."""
    group_end = 4 + key[3]
    topic_end = group_end + 2 + key[group_end + 1]
    topic = key[group_end + 2 : topic_end].decode()
    return key[4:group_end].decode(), topic, int.from_bytes(key[topic_end:], "big")


TestOffsets = OffsetMachine.TestCase
