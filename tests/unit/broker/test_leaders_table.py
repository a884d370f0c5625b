"""What a broker believes about who leads what, while others fall silent and come back."""

from __future__ import annotations

from kafkaesque.broker.leaders_table import LeadersTable
from kafkaesque.broker.peer_messages import LeaderReport
from kafkaesque.model.ids import GroupId, NodeId

GROUP = GroupId(7)
ONE, TWO = NodeId(1), NodeId(2)


def reported(term: int, leader: NodeId) -> LeaderReport:
    return LeaderReport(GROUP, term, leader, (1, 2, 3))


def known(table: LeadersTable) -> NodeId | None:
    return table.leader(GROUP)


def test_a_report_counts_unless_its_term_is_older() -> None:
    table = LeadersTable()
    assert known(table) is None
    assert table.learn(reported(3, ONE))
    assert not table.learn(reported(3, ONE))
    assert not table.learn(reported(2, TWO))
    assert known(table) == ONE
    assert table.learn(reported(4, TWO))
    assert known(table) == TWO


def test_a_silent_broker_leads_nothing_until_it_is_heard_again_with_nothing_new_to_say() -> None:
    table = LeadersTable()
    table.learn(reported(3, ONE))
    table.silence(ONE)
    assert known(table) is None
    table.hear(ONE, restarted=False)
    assert known(table) == ONE


def test_who_took_over_from_a_silent_broker_leads_on_when_that_is_heard_again() -> None:
    table = LeadersTable()
    table.learn(reported(3, ONE))
    table.silence(ONE)
    table.learn(reported(4, TWO))
    assert known(table) == TWO
    table.hear(ONE, restarted=False)
    assert known(table) == TWO


def test_a_restarted_broker_leads_nothing_that_it_led_before() -> None:
    table = LeadersTable()
    table.learn(reported(3, ONE))
    table.silence(ONE)
    table.hear(ONE, restarted=True)
    assert known(table) is None


def test_what_a_restarted_broker_says_before_it_counts_as_alive_is_not_lost() -> None:
    table = LeadersTable()
    table.learn(reported(3, ONE))
    table.silence(ONE)
    table.learn(reported(4, ONE))
    assert known(table) is None
    table.hear(ONE, restarted=True)
    assert known(table) == ONE


def test_every_change_of_an_answer_changes_the_version() -> None:
    table = LeadersTable()
    versions = [table.version]
    table.learn(reported(3, ONE))
    versions.append(table.version)
    table.silence(ONE)
    versions.append(table.version)
    table.hear(ONE, restarted=False)
    versions.append(table.version)
    assert len(set(versions)) == len(versions)


def test_a_hint_counts_only_while_no_leader_has_said_so_itself() -> None:
    table = LeadersTable()
    asked: list[tuple[GroupId, int]] = []

    def hint(group: GroupId, term_min: int) -> NodeId | None:
        asked.append((group, term_min))
        return TWO

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
    assert asked == [(GROUP, 0), (GROUP, 4)]
    table.silence(TWO)
    assert known(table) is None
