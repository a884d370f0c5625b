"""What the queues that a broker leads have done since its start, in plain numbers."""

from kafkaesque.queues.decisions import Arrive, Assign, Bury, Decision, Park, Reason
from kafkaesque.queues.runs import length_of
from kafkaesque.queues.state import State


class Tally:
    """Counts decisions where they are made; one may serve any number of queues.

    What is decided is counted at once: a change of leader may take the last of it back.
    """

    __slots__ = ("arrived", "attempts", "dead_letters", "parked", "redeliveries", "removed")

    def __init__(self) -> None:
        self.arrived = 0
        #: How often a message was given out, and how often it was not the first time.
        self.attempts = self.redeliveries = 0
        #: By reason: gone for good; moved elsewhere, and there by now; set aside.
        self.removed = [0] * len(Reason)
        self.dead_letters = [0] * len(Reason)
        self.parked = [0] * len(Reason)

    def on_deciding(self, state: State, decision: Decision) -> tuple[int, ...]:
        """Count a decision that does not hold yet; return what `on_decided` needs."""
        if isinstance(decision, Assign):
            self.attempts += length_of(decision.runs)
            if state.attempts:
                tried = (state.attempts.values(*run) for run in decision.runs)
                self.redeliveries += sum(len(each) - each.count(0) for each in tried)
        elif isinstance(decision, Park):
            self.parked[decision.reason] += length_of(decision.runs)
        elif isinstance(decision, Arrive):
            self.arrived += length_of(decision.arrival.runs)
        return tuple(state.removed)

    def on_decided(self, state: State, decision: Decision, before: tuple[int, ...]) -> None:
        """Count what has gone by a decision that holds now."""
        if before == tuple(state.removed):
            return
        counts = self.dead_letters if isinstance(decision, Bury) else self.removed
        for reason, (was, now) in enumerate(zip(before, state.removed, strict=True)):
            counts[reason] += now - was
