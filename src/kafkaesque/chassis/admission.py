"""Who may connect: limits over all ports of a broker together, and late refusals."""

from collections.abc import Callable
from typing import Final, Protocol

from kafkaesque.chassis.identity import Identity
from kafkaesque.chassis.quotas import Quotas
from kafkaesque.env.clock import Clock
from kafkaesque.env.network import Connection
from kafkaesque.env.report_limit import ReportLimit
from kafkaesque.model.options import OptionValue

#: Refused connections that are kept for a while; what comes beyond is closed at once.
LATE_REFUSALS_MAX = 1_000

TOTAL: Final = "max.connections"
PER_HOST: Final = "max.connections.per.ip"
PER_USER: Final = "max.connections.per.user"


class Options(Protocol):
    """The options in force."""

    def get(self, name: str) -> OptionValue:
        """Return an option's value."""


class Admission:
    """Keeps `max.connections`, `max.connections.per.ip` and `max.connections.per.user`.

    And the quota of addresses on new connections, whose refusal comes late: who is told at once
    comes again at once (KIP-612).
    """

    def __init__(
        self, *, clock: Clock, options: Options, quotas: Quotas, report: Callable[[str], None]
    ) -> None:
        self._clock: Final = clock
        self._options: Final = options
        self._quotas: Final = quotas
        self._reports: Final = ReportLimit(report, clock.call_later)
        #: Connections that were admitted, by the host at their other end, and by user.
        self._by_host: Final[dict[str, int]] = {}
        self._by_user: Final[dict[str, int]] = {}
        self._count = 0
        #: Connections that are refused late, and have not been yet.
        self._late_count = 0

    def admit(self, identity: Identity, *, is_protected: bool = False) -> bool:
        """Count a new connection if there may be one more; the limits are looked at only now.

        One that is protected counts, and there is always room for it.
        """
        of_host = self._by_host.get(identity.host, 0)
        of_user = self._by_user.get(identity.user, 0)
        counts = ((TOTAL, self._count), (PER_HOST, of_host), (PER_USER, of_user))
        if not is_protected and any(self._is_full(*each, identity) for each in counts):
            return False
        self._by_host[identity.host] = of_host + 1
        self._by_user[identity.user] = of_user + 1
        self._count += 1
        return True

    def rename(self, before: Identity, after: Identity) -> bool:
        """Count an admitted connection for another user, if that may have one more."""
        of_user = self._by_user.get(after.user, 0)
        if before.user == after.user:
            return True
        if self._is_full(PER_USER, of_user, after):
            return False
        self._by_user[after.user] = of_user + 1
        _count_down(self._by_user, before.user)
        return True

    def release(self, identity: Identity) -> None:
        """A connection that was admitted is gone."""
        self._count -= 1
        _count_down(self._by_host, identity.host)
        _count_down(self._by_user, identity.user)

    def refuses_late(self, link: Connection, host: str) -> bool:
        """Count a new connection for its address's quota; if that is used up, close it later."""
        if not self._quotas.is_active_for_hosts:
            return False
        delay_ms = self._quotas.admit(host)
        if not delay_ms:
            return False
        self._reports.say(
            f"refused a connection from {host}: its quota of connection_creation_rate is used up"
        )
        link.pause_reading()
        if self._late_count >= LATE_REFUSALS_MAX:
            link.abort()
            return True
        self._late_count += 1
        self._clock.call_later(delay_ms, lambda: self._refuse(link))
        return True

    def _refuse(self, link: Connection) -> None:
        self._late_count -= 1
        link.abort()

    def _is_full(self, name: str, count: int, identity: Identity) -> bool:
        limit = int(self._options.get(name))
        if count < limit:
            return False
        self._reports.say(f"refused a connection from {identity.host}: {name} is {limit}")
        return True


def _count_down(counts: dict[str, int], key: str) -> None:
    left = counts[key] - 1
    if left:
        counts[key] = left
    else:
        del counts[key]
