"""KIP-848 around the heartbeat: offsets, lists, deletion, expiry, expressions, and a new leader."""

import subprocess
import sys
from typing import Any

import pytest

from kafkaesque.groups.config import GroupConfig
from kafkaesque.groups.consumer.config import ConsumerConfig, MigrationPolicy
from kafkaesque.groups.consumer.records import (
    ConsumerGroupKey,
    GroupEpoch,
    KeyKind,
    write_consumer_key,
    write_current,
    write_group_epoch,
    write_member,
)
from kafkaesque.groups.consumer.states import CurrentAssignment, MemberMetadata, MemberState
from kafkaesque.groups.consumer.topics import NO_PARTITIONS, Topic
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import FetchOffsets
from kafkaesque.model.ids import TopicId
from kafkaesque.tables.log_table import LogRecord
from tests.unit.groups.consumers import FLIGHTS, NONE, TRAINS, ConsumerDesk, desk_of, parts
from tests.unit.groups.desk import GROUP

AT = ("flights", 0)


def commit_error(desk: ConsumerDesk, member_id: str, epoch: int, **options: Any) -> GroupError:
    (error,) = desk.commit_errors({AT: 7}, member_id=member_id, generation=epoch, **options)
    return error


def fetch_error(desk: ConsumerDesk, member_id: str | None, epoch: int) -> GroupError:
    event = FetchOffsets(
        token=desk.token(),
        group_id=GROUP,
        partitions=None,
        member_id=member_id,
        member_epoch=epoch,
    )
    error: GroupError = desk.ask(event).error
    return error


# -- offsets


def test_a_member_commits_and_fetches_with_its_epoch_and_with_no_other() -> None:
    desk = desk_of(flights=1)
    desk.enter("m")
    assert commit_error(desk, "m", 1) is NONE
    assert desk.offsets() == {AT: 7}
    for epoch in (0, 2):
        assert commit_error(desk, "m", epoch) is GroupError.STALE_MEMBER_EPOCH
        assert fetch_error(desk, "m", epoch) is GroupError.STALE_MEMBER_EPOCH
    assert fetch_error(desk, "m", 1) is NONE


def test_who_is_no_member_cannot_commit_while_there_are_members() -> None:
    desk = desk_of(flights=1)
    desk.enter("m")
    assert commit_error(desk, "", -1) is GroupError.UNKNOWN_MEMBER_ID
    assert commit_error(desk, "other", 1) is GroupError.UNKNOWN_MEMBER_ID
    assert fetch_error(desk, "other", 1) is GroupError.UNKNOWN_MEMBER_ID
    assert fetch_error(desk, None, -1) is NONE, "administrators may always read"
    desk.beat("m", -1)
    assert commit_error(desk, "", -1) is NONE


def test_a_member_whose_commits_are_too_old_to_know_of_epochs_is_told() -> None:
    desk = desk_of(flights=1)
    desk.enter("m")
    event = desk.commit({AT: 1}, member_id="m", generation=1)
    assert desk.answer(event).partitions[0].error is NONE
    (error,) = desk.commit_errors({AT: 1}, member_id="m", generation=1, knows_member_epochs=False)
    assert error is GroupError.UNSUPPORTED_VERSION


def test_offsets_of_subscribed_topics_stay() -> None:
    desk = desk_of(flights=1, trains=1)
    desk.commit({AT: 1, ("trains", 0): 2})
    desk.enter("m", ["flights"])
    answer = desk.answer(desk.delete_offsets(AT, ("trains", 0)))
    assert [each.error for each in answer.partitions] == [
        GroupError.GROUP_SUBSCRIBED_TO_TOPIC,
        NONE,
    ]
    assert desk.offsets() == {AT: 1}
    desk.advance(8 * 24 * 60 * 60_000)
    # Its only member has been silent for days.
    assert desk.table.group_count == 0


# -- groups of both kinds under one roof


def test_groups_are_listed_with_their_type_and_state() -> None:
    desk = desk_of(flights=1)
    desk.enter("m")
    desk.commit({AT: 1}, group_id="classic")
    assert [(each.group_id, each.group_type) for each in desk.listed()] == [
        ("classic", "classic"),
        (GROUP, "consumer"),
    ]
    (line,) = desk.listed(types=("Consumer",))
    assert (line.group_id, line.protocol_type, line.state) == (GROUP, "consumer", "Stable")
    assert desk.listed(states=("assigning",)) == []


def test_a_group_without_members_can_be_deleted_with_all_that_it_stored() -> None:
    desk = desk_of(flights=1)
    desk.enter("m", topic_expression="fl.*")
    desk.commit({AT: 1}, member_id="m", generation=1)
    assert desk.answer(desk.delete_groups(GROUP)).groups == ((GROUP, GroupError.NON_EMPTY_GROUP),)
    desk.beat("m", -1)
    assert desk.answer(desk.delete_groups(GROUP)).groups == ((GROUP, NONE),)
    last = {record.key: record.value for record in desk.log}
    assert set(last.values()) == {None}, "nothing is left in the log"
    assert desk.table.group_count == desk.next_desk().table.group_count == 0


def test_a_group_whose_deletion_failed_is_there_again() -> None:
    desk = desk_of(flights=1)
    desk.enter("m")
    desk.beat("m", -1)
    desk.holds_writes = True
    token = desk.delete_groups(GROUP)
    assert desk.table.group_count == 0
    desk.fail_held()
    assert desk.answer(token).groups == ((GROUP, GroupError.COORDINATOR_NOT_AVAILABLE),)
    assert desk.table.group_count == 1


def test_deletion_also_takes_what_a_failing_write_may_have_left() -> None:
    desk = desk_of(flights=1)
    desk.enter("m")
    desk.holds_writes = True
    desk.send("m", -1)
    desk.delete_groups(GROUP)
    desk.fail_held()
    desk.holds_writes = False
    desk.commit_held()
    last = {record.key: record.value for record in desk.log}
    assert set(last.values()) == {None}


def test_a_group_with_neither_members_nor_offsets_goes_by_itself() -> None:
    desk = desk_of(flights=1)
    desk.enter("m")
    desk.beat("m", -1)
    desk.advance(desk.config.offsets_retention_check_interval_ms)
    assert desk.table.group_count == 0


def test_a_group_that_only_stored_offsets_becomes_one_of_the_new_kind_and_keeps_them() -> None:
    desk = desk_of(flights=1)
    desk.commit({AT: 5})
    desk.enter("m")
    assert desk.offsets() == {AT: 5}
    assert [each.group_type for each in desk.listed()] == ["consumer"]
    assert [each.group_type for each in desk.next_desk().listed()] == ["consumer"]


def test_an_empty_classic_group_becomes_one_of_the_new_kind() -> None:
    desk = desk_of(flights=1)
    (member,) = desk.stable_group(1)
    assert desk.enter("m").error is GroupError.GROUP_ID_NOT_FOUND
    desk.leave((member, None))
    assert desk.enter("m").error is NONE
    other = desk.next_desk()
    assert [(each.group_type, each.state) for each in other.listed()] == [("consumer", "Stable")]


def test_an_empty_group_of_the_new_kind_becomes_a_classic_one() -> None:
    policy = MigrationPolicy.DISABLED
    desk = ConsumerDesk(GroupConfig(consumer=ConsumerConfig(migration_policy=policy)))
    desk.topics(flights=1)
    desk.enter("m")
    refused = desk.answer(desk.join())
    assert refused.error is GroupError.INCONSISTENT_GROUP_PROTOCOL
    desk.beat("m", -1)
    assert desk.answer(desk.join()).error is GroupError.MEMBER_ID_REQUIRED
    desk.stable_group(1)
    assert [each.group_type for each in desk.next_desk().listed()] == ["classic"]


def test_of_two_groups_of_one_name_in_the_log_the_classic_one_is_the_younger() -> None:
    desk = desk_of(flights=1)
    desk.enter("m")
    desk.beat("m", -1)
    desk.holds_writes = True
    desk.join()
    desk.fail_held()
    desk.holds_writes = False
    desk.stable_group(1)
    assert [each.group_type for each in desk.next_desk().listed()] == ["classic"]


def test_a_table_that_is_full_takes_no_new_group() -> None:
    desk = ConsumerDesk(GroupConfig(groups_max=1))
    desk.topics(flights=1)
    desk.enter("m")
    assert desk.enter("m", group_id="another").error is GroupError.OVER_BOUND
    assert desk.error("m", 1) is NONE


# -- expressions


def test_a_member_gets_the_topics_that_its_expression_matches_as_a_whole() -> None:
    desk = desk_of(flights=1, trains=1)
    result = desk.enter("m", [], topic_expression="f.*")
    assert result.assignment == parts(FLIGHTS, 0)
    assert desk.enter("m2", [], topic_expression="rain").assignment == NO_PARTITIONS


def test_an_expression_matches_topics_that_come_later() -> None:
    desk = desk_of(flights=1)
    desk.enter("m", [], topic_expression="(flights|trains)")
    desk.topics(flights=1, trains=2)
    assert desk.beat("m", 1).assignment == parts(FLIGHTS, 0) | parts(TRAINS, 0, 1)


def test_names_and_expression_add_up() -> None:
    desk = desk_of(flights=1, trains=1)
    result = desk.enter("m", ["trains"], topic_expression="f.*")
    assert result.assignment == parts(FLIGHTS, 0) | parts(TRAINS, 0)
    assert desk.group().is_subscribed("flights")


def test_an_empty_expression_takes_the_subscription_back() -> None:
    desk = desk_of(flights=1)
    desk.enter("m", [], topic_expression="f.*")
    told = desk.beat("m", 1, topic_expression="", owned=parts(FLIGHTS, 0))
    assert told.assignment == NO_PARTITIONS
    assert not desk.group().expressions


@pytest.mark.parametrize("expression", ["(", "a**", r"(a)\1", "(?=a)", "(a{1000}){1000}"])
def test_what_re2_does_not_take_is_refused_with_its_reason(expression: str) -> None:
    desk = desk_of(flights=1)
    result = desk.enter("m", [], topic_expression=expression)
    assert result.error is GroupError.INVALID_REGULAR_EXPRESSION
    assert result.message is not None
    assert "RE2" in result.message
    assert desk.table.group_count == 0


def test_expressions_do_not_match_internal_topics_but_names_do() -> None:
    desk = ConsumerDesk()
    inner = Topic(name="__inner", topic_id=TopicId(b"i" * 16), partition_count=1, is_internal=True)
    desk.topics(inner)
    assert desk.enter("m1", [], topic_expression=".*").assignment == NO_PARTITIONS
    assert desk.enter("m2", ["__inner"]).assignment == parts(inner.topic_id, 0)


def test_re2_is_loaded_with_the_first_expression_and_not_before() -> None:
    code = (
        "import sys, kafkaesque.groups.table, kafkaesque.gateway.kafka.consumer_groups\n"
        "assert 're2' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# -- a new leader


def test_a_new_leader_goes_on_where_the_old_one_was() -> None:
    desk = desk_of(flights=4)
    desk.enter("m1", instance_id="i1", assignor="range")
    desk.enter("m2", topic_expression="fl.*")
    told = desk.beat("m1", 1)
    other = desk.next_desk()
    old, new = desk.group(), other.group()
    for name in ("epoch", "target_epoch", "members", "currents", "target", "static_members"):
        assert getattr(new, name) == getattr(old, name), name
    assert new.expressions == old.expressions
    assert new.metadata_hash == old.metadata_hash
    other.topics(flights=4)
    assert other.beat("m1", 1, owned=told.assignment).member_epoch == 2
    got = other.beat("m2", 2).assignment
    assert got == parts(FLIGHTS, 0, 1, 2, 3) - (told.assignment or NO_PARTITIONS)
    assert new.epoch == old.epoch, "nothing had changed"


def test_a_new_leader_sees_that_topics_have_changed_in_between() -> None:
    desk = desk_of(flights=1)
    desk.enter("m")
    other = desk.next_desk()
    other.topics(flights=2)
    result = other.beat("m", 1)
    assert (result.member_epoch, result.assignment) == (2, parts(FLIGHTS, 0, 1))


def test_a_new_leader_gives_members_their_full_time() -> None:
    desk = desk_of(flights=2)
    desk.enter("m1", rebalance_timeout_ms=20_000)
    desk.enter("m2")
    desk.beat("m1", 1)
    other = desk.next_desk()
    other.topics(flights=2)
    other.advance(19_999)
    assert other.error("m1", 1) is NONE
    other.advance(1)
    assert other.error("m1", 1) is GroupError.UNKNOWN_MEMBER_ID
    other.advance(25_000)
    assert other.group().is_empty


def test_records_of_a_group_that_is_gone_are_passed_over() -> None:
    desk = desk_of(flights=1)
    desk.enter("m")
    group = write_consumer_key(GROUP, ConsumerGroupKey(KeyKind.GROUP))
    desk.log.append(LogRecord(group, None))
    assert desk.next_desk().table.group_count == 0


def test_a_member_whose_place_is_not_known_begins_again() -> None:
    desk = desk_of(flights=1)
    desk.enter("m")
    current = write_consumer_key(GROUP, ConsumerGroupKey(KeyKind.CURRENT, "m"))
    desk.log.append(LogRecord(current, None))
    other = desk.next_desk()
    other.topics(flights=1)
    assert other.error("m", 1) is GroupError.FENCED_MEMBER_EPOCH
    assert other.enter("m").assignment == parts(FLIGHTS, 0)


def test_a_member_ahead_of_the_target_gets_a_new_one() -> None:
    desk = desk_of(flights=1)
    desk.enter("m")
    current = write_consumer_key(GROUP, ConsumerGroupKey(KeyKind.CURRENT, "m"))
    desk.log.append(LogRecord(current, write_current(CurrentAssignment(epoch=4))))
    other = desk.next_desk()
    other.topics(flights=1)
    result = other.beat("m", 4)
    assert (result.member_epoch, result.assignment) == (5, parts(FLIGHTS, 0))


def test_what_no_coordinator_can_have_written_is_not_believed() -> None:
    def key(kind: KeyKind, name: str = "") -> bytes:
        return write_consumer_key(GROUP, ConsumerGroupKey(kind, name))

    held = CurrentAssignment(epoch=3, assigned=parts(FLIGHTS, 0))
    older = CurrentAssignment(
        epoch=2,
        state=MemberState.UNREVOKED_PARTITIONS,
        assigned=parts(FLIGHTS, 1),
        pending_revocation=parts(FLIGHTS, 0),
    )
    member = write_member(MemberMetadata(instance_id="i", topic_names=("flights",)))
    desk = ConsumerDesk(
        log=[
            LogRecord(key(KeyKind.GROUP), write_group_epoch(GroupEpoch(3))),
            LogRecord(key(KeyKind.MEMBER, "m1"), member),
            LogRecord(key(KeyKind.MEMBER, "m2"), member),
            LogRecord(key(KeyKind.MEMBER, "m3"), write_member(MemberMetadata())),
            LogRecord(key(KeyKind.CURRENT, "m1"), write_current(held)),
            LogRecord(key(KeyKind.CURRENT, "m3"), write_current(older)),
            LogRecord(key(KeyKind.CURRENT, "nobody"), write_current(held)),
            LogRecord(key(KeyKind.CURRENT, "m1")[:-1], b""),
        ]
    )
    assert desk.table.records_skipped == 1
    assert set(desk.group().members) == {"m1", "m3"}, "an instance is one member"
    assert desk.assigned("m1") == parts(FLIGHTS, 0)
    assert desk.group().currents["m3"].held == parts(FLIGHTS, 1)


def test_a_table_that_is_loading_or_gone_says_so() -> None:
    loading = ConsumerDesk(is_active=False)
    assert loading.error("m", 1) is GroupError.COORDINATOR_LOAD_IN_PROGRESS
    assert loading.described().error is GroupError.COORDINATOR_LOAD_IN_PROGRESS
    desk = desk_of(flights=1)
    desk.holds_writes = True
    token = desk.send("m", 0, rebalance_timeout_ms=1, topic_names=("flights",), owned=NO_PARTITIONS)
    desk.table.unload()
    desk.pump()
    assert desk.answer(token).error is GroupError.NOT_COORDINATOR
    assert desk.error("m", 1) is GroupError.NOT_COORDINATOR
