"""Made-up histories of queues, each with one anomaly, which the checker has to name."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kafkaesque.sim.queues.checks import QueueChecks, held_until
from kafkaesque.sim.queues.history import (
    Act,
    Delivery,
    Outcome,
    QueueHistory,
    QueueSpec,
    Sent,
    What,
)

SPECS = {
    "work": QueueSpec(name="work", dead_letters_to="dead", limit=3, is_plain=True),
    "dead": QueueSpec(name="dead"),
}
REASONS = ("settled", "expired", "too_long", "purged", "rejected", "attempts", "redriven")


class Story:
    """A message that was put at 100, taken at 200 for 1,000 ms, and settled at 500."""

    def __init__(self) -> None:
        self.history = QueueHistory(SPECS)
        self.sent = Sent(queue="work", value=b"one", sent_ms=100, offsets={5})
        self.sent.outcome = Outcome.DONE
        self.history.note_sent(self.sent)
        self.taken = self.take(1, 200)
        self.settled = self.act(self.taken, What.SETTLE, 500)
        for name, count in (("work", 1), ("dead", 0)):
            counts = dict.fromkeys(("ready", "delayed", "in_flight", "parked", "moving"), 0)
            counts |= {f"removed_{reason}": 0 for reason in REASONS}
            self.history.counts[name] = counts | {"arrived": count, "removed_settled": count}

    def take(self, attempt: int, at_ms: float, **more: Any) -> Delivery:
        said: dict[str, Any] = {
            "queue": "work",
            "partition": 0,
            "offset": 5,
            "failures": attempt - 1,
            "value": b"one",
            "deaths": (),
            "lock_ms": 1_000,
            "sent_wall_ms": int(at_ms),
            "answered_wall_ms": int(at_ms) + 10,
        }
        said |= more
        taken = Delivery(attempt=attempt, sent_ms=at_ms, answered_ms=at_ms + 10, **said)
        self.history.note_deliveries([taken])
        return taken

    @staticmethod
    def act(taken: Delivery, what: What, at_ms: float, **more: Any) -> Act:
        said: dict[str, Any] = {"outcome": Outcome.DONE, **more}
        act = Act(what=what, sent_ms=at_ms, **said)
        taken.acts.append(act)
        return act

    def found(self) -> list[str]:
        found: list[str] = []
        QueueChecks(self.history, found.append, do_clocks_tell=True).check()
        return found


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert Story().found() == []


def unsent(story: Story) -> None:
    story.act(story.take(1, 200, value=b"other", offset=6), What.SETTLE, 300)


def refused(story: Story) -> None:
    story.sent.outcome = Outcome.REFUSED


def elsewhere(story: Story) -> None:
    story.sent.offsets = {4}


def twice(story: Story) -> None:
    story.act(story.take(1, 300, offset=6), What.SETTLE, 400)


def lost(story: Story) -> None:
    story.taken.acts.clear()


def lost_when_rejected(story: Story) -> None:
    story.settled.what = What.REJECT


def same_attempt(story: Story) -> None:
    story.take(1, 300)


def earlier_attempt(story: Story) -> None:
    story.taken.attempt, story.taken.failures = 2, 1
    story.take(1, 3_000)


def forgotten(story: Story) -> None:
    story.settled.what = What.FAIL
    story.act(story.take(2, 600, failures=0), What.SETTLE, 700)


def made_up(story: Story) -> None:
    story.settled.what = What.RELEASE
    story.act(story.take(2, 600), What.SETTLE, 700)


def too_often(story: Story) -> None:
    story.taken.attempt, story.taken.failures = 4, 3


def again(story: Story) -> None:
    story.act(story.take(2, 600), What.SETTLE, 700)


def early(story: Story) -> None:
    story.settled.sent_ms = 1_500
    story.settled.outcome = Outcome.REFUSED
    story.act(story.take(2, 600), What.SETTLE, 700)


def dead(story: Story, *death: object, **more: Any) -> None:
    story.act(story.take(1, 900, queue="dead", deaths=(death,), **more), What.SETTLE, 950)


def settled_and_dead(story: Story) -> None:
    dead(story, "work", "rejected", 1)


def dead_twice(story: Story) -> None:
    dead(story, "work", "rejected", 1, offset=1)
    dead(story, "work", "rejected", 1, offset=2)


def never_rejected(story: Story) -> None:
    story.settled.what = What.FAIL
    dead(story, "work", "rejected", 1)


def too_soon(story: Story) -> None:
    story.sent.not_before_ms = 5_000


def too_late(story: Story) -> None:
    story.taken.sent_wall_ms, story.sent.not_after_ms = 5_000, 1_000


def out_of_order(story: Story) -> None:
    later = replace(story.taken, offset=9)
    story.history.drained["work"] = [[later], [story.taken]]


def miscounted(story: Story) -> None:
    story.history.counts["work"]["arrived"] = 2


def not_empty(story: Story) -> None:
    story.history.counts["work"]["parked"] = 1


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (unsent, "unsent"),
        (refused, "refused put"),
        (elsewhere, "inconsistent offset"),
        (twice, "doubled message"),
        (lost, "lost message"),
        (lost_when_rejected, "lost dead letter"),
        (same_attempt, "attempt given twice"),
        (earlier_attempt, "attempt went back"),
        (forgotten, "forgotten attempt"),
        (made_up, "made-up failure"),
        (too_often, "over the limit"),
        (again, "settled again"),
        (early, "lock ended early"),
        (settled_and_dead, "settled again"),
        (dead_twice, "doubled dead letter"),
        (never_rejected, "wrong death"),
        (too_soon, "too early"),
        (too_late, "too late"),
        (out_of_order, "out of order"),
        (miscounted, "wrong count"),
        (not_empty, "wrong count"),
    ],
)
def test_an_anomaly_is_named(change: Callable[[Story], None], what: str) -> None:
    story = Story()
    change(story)
    assert any(each.startswith(what) for each in story.found()), story.found()


def test_a_lock_is_held_until_its_holder_lets_go_or_a_fast_clock_ends_it() -> None:
    story = Story()
    taken = story.taken
    assert held_until(taken) == 500
    taken.acts.clear()
    assert held_until(taken) == 200 + 1_000 / 1.25
    extended = story.act(taken, What.EXTEND, 600, lock_ms=2_000)
    assert held_until(taken) == 600 + 2_000 / 1.25
    extended.outcome = Outcome.UNKNOWN
    assert held_until(taken) == 200 + 1_000 / 1.25
    taken.let_go_ms = 300
    assert held_until(taken) == taken.answered_ms


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        ((5, 3_000), (6, 200), "group out of order"),
        ((5, 200), (6, 400), "group in two hands"),
        ((5, 200), (6, 200), "group in two hands"),
    ],
)
def test_groups(first: tuple[int, float], second: tuple[int, float], what: str) -> None:
    story = Story()
    spec = replace(SPECS["work"], is_ordered=True)
    history = QueueHistory({**SPECS, "work": spec})
    history.counts.update(story.history.counts)
    story.history = history
    for (offset, at_ms), value in ((first, b"one"), (second, b"two")):
        history.note_sent(Sent(queue="work", value=value, sent_ms=1, group=b"g"))
        story.take(1, at_ms, offset=offset, value=value)
    assert any(each.startswith(what) for each in story.found()), story.found()


def test_a_record_of_a_topic_that_is_not_given_out_is_missed() -> None:
    story = Story()
    spec = QueueSpec(name="work", topic="events")
    history = QueueHistory({"work": spec, "dead": SPECS["dead"]})
    history.counts.update(story.history.counts)
    story.history = history
    history.records["work"] = {(0, b"one"): 5, (0, b"two"): 6, (1, b"three"): 5}
    story.act(story.take(1, 200), What.SETTLE, 300)
    story.act(story.take(1, 200, offset=7, value=b"two"), What.SETTLE, 300)
    found = story.found()
    assert any(each.startswith("inconsistent offset") for each in found)
    assert any(each.startswith("lost message: (1, b'three')") for each in found)


class ChainStory(Story):
    """The message was given up in `work`, then in `dead`, and ended in `buried`."""

    def __init__(self) -> None:
        super().__init__()
        specs = {**SPECS, "buried": QueueSpec(name="buried")}
        specs["dead"] = replace(SPECS["dead"], dead_letters_to="buried", limit=2)
        history = QueueHistory(specs)
        history.note_sent(self.sent)
        history.counts.update(self.history.counts)
        history.counts["buried"] = dict(history.counts["work"])
        for name in ("work", "dead"):
            given_up = {"arrived": 1, "removed_settled": 0, "removed_attempts": 1}
            history.counts[name] = history.counts[name] | given_up
        self.history = history

    def bury(self) -> None:
        deaths = (("work", "attempts", 3), ("dead", "attempts", 2))
        self.act(self.take(1, 900, queue="buried", deaths=deaths), What.SETTLE, 950)


def test_a_dead_letter_that_nobody_has_seen_on_its_way_is_not_lost() -> None:
    story = ChainStory()
    story.bury()
    assert story.found() == []


def test_a_dead_letter_that_comes_to_no_end_is_lost() -> None:
    story = ChainStory()
    assert "lost dead letter: 1 left work, 0 came" in story.found()
    story.take(1, 300, queue="dead", deaths=(("work", "attempts", 3),))
    assert any(each.startswith("lost dead letter: b'one'") for each in story.found())


def test_a_message_that_is_settled_again_and_again_counts_once() -> None:
    # Else a queue that gives it out for ever would count as one that is being emptied.
    story = Story()
    assert story.history.count_settled() == 1
    story.act(story.take(2, 600), What.SETTLE, 650)
    story.act(story.take(3, 700), What.FAIL, 750)
    assert story.history.count_settled() == 1
    story.act(story.take(1, 800, offset=6, value=b"two"), What.SETTLE, 850)
    assert story.history.count_settled() == 2
