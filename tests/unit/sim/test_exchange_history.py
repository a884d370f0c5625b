"""Made-up histories of exchanges: what the checker calls wrong, and what it does not."""

from __future__ import annotations

from kafkaesque.sim.exchanges.checks import ExchangeChecks
from kafkaesque.sim.exchanges.history import ExchangeHistory, Given, Outcome, Sent
from kafkaesque.sim.exchanges.topology import WAYS, Way

TO_ALL = next(each for each in WAYS if each.key == "c.x")
TO_A = next(each for each in WAYS if each.key == "a" and not each.exchange)
NOWHERE = next(each for each in WAYS if not each.queues)


class Story:
    """A history, told step by step."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.history = ExchangeHistory(self.found.append)

    def sent(
        self,
        number: int,
        way: Way = TO_A,
        outcome: Outcome = Outcome.CONFIRMED,
        *,
        mandatory: bool = False,
    ) -> bytes:
        body = b"%d" % number
        sent = Sent(session="p/1", number=number, way=way, is_mandatory=mandatory)
        self.history.note_sent(body, sent)
        if outcome is not Outcome.UNKNOWN:
            self.history.note_outcome(body, outcome)
        return body

    def given(
        self,
        body: bytes,
        queue: str = "a",
        *,
        way: Way = TO_A,
        again: bool = False,
        session: str = "c/1",
        key: str | None = None,
    ) -> Given:
        given = Given(
            queue=queue,
            session=session,
            body=body,
            exchange=way.exchange,
            key=way.key if key is None else key,
            is_redelivered=again,
            at=self.history.now(),
        )
        self.history.note_given(given)
        return given

    def settled(self, given: Given) -> None:
        given.settled_at = self.history.now()

    def wrong(self) -> list[str]:
        ExchangeChecks(self.history).check()
        return [each.partition(":")[0] for each in self.found]


def test_all_is_well() -> None:
    story = Story()
    first, second = story.sent(1), story.sent(2)
    held = story.given(first)
    story.given(second)
    story.given(first, again=True)
    story.settled(held)
    story.sent(3, outcome=Outcome.REFUSED)
    story.sent(4, outcome=Outcome.UNKNOWN)
    assert story.wrong() == []
    assert story.history.tally() == {
        "published": 4,
        "confirmed": 2,
        "refused": 1,
        "returned": 0,
        "delivered": 3,
        "delivered again": 1,
        "acknowledged": 1,
    }


def test_a_confirmed_message_has_to_come_from_each_of_its_queues() -> None:
    story = Story()
    story.sent(1)
    assert story.wrong() == ["lost"]


def test_an_acknowledged_message_does_not_come_again() -> None:
    story = Story()
    body = story.sent(1)
    story.settled(story.given(body))
    story.given(body, again=True)
    assert story.wrong() == ["acknowledged again"]


def test_a_channels_messages_come_in_order() -> None:
    story = Story()
    first, second = story.sent(1), story.sent(2)
    story.given(second)
    story.given(first, session="c/2")
    assert story.wrong() == ["out of order"]


def test_two_consumers_may_see_them_as_their_networks_let_them() -> None:
    story = Story()
    first, second = story.sent(1, TO_ALL), story.sent(2, TO_ALL)
    story.given(second, "all", way=TO_ALL, session="c/1")
    story.given(first, "all", way=TO_ALL, session="d/1")
    assert story.wrong() == []


def test_a_message_is_new_once() -> None:
    story = Story()
    body = story.sent(1)
    story.given(body)
    story.given(body)
    assert story.wrong() == ["doubled"]


def test_what_nobody_sent_so() -> None:
    story = Story()
    body = story.sent(1)
    story.given(body)
    story.given(b"made up")
    story.given(body, "b", again=True)
    story.given(body, key="another", again=True)
    assert sorted(story.wrong()) == ["altered", "made up", "wrong queue"]


def test_returns() -> None:
    story = Story()
    history = story.history
    body = story.sent(1, NOWHERE, Outcome.UNKNOWN, mandatory=True)
    history.note_returned(body)
    history.note_outcome(body, Outcome.CONFIRMED)
    assert story.wrong() == []
    history.note_returned(story.sent(2, NOWHERE, mandatory=True))
    assert story.found.pop().startswith("return after its confirm")
    history.note_returned(story.sent(3, TO_A, Outcome.UNKNOWN, mandatory=True))
    assert story.found.pop().startswith("return of a routed message")
    history.note_returned(story.sent(4, NOWHERE, Outcome.UNKNOWN))
    assert story.found.pop().startswith("return unasked")
    history.note_returned(b"made up")
    assert story.found.pop().startswith("made-up return")
    story.sent(5, NOWHERE, mandatory=True)
    assert story.wrong() == ["unreturned"]


def test_an_outcome_is_told_once() -> None:
    story = Story()
    body = story.sent(1)
    story.given(body)
    story.history.note_outcome(body, Outcome.REFUSED)
    assert story.wrong() == ["second answer"]
