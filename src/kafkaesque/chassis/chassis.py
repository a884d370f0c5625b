"""What all ports of one broker share."""

from collections.abc import Callable, Mapping
from typing import Final

from kafkaesque.broker.doors.access import Access
from kafkaesque.broker.metadata.client_quotas import QuotaEntity
from kafkaesque.broker.metadata.client_quotas import Quotas as QuotasOfEntity
from kafkaesque.chassis.admission import Admission, Options
from kafkaesque.chassis.body_room import BodyRooms
from kafkaesque.chassis.logins import Logins
from kafkaesque.chassis.meter import Meter
from kafkaesque.chassis.quotas import Quotas
from kafkaesque.chassis.relief import Load, Relief, Turns
from kafkaesque.env.clock import Clock
from kafkaesque.env.network import Network


class Chassis:
    """One for each broker; each port of it stands on this."""

    def __init__(
        self,
        *,
        clock: Clock,
        network: Network,
        options: Options,
        load: Load,
        client_quotas: Callable[[], Mapping[QuotaEntity, QuotasOfEntity]],
        report: Callable[[str], None],
        access: Access | None = None,
    ) -> None:
        """`access` says who is who; without it all listeners have to be open."""
        self.clock: Final = clock
        self.network: Final = network
        self.load: Final = load
        self.report: Final = report
        self.quotas: Final = Quotas(clock, client_quotas)
        self.admission: Final = Admission(
            clock=clock, options=options, quotas=self.quotas, report=report
        )
        self.relief: Final = Relief(clock, load)
        self.turns: Final = Turns(clock)
        self.body_rooms: Final = BodyRooms()
        #: By protocol and name of each listener, since it was first opened.
        self.meters: Final[dict[tuple[str, str], Meter]] = {}
        #: What several gateways share, by its class; whoever needs it first makes it.
        self.common: Final[dict[type, object]] = {}
        self.logins: Final = None if access is None else Logins(access, clock)
        self._options: Final = options
        self._connection_count = 0

    def max_reauth_ms(self) -> int:
        """Return how long a log-in counts at most; 0: there is no such limit."""
        return int(self._options.get("connections.max.reauth.ms"))

    def next_connection_number(self) -> int:
        """Return a number above those of all connections so far."""
        self._connection_count += 1
        return self._connection_count
