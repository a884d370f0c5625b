"""What the parts of a leader's engine share: the state, the time, and the ways to decide."""

from collections.abc import Callable, Iterable

from kafkaesque.queues.decisions import Bury, Decision, Kill, Park, Reason, Release, Remove
from kafkaesque.queues.policy import Undeliverable
from kafkaesque.queues.requests import Answer, Effect, Move
from kafkaesque.queues.runs import Run, runs_of
from kafkaesque.queues.state import Place, State
from kafkaesque.tables.log_table import Instant, RequestToken, Respond


class Context:
    """See the module."""

    __slots__ = ("decide", "now", "release", "state")

    def __init__(
        self,
        state: State,
        decide: Callable[[Decision], None],
        release: Callable[[Effect], None],
    ) -> None:
        self.state = state
        #: Lets a decision hold, and logs it.
        self.decide = decide
        #: Lets an effect happen once all is committed that was decided until now.
        self.release = release
        #: Lock time and the wall's, of this turn.
        self.now = Instant(0, 0)

    def answer(self, token: RequestToken, answer: Answer) -> None:
        """Answer a request at the commit."""
        self.release(Respond(token, answer))

    # -- ways in which messages end, or do not

    def give_up(self, reason: Reason, offsets: Iterable[int]) -> None:
        """Make dead letters of messages, or what the policy says where there is no place for them.

        `offsets` rise.
        """
        policy, runs = self.state.policy, runs_of(offsets)
        if not runs:
            return
        if policy.dead_letters_to and _makes_dead_letters(reason):
            self.move(reason, policy.dead_letters_to, runs)
        elif reason in _DROPPED or policy.undeliverable is Undeliverable.DROP:
            self.decide(Remove(reason, runs))
        else:
            self.decide(Park(reason, runs))

    def move(self, reason: Reason, target: str, runs: tuple[Run, ...]) -> None:
        """Send messages to another place."""
        self.decide(Kill(reason, target, runs))
        for first, end in runs:
            for offset in range(first, end):
                self.ask_to_move(offset)

    def ask_to_move(self, offset: int) -> None:
        """Ask the host to append a moving message to its target."""
        moving = self.state.moving[offset]
        self.release(
            Move(
                offset=offset,
                target=moving.target,
                sequence=moving.sequence,
                reason=moving.reason,
                attempts=self.state.attempts[offset],
            )
        )

    def bury(self, offsets: Iterable[int]) -> None:
        """Forget messages that are elsewhere now; those that are already forgotten are passed."""
        runs = runs_of(sorted(each for each in set(offsets) if each in self.state.moving))
        if runs:
            self.decide(Bury(runs))

    def give_back(
        self, offsets: Iterable[int], *, is_failed: bool, to_tail: bool, delay_ms: int | None
    ) -> None:
        """Let messages in flight be had again, or end them if their time or attempts are up.

        `offsets` rise.
        """
        expired, failed = [], []
        back: dict[int, list[int]] = {}
        for offset in offsets:
            if self.is_life_over(offset, is_failed=is_failed):
                expired.append(offset)
            elif is_failed and self._has_failed_too_often(offset):
                failed.append(offset)
            else:
                back.setdefault(self._due_ms(offset, is_failed, delay_ms), []).append(offset)
        for due_ms, some in sorted(back.items()):
            self.decide(Release(is_failed, to_tail and self._may_go_to_tail, due_ms, runs_of(some)))
        self.give_up(Reason.EXPIRED, expired)
        self.give_up(Reason.ATTEMPTS, failed)

    def is_life_over(self, offset: int, *, is_failed: bool) -> bool:
        """Whether a message in flight has outlived its own time or the queue's.

        `is_failed`: the attempt that ends now counts.
        """
        state, wall_ms = self.state, self.now.wall_ms
        if state.policy.keeps_begun and state.failures_of(offset) > (0 if is_failed else 1):
            return False
        ends_ms = state.expiry[offset]
        if ends_ms and ends_ms <= wall_ms:
            return True
        ttl_ms = state.policy.ttl_ms
        return bool(ttl_ms) and state.ages.arrived_ms(offset) + ttl_ms <= wall_ms

    def may_expire(self, offset: int) -> bool:
        """Whether a message waits whose life may end."""
        is_begun = self.state.policy.keeps_begun and self.state.failures_of(offset) > 0
        return self.waits(offset) and not is_begun

    def waits(self, offset: int) -> bool:
        """Whether a message is ready or delayed."""
        return self.state.place_of(offset) in (Place.READY, Place.DELAYED)

    @property
    def _may_go_to_tail(self) -> bool:
        """Within a group nothing overtakes."""
        return not self.state.group_order.groups and not self.state.fair_groups.groups

    def _has_failed_too_often(self, offset: int) -> bool:
        most = self.state.policy.attempts_max
        return most > 0 and self.state.failures_of(offset) >= most

    def _due_ms(self, offset: int, is_failed: bool, delay_ms: int | None) -> int:
        if delay_ms is None:
            failures = self.state.failures_of(offset) if is_failed else 0
            delay_ms = self.state.policy.retry_after_ms(failures) if failures else 0
        return self.now.wall_ms + delay_ms if delay_ms > 0 else 0


#: Where no place takes dead letters these are gone: they were to be.
_DROPPED = (Reason.EXPIRED, Reason.TOO_LONG)


def _makes_dead_letters(reason: Reason) -> bool:
    return reason in (Reason.EXPIRED, Reason.TOO_LONG, Reason.REJECTED, Reason.ATTEMPTS)
