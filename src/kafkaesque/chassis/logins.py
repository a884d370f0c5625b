"""What all listeners of a broker share of letting clients in.

Clients that have to log in and have not are strangers. They have little time, send little, and
there are few of them: one more costs the one that came first. Password checks take milliseconds and
are done off the loop, a few at a time. Failures make further refusals come later.
"""

from collections import Counter, deque
from collections.abc import Callable
from typing import Final, Protocol

from kafkaesque.access.attempts import AttemptConfig, Attempts
from kafkaesque.access.authentication import PasswordWork
from kafkaesque.broker.doors.access import Access
from kafkaesque.env.clock import Clock

#: A client that has not logged in after so long is closed, whatever trickles in.
LOGIN_MS_MAX: Final = 10_000
#: The longest frame before the log-in.
LOGIN_BYTES_MAX: Final = 16 * 1024
#: Clients that have to log in and have not, at all ports together.
STRANGERS_MAX: Final = 1_000
#: Passwords that are checked at the same time, and that wait for it.
CHECKS_MAX: Final = 2
CHECKS_WAITING_MAX: Final = 500
#: After a change of users and rules, connections are looked at so soon: many changes come at once.
LOOK_MS: Final = 100
#: So many in one turn of the loop.
LOOKED_AT_ONCE: Final = 1_000
#: Why a client is closed without being looked at.
TOO_MANY: Final = "too many log-ins have failed"
#: Why a client is closed that has proved who it is: another broker may know more.
TOO_OLD: Final = "users and rules are too old here to let anybody in"


class Stranger(Protocol):
    """A client that has not logged in."""

    def refuse(self, reason: str) -> None:
        """Close it at once."""


class LetIn(Protocol):
    """A client that has logged in."""

    @property
    def login_by(self) -> str:
        """By which mechanism."""

    def leave_unless_valid(self) -> None:
        """Close it at once if what it was let in by does not hold any more."""


class Logins:
    """One for each broker."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self.access: Final = access
        self.attempts: Final = Attempts(AttemptConfig())
        self._clock: Final = clock
        #: The one that came first at the front.
        self._strangers: Final[dict[int, Stranger]] = {}
        #: Those that have logged in, by `id`.
        self._let_in: Final[dict[int, LetIn]] = {}
        self._is_look_due = False
        self._checking = 0
        self._waiting: Final[deque[tuple[PasswordWork, Callable[[bool], None]]]] = deque()
        access.on_changed(self._on_changed)

    @property
    def strangers(self) -> int:
        """How many there are."""
        return len(self._strangers)

    def open_by_mechanism(self) -> Counter[str]:
        """Return how many clients that are connected have logged in by which mechanism."""
        return Counter(each.login_by for each in self._let_in.values())

    # -- who is there

    def add_stranger(self, stranger: Stranger) -> None:
        """Somebody has come who has to log in."""
        if len(self._strangers) >= STRANGERS_MAX:
            oldest = self._strangers.pop(next(iter(self._strangers)))
            oldest.refuse(f"{STRANGERS_MAX} clients have not logged in, this one for longest")
        self._strangers[id(stranger)] = stranger

    def add(self, client: LetIn) -> None:
        """It has logged in."""
        self._strangers.pop(id(client), None)
        self._let_in[id(client)] = client

    def remove(self, client: object) -> None:
        """It is gone; harmless if it was never there."""
        self._strangers.pop(id(client), None)
        self._let_in.pop(id(client), None)

    def _on_changed(self) -> None:
        if self._let_in and not self._is_look_due:
            self._is_look_due = True
            self._clock.call_later(LOOK_MS, self._look)

    def _look(self) -> None:
        self._is_look_due = False
        self._look_at(deque(self._let_in.values()))

    def _look_at(self, clients: deque[LetIn]) -> None:
        for _ in range(min(LOOKED_AT_ONCE, len(clients))):
            clients.popleft().leave_unless_valid()
        if clients:
            self._clock.call_soon(lambda: self._look_at(clients))

    # -- passwords

    def check(self, work: PasswordWork, on_checked: Callable[[bool], None]) -> bool:
        """Have a password checked off the loop, and call back; False if too many wait for that."""
        if len(self._waiting) >= CHECKS_WAITING_MAX:
            return False
        self._waiting.append((work, on_checked))
        self._maybe_check()
        return True

    def _maybe_check(self) -> None:
        while self._waiting and self._checking < CHECKS_MAX:
            self._checking += 1
            self._check(*self._waiting.popleft())

    def _check(self, work: PasswordWork, on_checked: Callable[[bool], None]) -> None:
        def on_done(outcome: object, _: Exception | None) -> None:
            self._checking -= 1
            self._maybe_check()
            on_checked(outcome is True)

        self.access.run(work.run, on_done)
