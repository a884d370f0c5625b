"""What is counted of queues where they are led."""

from kafkaesque.queues.decisions import Reason
from kafkaesque.queues.policy import Policy, Undeliverable
from kafkaesque.queues.requests import GiveBack, Moved, Purge, Reject
from kafkaesque.queues.tally import Tally
from tests.unit.queues.queue_host import PLAIN, QueueHost


def tally_of(host: QueueHost) -> Tally:
    return host.table.tally


def test_attempts_count_each_time_and_redeliveries_all_but_the_first() -> None:
    host = QueueHost()
    host.put(PLAIN, PLAIN)
    host.ask(GiveBack, claims=host.take(1))
    claims = host.take(2)
    host.settle(*claims)
    tally = tally_of(host)
    assert (tally.arrived, tally.attempts, tally.redeliveries) == (2, 3, 1)
    assert tally.removed[Reason.SETTLED] == 2
    assert sum(tally.removed) == 2


def test_purged_messages_are_dropped_and_not_settled() -> None:
    host = QueueHost()
    host.put(PLAIN, PLAIN, PLAIN)
    host.ask(Purge)
    assert tally_of(host).removed[Reason.PURGED] == 3


def test_a_message_without_a_place_for_dead_letters_is_parked() -> None:
    host = QueueHost(policy=Policy(attempts_max=1, undeliverable=Undeliverable.PARK))
    host.put(PLAIN)
    host.ask(GiveBack, claims=host.take(1), is_failed=True)
    tally = tally_of(host)
    assert tally.parked[Reason.ATTEMPTS] == 1
    assert sum(tally.removed) == sum(tally.dead_letters) == 0


def test_a_dead_letter_counts_when_its_target_has_it() -> None:
    host = QueueHost(policy=Policy(dead_letters_to="dead"))
    host.put(PLAIN)
    host.ask(Reject, claims=host.take(1))
    assert sum(tally_of(host).dead_letters) == 0
    host.ask(Moved, offsets=(host.moves[0].offset,))
    tally = tally_of(host)
    assert tally.dead_letters[Reason.REJECTED] == 1
    assert sum(tally.removed) == 0


def test_a_follower_counts_nothing() -> None:
    host = QueueHost()
    host.put(PLAIN)
    host.settle(*host.take(1))
    host.new_leader()
    assert (tally_of(host).arrived, tally_of(host).attempts) == (0, 0)
