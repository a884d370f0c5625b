"""What a broker believes about who leads what, while others fall silent and come back."""

from __future__ import annotations

from kafkaesque.broker.peers.messages import LeaderReport
from kafkaesque.broker.replication.leaders_table import LeadersTable
from kafkaesque.membership.view import LeaderHint
from kafkaesque.model.ids import GroupId, NodeId

GROUP = GroupId(7)
ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def reported(term: int, leader: NodeId) -> LeaderReport:
    return LeaderReport(GROUP, term, leader, (1, 2, 3))


def known(table: LeadersTable) -> NodeId | None:
    return table.leader(GROUP)


def test_a_report_counts_unless_its_term_is_older() -> None:
    table = LeadersTable(THREE)
    assert known(table) is None
    assert table.learn(reported(3, ONE))
    assert not table.learn(reported(3, ONE))
    assert not table.learn(reported(2, TWO))
    assert known(table) == ONE
    assert table.learn(reported(4, TWO))
    assert known(table) == TWO


def test_a_silent_broker_leads_nothing_until_it_is_heard_again_with_nothing_new_to_say() -> None:
    table = LeadersTable(THREE)
    table.learn(reported(3, ONE))
    table.silence(ONE)
    assert known(table) is None
    table.hear(ONE, restarted=False)
    assert known(table) == ONE


def test_who_took_over_from_a_silent_broker_leads_on_when_that_is_heard_again() -> None:
    table = LeadersTable(THREE)
    table.learn(reported(3, ONE))
    table.silence(ONE)
    table.learn(reported(4, TWO))
    assert known(table) == TWO
    table.hear(ONE, restarted=False)
    assert known(table) == TWO


def test_a_restarted_broker_leads_nothing_that_it_led_before() -> None:
    table = LeadersTable(THREE)
    table.learn(reported(3, ONE))
    table.silence(ONE)
    table.hear(ONE, restarted=True)
    assert known(table) is None


def test_what_a_restarted_broker_says_before_it_counts_as_alive_is_not_lost() -> None:
    table = LeadersTable(THREE)
    table.learn(reported(3, ONE))
    table.silence(ONE)
    table.learn(reported(4, ONE))
    assert known(table) is None
    table.hear(ONE, restarted=True)
    assert known(table) == ONE


def test_every_change_of_an_answer_changes_the_version() -> None:
    table = LeadersTable(THREE)
    versions = [table.version]
    table.learn(reported(3, ONE))
    versions.append(table.version)
    table.silence(ONE)
    versions.append(table.version)
    table.hear(ONE, restarted=False)
    versions.append(table.version)
    assert len(set(versions)) == len(versions)


def test_a_hint_counts_only_while_no_leader_has_said_so_itself() -> None:
    table = LeadersTable(THREE)
    asked: list[tuple[GroupId, int]] = []

    def hint(group: GroupId, term_min: int) -> LeaderHint | None:
        asked.append((group, term_min))
        return LeaderHint(TWO, 7)

    table.hint = hint
    assert known(table) == TWO
    before = table.version
    table.on_hint(GROUP)
    assert table.version > before
    table.learn(reported(3, ONE))
    assert known(table) == ONE
    before = table.version
    table.on_hint(GROUP)
    assert table.version == before
    table.retire(GROUP, 4)
    assert known(table) == TWO
    # What a leader has said of itself in a term that has ended is not to be heard again.
    assert asked == [(GROUP, 0), (GROUP, 5)]
    assert table.leader_and_term(GROUP) == (TWO, 7)
    table.silence(TWO)
    assert known(table) is None


def test_a_term_that_has_ended_does_not_come_back_and_a_later_one_counts() -> None:
    table = LeadersTable(THREE)
    table.retire(GROUP, 3)
    assert table.get(GROUP) is None
    table.learn(reported(3, ONE))
    table.retire(GROUP, 2)
    assert known(table) == ONE
    table.retire(GROUP, 3)
    assert known(table) is None
    assert not table.learn(reported(3, ONE))
    assert not table.learn(reported(2, TWO))
    assert table.learn(reported(4, TWO))
    # Told late, as the end of a term is.
    table.retire(GROUP, 3)
    assert known(table) == TWO


def test_who_says_all_that_it_leads_leads_nothing_else() -> None:
    table = LeadersTable(THREE)
    for group, leader in ((1, ONE), (2, ONE), (3, TWO)):
        table.learn(LeaderReport(group, 5, leader, (1, 2)))
    table.silence(ONE)
    table.retire_all_but(ONE, {1})
    table.hear(ONE, restarted=False)
    assert [table.leader(GroupId(group)) for group in (1, 2, 3)] == [ONE, None, TWO]
    # What was known of it is told to clients still.
    report = table.get(GroupId(2))
    assert report is not None
    assert (report.term, report.leader, report.in_sync) == (5, -1, (1, 2))


def test_the_ends_of_its_own_terms_are_to_be_told_once_however_it_hears_of_them() -> None:
    table = LeadersTable(ONE)
    for group in range(1, 6):
        table.learn(LeaderReport(group, 5, ONE, (1, 2)))
    table.learn(LeaderReport(1, 5, ONE, (1,)))
    assert table.take_ended() == []
    table.retire(GroupId(2), 7)
    table.learn(LeaderReport(3, 6, TWO, (1, 2)))
    table.retire(GroupId(4), 5)
    table.learn(LeaderReport(4, 8, ONE, (1, 2)))
    table.retire(GroupId(5), 5)
    table.forget(GroupId(5))
    ended = [(each.group, each.term, each.leader) for each in table.take_ended()]
    assert ended == [(2, 5, -1), (3, 5, -1)]
    assert table.take_ended() == []
