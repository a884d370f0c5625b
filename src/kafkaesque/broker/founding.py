"""Whether an empty controller is one of a new cluster, or has lost its disk.

Theory of operation. A controller without anything of group 0 on its disk (*fresh*) must not vote
before it knows: it may have promised what it has forgotten. It waits, and its group stays closed,
until one of these is known. Heartbeats say whether their sender has a log of group 0, and its term.

- All other controllers were without a log after this process was started. Then no entry is left
  that it may ever have acknowledged, and the cluster is new. A vote that it may have forgotten was
  for one of them, which has kept its term: the votes of all those terms count as given away.
  "After" is proved by echoes: a heartbeat counts that answers to one of ours, which in turn was
  sent after every one of these processes had been heard. So each of them may be told as much, by
  its incarnation (`founding`), and need not find out by itself, which it no longer can when the
  first ones have begun to lead.
- One of them has a log, and nobody says within `GRACE_MS` that this process was counted: the
  cluster is older than this directory. The controller is *amnesiac*: it gets the log and has no
  vote until the others have taken it in anew (`raft.readmission`).

A word that comes too late only costs that. A cluster that was stopped while it was being founded is
founded by the next start: there is a log only where a leader was, and a majority has kept its votes
then.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from kafkaesque.env.clock import Clock, Timer
from kafkaesque.model.ids import NodeId

#: So long after hearing of an older cluster a controller waits to be told that it was counted.
GRACE_MS = 1_000
#: It is said whom this broker waits for; not at once, for as a rule the others are there soon.
REMIND_FIRST_MS = 2_000
REMIND_MS = 10_000

NO_CONTROLLER = 0
#: Its log of group 0 is empty, or it has one.
EMPTY = 1
SETTLED = 2


class ControllerWord(NamedTuple):
    """What a heartbeat says of its sender's controller."""

    standing: int = NO_CONTROLLER
    #: The incarnation of the receiver that the sender has counted in a new cluster; 0: none.
    founding: int = 0
    #: The sender's newest term of group 0.
    term: int = 0


class GroupState(NamedTuple):
    """What a controller has of group 0."""

    is_empty: bool
    term: int


class Decision(NamedTuple):
    """What a controller is; in terms up to `term` it must not vote."""

    is_amnesiac: bool
    term: int


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
        controllers: tuple[NodeId, ...],
        is_fresh: bool,
        group_state: Callable[[], GroupState],
        clock: Clock,
        on_decided: Callable[[Decision], None],
        report: Callable[[str], None],
    ) -> None:
        """`on_decided` is told once, perhaps within `start`."""
        self._node = node
        self._incarnation = incarnation
        self._others = tuple(each for each in controllers if each != node)
        self._is_controller = node in controllers
        self._clock = clock
        self._group_state = group_state
        self._on_decided = on_decided
        self._report = report
        self._is_decided = not is_fresh or not self._is_controller
        self._heard: dict[NodeId, _Heard] = {}
        self._counted: dict[NodeId, int] = {}
        #: The highest term that anybody has named.
        self._term = 0
        self._grace: Timer | None = None
        self._reminder: Timer | None = None

    def start(self) -> None:
        """Decide at once what can be decided, and wait for the rest."""
        if self._is_decided or not self._others:
            self._decide(is_amnesiac=False)
        else:
            self._reminder = self._clock.call_later(REMIND_FIRST_MS, self._remind)

    def stop(self) -> None:
        """Decide nothing more."""
        self._is_decided = True
        self._cancel()

    def _remind(self) -> None:
        missing = ", ".join(str(node) for node in self._others if node not in self._heard)
        if missing:
            self._report(
                f"broker {self._node} has an empty directory: it waits for the word of"
                f" controller(s) {missing} to know whether the cluster is new"
            )
        self._reminder = self._clock.call_later(REMIND_MS, self._remind)

    def word_for(self, node: NodeId) -> ControllerWord:
        """Return what is to be said in a heartbeat to a broker now."""
        if not self._is_controller:
            return ControllerWord()
        if not self._is_decided:
            return ControllerWord(EMPTY)
        state = self._group_state()
        standing = EMPTY if state.is_empty else SETTLED
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

        `own_sequence` is our newest one.
        """
        if self._is_decided or node not in self._others:
            return
        self._term = max(self._term, word.term)
        if word.founding == self._incarnation:
            self._decide(is_amnesiac=False)
        elif word.standing == EMPTY:
            heard = self._heard.get(node)
            if heard is None or heard.incarnation != incarnation:
                self._heard[node] = _Heard(incarnation, own_sequence, 0)
            else:
                heard.echoed_sequence = max(heard.echoed_sequence, echoed_sequence)
            self._maybe_found()
        elif word.standing == SETTLED:
            self._heard.pop(node, None)
            if self._grace is None:
                self._grace = self._clock.call_later(GRACE_MS, self._give_up)

    def _maybe_found(self) -> None:
        if len(self._heard) < len(self._others):
            return
        since = max(heard.since_sequence for heard in self._heard.values())
        if all(heard.echoed_sequence > since for heard in self._heard.values()):
            self._counted = {node: heard.incarnation for node, heard in self._heard.items()}
            self._decide(is_amnesiac=False)

    def _give_up(self) -> None:
        if not self._is_decided:
            self._decide(is_amnesiac=True)

    def _decide(self, *, is_amnesiac: bool) -> None:
        self._is_decided = True
        self._cancel()
        self._on_decided(Decision(is_amnesiac, self._term))

    def _cancel(self) -> None:
        for timer in (self._grace, self._reminder):
            if timer is not None:
                timer.cancel()
