"""A leader is lost between any two steps: of put, acquire, settle, dead-letter, redrive.

Each story is told once for each place in it where a leader may be lost, before what it just decided
is committed or after. Who has no answer asks again; a target takes each number once.
"""

from collections.abc import Callable

import pytest

from kafkaesque.queues.policy import Policy
from kafkaesque.queues.requests import Claim, Done, Moved, Redrive, Reject, Settle, Take, Taken
from tests.unit.queues.queue_host import PLAIN, QueueHost

POLICY = Policy(lock_ms=100, dead_letters_to="dead", attempts_max=5)


class Story:
    """A queue whose leader is lost after a step, and clients that do not give up."""

    def __init__(self, lost_after: int, is_committed: bool) -> None:
        self.host = QueueHost(policy=POLICY)
        self.lost_after = lost_after
        self.is_committed = is_committed
        self.steps = 0
        self.targets: dict[str, dict[int, int]] = {}
        self.seen: set[tuple[int, int]] = set()

    def step(self, do: Callable[[], object]) -> None:
        """Do something of which the outcome may be lost, and commit it if the leader lives."""
        self.steps += 1
        is_last = self.steps == self.lost_after
        self.host.commits = self.is_committed or not is_last
        do()
        if is_last:
            self.host.new_leader()
        self.host.commits = True

    def put(self) -> None:
        """Until it is confirmed: without identities it may be there twice."""
        while not self.host.table.state.arrived_count:
            self.step(lambda: self.host.put(PLAIN))

    def acquire(self) -> tuple[Claim, ...]:
        """Until there is a message, which may take until a lost lock ends."""
        for _ in range(5):
            self.step(lambda: self.host.ask(Take))
            answer = self.host.answers.get(self.host._last_token)
            if isinstance(answer, Taken) and answer.claims:
                for first, end, attempt in answer.claims:
                    for offset in range(first, end):
                        assert (offset, attempt) not in self.seen, "an attempt came twice"
                        self.seen.add((offset, attempt))
                return answer.claims
            self.host.pass_time(100)
        raise AssertionError("a message is lost")

    def until_done(self, kind: Callable[..., object], **fields: object) -> None:
        """Until there is an answer; what was done already may be stale then."""
        for _ in range(3):
            self.step(lambda: self.host.ask(kind, **fields))  # type: ignore[arg-type]
            if isinstance(self.host.answers.get(self.host._last_token), Done):
                return
        raise AssertionError("no answer")

    def move(self) -> None:
        """Do what was asked for so far, and report it, until nothing is on its way."""
        for _ in range(5):
            moving = self.host.table.state.moving
            if not moving:
                return
            for move in self.host.moves:
                there = self.targets.setdefault(move.target, {})
                assert move.sequence <= len(there)
                assert there.setdefault(move.sequence, move.offset) == move.offset
            self.until_done(Moved, offsets=tuple(move.offset for move in self.host.moves))
        raise AssertionError("something stays on its way")


#: No story has more steps than this.
STEPS = range(1, 9)
PLACES = [(after, is_committed) for after in STEPS for is_committed in (False, True)]


@pytest.mark.parametrize(("after", "is_committed"), PLACES)
def test_a_message_is_settled_once_and_does_not_come_again(after: int, is_committed: bool) -> None:
    story = Story(after, is_committed)
    story.put()
    claims = story.acquire()
    story.until_done(Settle, claims=claims)
    story.host.pass_time(1_000)
    assert not story.host.take(1)
    assert not story.host.table.state.live


@pytest.mark.parametrize(("after", "is_committed"), PLACES)
def test_a_dead_letter_is_there_once(after: int, is_committed: bool) -> None:
    story = Story(after, is_committed)
    story.put()
    story.until_done(Reject, claims=story.acquire())
    story.move()
    assert len(story.targets["dead"]) == 1
    assert not story.host.table.state.live


@pytest.mark.parametrize(("after", "is_committed"), PLACES)
def test_a_redriven_message_is_there_once(after: int, is_committed: bool) -> None:
    story = Story(after, is_committed)
    story.put()
    story.until_done(Redrive, target="source")
    story.move()
    assert len(story.targets["source"]) == 1
    assert not story.host.table.state.live
