"""Committed offsets against a dictionary, with writes in flight, failing, and failovers."""

from collections.abc import Sequence

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kafkaesque.groups.config import GroupConfig
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import DeletedTopic, TopicsDeleted
from kafkaesque.groups.results import CommitResult, DeleteGroupsResult, DeleteOffsetsResult
from kafkaesque.model.log_table import RequestToken
from tests.unit.groups.desk import Desk

Place = tuple[str, str, int]
GROUPS = st.sampled_from(["g1", "g2"])
TOPICS = st.sampled_from(["a", "b"])
PARTITIONS = st.lists(st.tuples(TOPICS, st.integers(0, 2)), min_size=1, max_size=3, unique=True)


class OffsetMachine(RuleBasedStateMachine):
    """The model: what each write in flight changes, and what all committed ones have left."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = Desk(GroupConfig(records_per_write_max=2))
        self.desk.holds_writes = True
        self.visible: dict[Place, int] = {}
        self.in_flight: list[tuple[dict[Place, int | None], RequestToken | None]] = []
        self.next_offset = 0

    def known(self, *, group_id: str = "", topic: str = "") -> list[Place]:
        """What may be there once all writes in flight have ended, one way or another."""
        places = dict.fromkeys(self.visible)
        for changes, _ in self.in_flight:
            places |= dict.fromkeys(each for each, offset in changes.items() if offset is not None)
        return [each for each in places if group_id in ("", each[0]) and topic in ("", each[1])]

    def is_gone(self, group_id: str) -> bool:
        """Whether nothing is left if all writes in flight succeed."""
        latest = dict(self.visible)
        for changes, _ in self.in_flight:
            apply(latest, changes)
        return all(place[0] != group_id for place in latest)

    def expect_writes(self, removed: Sequence[Place], token: RequestToken | None) -> None:
        """Pair what the table wants written with what the model says that it changes."""
        writes = self.desk.held[len(self.in_flight) :]
        remaining = list(removed)
        for write in writes:
            count = sum(record.key[:2] == b"\x00\x01" for record in write.records)
            part, remaining = remaining[:count], remaining[count:]
            self.in_flight.append((dict.fromkeys(part), token))
        assert not remaining

    @rule(group_id=GROUPS, partitions=PARTITIONS)
    def commit(self, group_id: str, partitions: list[tuple[str, int]]) -> None:
        self.next_offset += 1
        offsets = dict.fromkeys(partitions, self.next_offset)
        token = self.desk.commit(offsets, group_id=group_id)
        changes: dict[Place, int | None] = {
            (group_id, *partition): self.next_offset for partition in partitions
        }
        self.in_flight.append((changes, token))
        assert len(self.desk.held) == len(self.in_flight)

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
        changes, token = self.in_flight.pop(0)
        apply(self.visible, changes)
        self.desk.commit_held(1)
        self.expect_answer(token, GroupError.NONE)

    @precondition(lambda self: self.in_flight)
    @rule()
    def fail_one(self) -> None:
        _, token = self.in_flight.pop(0)
        self.desk.fail_held()
        self.expect_answer(token, None)

    def expect_answer(self, token: RequestToken | None, error: GroupError | None) -> None:
        if token is None or any(each == token for _, each in self.in_flight):
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
        self.desk = self.desk.reopened()
        self.desk.holds_writes = True
        self.in_flight = []

    @invariant()
    def readers_see_exactly_what_is_committed(self) -> None:
        for group_id in ("g1", "g2"):
            expected = {
                place[1:]: offset for place, offset in self.visible.items() if place[0] == group_id
            }
            assert self.desk.offsets(group_id) == expected


def apply(offsets: dict[Place, int], changes: dict[Place, int | None]) -> None:
    for place, offset in changes.items():
        if offset is None:
            offsets.pop(place, None)
        else:
            offsets[place] = offset


def place_of(key: bytes) -> Place:
    """Group, topic and partition of a key, all names here being short."""
    group_end = 4 + key[3]
    topic_end = group_end + 2 + key[group_end + 1]
    topic = key[group_end + 2 : topic_end].decode()
    return key[4:group_end].decode(), topic, int.from_bytes(key[topic_end:], "big")


TestOffsets = OffsetMachine.TestCase
