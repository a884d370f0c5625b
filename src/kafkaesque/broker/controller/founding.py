"""Whether a broker without the controllers' log founds a new cluster, or has lost its disk.

Theory of operation. A broker without anything of group 0 on its disk (*fresh*) may have been a
controller, and may have promised what it has forgotten. So it has no vote until the others have
re-admitted it (`raft.readmission`): it is *amnesiac*. Only *founders*, whom its own file names as
controllers, may be those of a new cluster. Such a one waits, and its group stays closed, until one
of these is known. Heartbeats say whether their sender has a log of group 0, and its term.

- All other founders were without a log after this process was started. Then no entry is left
  that it may ever have acknowledged, and the cluster is new. A vote that it may have forgotten was
  for one of them, which has kept its term: the votes of all those terms count as given away.
  "After" is proved by echoes: a heartbeat counts that answers to one of ours, which in turn was
  sent after every one of these processes had been heard. So each of them may be told as much, by
  its incarnation (`founding`), and need not find out by itself, which it no longer can when the
  first ones have begun to lead.
- Any broker has a log, founder or not, and nobody says within `GRACE_MS` that this process was
  counted: the cluster is older than this directory. The founder is amnesiac. From the moment that
  it hears of such a log it tells the other founders so: they may not hear of it themselves.

The controllers may have changed since the cluster was founded, and those of today are nobody's
founders. So nothing is founded within `FOUNDING_MS` of the start: that is the time in which a
broker that runs finds one that has just been started, and says what it has.

A word that comes too late only costs that. A cluster that was stopped while it was being founded is
founded by the next start: there is a log only where a leader was, and a majority has kept its votes
then.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from kafkaesque.broker.peers.controller_word import EMPTY, NOTHING, SETTLED, ControllerWord
from kafkaesque.env.clock import Clock, Timer
from kafkaesque.model.ids import NodeId

#: So long after hearing of an older cluster a controller waits to be told that it was counted.
GRACE_MS = 1_000
#: No cluster is founded earlier after the start: more than a dial after a long pause, and a beat.
FOUNDING_MS = 800
#: It is said whom this broker waits for; not at once, for as a rule the others are there soon.
REMIND_FIRST_MS = 2_000
REMIND_MS = 10_000


class GroupState(NamedTuple):
    """What a broker has of group 0."""

    #: Nothing was ever here.
    is_empty: bool
    term: int
    #: There is more than the knowledge that something was lost.
    has_log: bool = False


class Decision(NamedTuple):
    """What a controller is; in terms up to `term` it must not vote."""

    is_amnesiac: bool
    term: int
    #: The broker that has shown a founder that the cluster is older.
    settled: NodeId | None = None


@dataclass(slots=True)
class _Heard:
    """A controller without a log."""

    incarnation: int
    #: Our newest heartbeat when this incarnation was first heard.
    since_sequence: int
    #: Our newest heartbeat to which it has answered that it has none.
    echoed_sequence: int


class Founding:
    """Finds out what an empty controller is; see the module."""

    def __init__(
        self,
        *,
        node: NodeId,
        incarnation: int,
        founders: tuple[NodeId, ...],
        is_fresh: bool,
        group_state: Callable[[], GroupState],
        clock: Clock,
        on_decided: Callable[[Decision], None],
        report: Callable[[str], None],
    ) -> None:
        """`on_decided` is told once, perhaps within `start`."""
        self._node = node
        self._incarnation = incarnation
        self._others = tuple(each for each in founders if each != node)
        self._is_founder = node in founders
        self._clock = clock
        self._is_early = True
        self._group_state = group_state
        self._on_decided = on_decided
        self._report = report
        self._is_fresh = is_fresh
        self._is_decided = False
        self._heard: dict[NodeId, _Heard] = {}
        self._counted: dict[NodeId, int] = {}
        #: The highest term that anybody has named.
        self._term = 0
        #: A broker that is known to have a log; and what is to be done about it.
        self._settled: NodeId | None = None
        self._grace: Timer | None = None
        self._opening: Timer | None = None
        self._reminder: Timer | None = None

    def start(self) -> None:
        """Decide at once what can be decided, and wait for the rest."""
        if not self._is_fresh or not self._is_founder:
            self._decide(is_amnesiac=self._is_fresh)
        else:
            self._opening = self._clock.call_later(FOUNDING_MS, self._on_opening)
            self._reminder = self._clock.call_later(REMIND_FIRST_MS, self._remind)

    def stop(self) -> None:
        """Decide nothing more."""
        self._is_decided = True
        self._cancel()

    def _remind(self) -> None:
        missing = ", ".join(str(node) for node in self._others if node not in self._heard)
        if missing:
            self._report(
                f"broker {self._node} has an empty directory: it waits for"
                f" controller(s) {missing} to say whether the cluster is new"
            )
        self._reminder = self._clock.call_later(REMIND_MS, self._remind)

    def word_for(self, node: NodeId) -> ControllerWord:
        """Return what is to be said in a heartbeat to a broker now."""
        if not self._is_decided:
            return ControllerWord(EMPTY if self._settled is None else SETTLED)
        state = self._group_state()
        if self._is_founder:
            standing = EMPTY if state.is_empty else SETTLED
        else:
            # One that knows of nothing but its own loss forbids nothing: it may be a new cluster's.
            standing = SETTLED if state.has_log else NOTHING
        return ControllerWord(standing, self._counted.get(node, 0), state.term)

    def on_word(
        self,
        node: NodeId,
        incarnation: int,
        word: ControllerWord,
        *,
        own_sequence: int,
        echoed_sequence: int,
    ) -> None:
        """Take what a heartbeat says that answers to our heartbeat `echoed_sequence`.

        `own_sequence` is our newest one. 0 answers to none of this process's.
        """
        if self._is_decided:
            return
        self._term = max(self._term, word.term)
        if word.founding == self._incarnation:
            self._decide(is_amnesiac=False)
        elif word.standing == EMPTY and node in self._others:
            heard = self._heard.get(node)
            if heard is None or heard.incarnation != incarnation:
                self._heard[node] = _Heard(incarnation, own_sequence, 0)
            else:
                heard.echoed_sequence = max(heard.echoed_sequence, echoed_sequence)
            self._maybe_found()
        elif word.standing == SETTLED:
            self._heard.pop(node, None)
            if self._settled is None:
                self._settled = node
                self._grace = self._clock.call_later(GRACE_MS, self._give_up)

    def _on_opening(self) -> None:
        self._is_early = False
        self._maybe_found()

    def _maybe_found(self) -> None:
        if self._is_early or self._is_decided or self._settled is not None:
            return
        if len(self._heard) < len(self._others):
            return
        since = max((heard.since_sequence for heard in self._heard.values()), default=0)
        if all(heard.echoed_sequence > since for heard in self._heard.values()):
            self._counted = {node: heard.incarnation for node, heard in self._heard.items()}
            self._decide(is_amnesiac=False)

    def _give_up(self) -> None:
        if not self._is_decided:
            self._decide(is_amnesiac=True)

    def _decide(self, *, is_amnesiac: bool) -> None:
        self._is_decided = True
        self._cancel()
        self._on_decided(Decision(is_amnesiac, self._term, self._settled if is_amnesiac else None))

    def _cancel(self) -> None:
        for timer in (self._grace, self._opening, self._reminder):
            if timer is not None:
                timer.cancel()
