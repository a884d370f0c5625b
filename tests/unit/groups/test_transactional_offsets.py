"""Offsets in transactions count when the transaction is committed, and only then."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kafkaesque.groups.config import GroupConfig
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import (
    CommitOffsets,
    CommitOffsetsInTransaction,
    DeletedTopic,
    FetchOffsets,
    OffsetToCommit,
    TopicsDeleted,
    TransactionEnded,
)
from kafkaesque.groups.results import AppendInTransaction
from kafkaesque.groups.table import GroupTable
from kafkaesque.model.ids import TopicPartition
from kafkaesque.tables.log_table import WriteFailure
from tests.unit.groups.consumers import FLIGHTS, desk_of, parts
from tests.unit.groups.desk import Desk

G = "readers"
P = 4_000
F0, F1 = TopicPartition("flights", 0), TopicPartition("flights", 1)


def plain(desk: Desk, offset: int, partition: TopicPartition = F0, **how: Any) -> CommitOffsets:
    given: dict[str, Any] = {"generation": -1, "member_id": "", "instance_id": None} | how
    return CommitOffsets(
        token=desk.token(),
        group_id=G,
        offsets=(OffsetToCommit(partition, offset, -1, ""),),
        **given,
    )


def commit(
    desk: Desk, offset: int, partition: TopicPartition = F0, producer_id: int = P, **how: Any
) -> GroupError:
    event = CommitOffsetsInTransaction(
        commit=plain(desk, offset, partition, **how), producer_id=producer_id, producer_epoch=3
    )
    answer = desk.ask(event)
    (each,) = answer.partitions
    assert each.partition == partition
    error: GroupError = each.error
    return error


def end(desk: Desk, *, is_commit: bool, producer_id: int = P) -> None:
    desk.ask(TransactionEnded(producer_id=producer_id, is_commit=is_commit))


def fetched(
    desk: Desk, *partitions: TopicPartition, stable: bool = False
) -> dict[TopicPartition, int | str | None]:
    event = FetchOffsets(
        token=desk.token(), group_id=G, partitions=partitions or None, require_stable=stable
    )
    answer = desk.ask(event)
    assert answer.error is GroupError.NONE
    return {
        each.partition: "unstable"
        if each.is_unstable
        else None
        if each.committed is None
        else each.committed.offset
        for each in answer.offsets
    }


def restored(desk: Desk, *ends: TransactionEnded) -> Desk:
    """Returns the next leader's desk: what was written is replayed, then these ends."""
    later = Desk(is_active=False)
    table: GroupTable = later.table
    for each in desk.written:
        pairs = [(record.key, record.value) for record in each.records]
        if isinstance(each, AppendInTransaction):
            table.restore_in_transaction(each.producer_id, pairs)
        else:
            table.restore(pairs)
    for ended in ends:
        table.restore_end(ended)
    table.activate(later.now)
    return later


def test_nobody_sees_them_before_the_transaction_is_committed() -> None:
    desk = Desk()
    assert commit(desk, 7) is GroupError.NONE
    assert fetched(desk, F0) == {F0: None}
    end(desk, is_commit=True)
    assert fetched(desk, F0) == {F0: 7}


def test_an_aborted_transaction_leaves_what_was_there() -> None:
    desk = Desk()
    desk.ask(plain(desk, 5))
    assert commit(desk, 7) is GroupError.NONE
    end(desk, is_commit=False)
    assert fetched(desk, F0) == {F0: 5}
    end(desk, is_commit=True)
    assert fetched(desk, F0) == {F0: 5}


def test_who_wants_stable_offsets_is_told_to_wait() -> None:
    desk = Desk()
    desk.ask(plain(desk, 5, F1))
    commit(desk, 7)
    assert fetched(desk, F0, F1, stable=True) == {F0: "unstable", F1: 5}
    assert fetched(desk, stable=True) == {F1: 5, F0: "unstable"}
    assert fetched(desk) == {F1: 5}
    end(desk, is_commit=True)
    assert fetched(desk, F0, F1, stable=True) == {F0: 7, F1: 5}


def test_an_offset_on_its_way_to_the_log_is_unstable_and_a_failed_one_is_not() -> None:
    desk = Desk()
    desk.ask(plain(desk, 5))
    desk.holds_writes = True
    event = CommitOffsetsInTransaction(commit=plain(desk, 7), producer_id=P, producer_epoch=3)
    assert desk.ask(event) is None
    assert fetched(desk, F0, stable=True) == {F0: "unstable"}
    desk.fail_held(WriteFailure.NOT_ENOUGH_REPLICAS)
    answer = desk.answer(event.token)
    assert answer.partitions[0].error is GroupError.COORDINATOR_NOT_AVAILABLE
    assert fetched(desk, F0, stable=True) == {F0: 5}
    desk.holds_writes = False
    end(desk, is_commit=True)
    assert fetched(desk, F0) == {F0: 5}


def test_what_is_written_last_holds() -> None:
    desk = Desk()
    commit(desk, 7)
    desk.ask(plain(desk, 9))
    assert fetched(desk, F0, stable=True) == {F0: 9}
    end(desk, is_commit=True)
    assert fetched(desk, F0) == {F0: 9}
    assert fetched(restored(desk, TransactionEnded(producer_id=P, is_commit=True)), F0) == {F0: 9}


def test_the_last_of_a_transaction_counts() -> None:
    desk = Desk()
    commit(desk, 7)
    commit(desk, 8)
    assert fetched(desk, F0, stable=True) == {F0: "unstable"}
    end(desk, is_commit=True)
    assert fetched(desk, F0, stable=True) == {F0: 8}


def test_transactions_of_two_producers_end_by_themselves() -> None:
    desk = Desk()
    commit(desk, 7, F0, producer_id=P)
    commit(desk, 3, F1, producer_id=P + 1)
    end(desk, is_commit=True, producer_id=P + 1)
    assert fetched(desk, F0, F1, stable=True) == {F0: "unstable", F1: 3}
    end(desk, is_commit=False, producer_id=P)
    assert fetched(desk, F0, F1, stable=True) == {F0: None, F1: 3}


@pytest.mark.parametrize("is_commit", [False, True])
def test_a_new_leader_knows_what_is_open_and_what_has_ended(is_commit: bool) -> None:
    desk = Desk()
    commit(desk, 7)
    later = restored(desk)
    assert fetched(later, F0, stable=True) == {F0: "unstable"}
    end(later, is_commit=is_commit)
    assert fetched(later, F0) == {F0: 7 if is_commit else None}
    at_once = restored(desk, TransactionEnded(producer_id=P, is_commit=is_commit))
    assert fetched(at_once, F0, stable=True) == {F0: 7 if is_commit else None}


def test_a_producer_that_speaks_for_a_member_is_checked() -> None:
    desk = Desk()
    assert commit(desk, 7, generation=4, member_id="me") is GroupError.ILLEGAL_GENERATION
    assert fetched(desk, F0, stable=True) == {F0: None}


@pytest.mark.parametrize(
    ("member_id", "generation", "error"),
    [
        ("me", 1, GroupError.NONE),
        # A producer of before KIP-447 does not say for whom.
        ("", -1, GroupError.NONE),
        ("me", 0, GroupError.ILLEGAL_GENERATION),
        ("me", 2, GroupError.ILLEGAL_GENERATION),
        ("me", -1, GroupError.ILLEGAL_GENERATION),
        ("you", 1, GroupError.UNKNOWN_MEMBER_ID),
        ("you", -1, GroupError.UNKNOWN_MEMBER_ID),
        ("", 1, GroupError.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_commits_for_a_member_of_the_new_protocol_knows_its_epoch(
    member_id: str, generation: int, error: GroupError
) -> None:
    desk = desk_of(flights=2)
    assert desk.enter("me", group_id=G).member_epoch == 1
    assert commit(desk, 7, member_id=member_id, generation=generation) is error
    is_taken = error is GroupError.NONE
    assert fetched(desk, F0, stable=True) == {F0: "unstable" if is_taken else None}
    end(desk, is_commit=True)
    assert fetched(desk, F0) == {F0: 7 if is_taken else None}


def test_who_commits_for_a_member_that_has_moved_on_is_told() -> None:
    desk = desk_of(flights=2)
    desk.enter("me", group_id=G)
    desk.enter("you", group_id=G)
    # It gives up what the other one is to have, and then is in a later epoch.
    kept = desk.beat("me", 1, group_id=G, owned=parts(FLIGHTS, 0, 1)).assignment
    assert kept is not None
    assert desk.beat("me", 1, group_id=G, owned=kept).member_epoch == 2
    assert commit(desk, 7, member_id="me", generation=1) is GroupError.ILLEGAL_GENERATION
    assert commit(desk, 7, member_id="me", generation=2) is GroupError.NONE


def test_ends_of_strangers_change_nothing() -> None:
    desk = Desk()
    end(desk, is_commit=True, producer_id=99)
    commit(desk, 7)
    end(desk, is_commit=True, producer_id=99)
    assert fetched(desk, F0, stable=True) == {F0: "unstable"}


# -- what removes groups and offsets while a transaction is open

SWEEP_MS = GroupConfig().offsets_retention_check_interval_ms
RETENTION_MS = GroupConfig().offsets_retention_ms


@pytest.mark.parametrize("is_commit", [False, True])
def test_a_group_whose_offsets_are_all_in_an_open_transaction_is_kept(is_commit: bool) -> None:
    desk = Desk()
    commit(desk, 7)
    desk.advance(2 * SWEEP_MS)
    assert desk.state(G) == "Empty"
    assert desk.log[-1].value is not None, "nothing was removed from the log"
    end(desk, is_commit=is_commit)
    desk.advance(SWEEP_MS)
    assert desk.state(G) == ("Empty" if is_commit else "Dead")
    assert fetched(desk) == ({F0: 7} if is_commit else {})


def test_an_offset_that_an_open_transaction_replaces_does_not_expire() -> None:
    desk = Desk()
    desk.ask(plain(desk, 5))
    desk.ask(plain(desk, 6, F1))
    desk.advance(RETENTION_MS - SWEEP_MS)
    commit(desk, 7)
    desk.advance(3 * SWEEP_MS)
    assert fetched(desk) == {F0: 5}
    later = restored(desk)
    for each in (desk, later):
        end(each, is_commit=True)
        assert fetched(each, stable=True) == {F0: 7}


def test_what_an_open_transaction_has_stored_is_deleted_with_the_group() -> None:
    desk = Desk()
    desk.ask(plain(desk, 5, F1))
    commit(desk, 7)
    assert desk.answer(desk.delete_groups(G)).groups == ((G, GroupError.NONE),)
    assert desk.state(G) == "Dead"
    later = restored(desk, TransactionEnded(producer_id=P, is_commit=True))
    end(desk, is_commit=True)
    for each in (desk, later):
        assert fetched(each, F0, F1, stable=True) == {F0: None, F1: None}
        assert each.table.group_count == 0


def test_what_is_on_its_way_into_a_transaction_is_deleted_with_the_group() -> None:
    desk = Desk()
    desk.ask(plain(desk, 5, F1))
    desk.holds_writes = True
    desk.ask(CommitOffsetsInTransaction(commit=plain(desk, 7), producer_id=P, producer_epoch=3))
    token = desk.delete_groups(G)
    desk.commit_held()
    assert desk.answer(token).groups == ((G, GroupError.NONE),)
    later = restored(desk, TransactionEnded(producer_id=P, is_commit=True))
    end(desk, is_commit=True)
    for each in (desk, later):
        assert fetched(each, F0, stable=True) == {F0: None}
        assert each.table.group_count == 0


def test_a_group_that_could_not_be_deleted_keeps_what_its_transaction_stored() -> None:
    desk = Desk()
    commit(desk, 7)
    desk.holds_writes = True
    token = desk.delete_groups(G)
    desk.fail_held()
    assert desk.answer(token).groups == ((G, GroupError.COORDINATOR_NOT_AVAILABLE),)
    end(desk, is_commit=True)
    assert fetched(desk, F0) == {F0: 7}
    assert desk.state(G) == "Empty"


@pytest.mark.parametrize("first_to_end", [P, P + 1])
@pytest.mark.parametrize("last_to_write", [P, P + 1])
def test_of_two_transactions_the_one_that_wrote_last_counts(
    first_to_end: int, last_to_write: int
) -> None:
    """Compaction leaves that one, whatever the order of their ends."""
    desk, compacted = Desk(), GroupTable(GroupConfig())
    first, last = (P, P + 1) if last_to_write == P + 1 else (P + 1, P)
    assert commit(desk, 20, producer_id=first) is GroupError.NONE
    assert commit(desk, 10, producer_id=last) is GroupError.NONE
    (record,) = desk.written[-1].records
    compacted.restore_in_transaction(last, [(record.key, record.value)])
    for producer_id in sorted((first, last), key=lambda each: each != first_to_end):
        end(desk, is_commit=True, producer_id=producer_id)
        compacted.restore_end(TransactionEnded(producer_id=producer_id, is_commit=True))
    assert desk.offsets(G) == {F0: 10}
    assert compacted.committed_positions(G) == [(F0, 10)]


def test_one_that_wrote_last_and_is_aborted_overtakes_nothing() -> None:
    desk = Desk()
    commit(desk, 20, producer_id=P)
    commit(desk, 10, producer_id=P + 1)
    end(desk, is_commit=False, producer_id=P + 1)
    assert desk.offsets(G) == {}
    end(desk, is_commit=True, producer_id=P)
    assert desk.offsets(G) == {F0: 20}


@pytest.mark.parametrize("is_on_its_way", [False, True])
def test_what_a_transaction_stored_for_a_namesake_outlives_the_deletion(
    is_on_its_way: bool,
) -> None:
    desk, topic_id = Desk(), bytes(16)
    desk.commit({F0: 1}, group_id=G, topic_id=topic_id, is_by_name=True)
    desk.advance(1_000)
    offset = OffsetToCommit(F0, 2, -1, "", topic_id, is_by_name=True)
    request = msgspec.structs.replace(plain(desk, 2), offsets=(offset,))
    desk.holds_writes = is_on_its_way
    desk.ask(CommitOffsetsInTransaction(commit=request, producer_id=P, producer_epoch=3))
    gone = DeletedTopic("flights", topic_id, since_wall_ms=desk.now.wall_ms)
    desk.ask(TopicsDeleted(topics=(gone,)))
    if is_on_its_way:
        desk.commit_held()
    end(desk, is_commit=True)
    assert desk.offsets(G) == {F0: 2}


def test_what_an_open_transaction_has_stored_is_deleted_by_its_partition() -> None:
    desk = Desk()
    commit(desk, 7)
    commit(desk, 8, F1)
    result = desk.answer(desk.delete_offsets(("flights", 0), group_id=G))
    assert [each.error for each in result.partitions] == [GroupError.NONE]
    later = restored(desk, TransactionEnded(producer_id=P, is_commit=True))
    end(desk, is_commit=True)
    for each in (desk, later):
        assert fetched(each, F0, F1, stable=True) == {F0: None, F1: 8}


def test_what_an_open_transaction_has_stored_goes_with_its_topic() -> None:
    desk = Desk()
    commit(desk, 7)
    other = TopicPartition("trains", 0)
    commit(desk, 8, other)
    desk.ask(TopicsDeleted(topics=(DeletedTopic("flights"),)))
    later = restored(desk, TransactionEnded(producer_id=P, is_commit=True))
    end(desk, is_commit=True)
    for each in (desk, later):
        assert fetched(each, F0, other, stable=True) == {F0: None, other: 8}
