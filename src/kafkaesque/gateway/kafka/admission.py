"""Who may connect to the Kafka port, and who has been silent for so long that it has to go."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkaesque.broker.doors import Doors
from kafkaesque.env.network import Connection
from kafkaesque.env.report_limit import ReportLimit

if TYPE_CHECKING:
    from kafkaesque.gateway.kafka.connection import KafkaConnection
    from kafkaesque.gateway.kafka.throttling import Throttling

#: How often silent clients are looked for, at least, and at most where little silence is allowed.
SWEEP_MS_MAX = 30_000
SWEEP_MS_MIN = 50
#: Refused connections that are kept for a while; what comes beyond is closed at once.
LATE_REFUSALS_MAX = 1_000
#: The limit on silence is kept to within this part of it.
SWEEPS_PER_LIMIT = 4


class Admission:
    """Keeps `max.connections`, `max.connections.per.ip` and `connections.max.idle.ms`.

    And the quota of addresses on new connections, whose refusal comes late: who is told at once
    comes again at once (KIP-612).
    """

    def __init__(
        self, doors: Doors, throttling: "Throttling", report: Callable[[str], None]
    ) -> None:
        self._doors = doors
        self._throttling = throttling
        self._reports = ReportLimit(report, doors.clock.call_later)
        #: Connections that were admitted, by the host at their other end.
        self._by_host: dict[str, int] = {}
        self._count = 0
        #: Connections that are refused late, and have not been yet.
        self._late_count = 0

    def admit(self, host: str) -> bool:
        """Count a new connection if there may be one more; the limits are looked at only now."""
        of_host = self._by_host.get(host, 0)
        for name, count in (("max.connections", self._count), ("max.connections.per.ip", of_host)):
            limit = int(self._doors.configuration.get(name))
            if count >= limit:
                self._doors.activity.connections_refused += 1
                self._reports.say(
                    f"refused a connection from {host.lstrip('/')}: {name} is {limit}"
                )
                return False
        self._by_host[host] = of_host + 1
        self._count += 1
        self._doors.activity.connections_accepted += 1
        self._doors.activity.connections_open += 1
        return True

    def refuses_late(self, link: Connection, host: str) -> bool:
        """Count a new connection for its address's quota; if that is used up, close it later."""
        if not self._throttling.is_active_for_hosts:
            return False
        delay_ms = self._throttling.admit(host.lstrip("/"))
        if not delay_ms:
            return False
        self._doors.activity.connections_refused += 1
        self._reports.say(
            f"refused a connection from {host.lstrip('/')}: its quota of connection_creation_rate "
            "is used up"
        )
        link.pause_reading()
        if self._late_count >= LATE_REFUSALS_MAX:
            link.abort()
            return True
        self._late_count += 1
        self._doors.clock.call_later(delay_ms, lambda: self._refuse(link))
        return True

    def _refuse(self, link: Connection) -> None:
        self._late_count -= 1
        link.abort()

    def release(self, host: str) -> None:
        """A connection that was admitted is gone."""
        self._count -= 1
        self._doors.activity.connections_open -= 1
        of_host = self._by_host[host] - 1
        if of_host:
            self._by_host[host] = of_host
        else:
            del self._by_host[host]

    def sweep(self, connections: "list[KafkaConnection]") -> int:
        """Close those that were silent for too long; return after how many ms to look again."""
        limit_ms = int(self._doors.configuration.get("connections.max.idle.ms"))
        if limit_ms < 0:
            return SWEEP_MS_MAX
        now_ms = self._doors.clock.now_ms()
        for connection in connections:
            link = connection.connection
            if link is None or connection.is_muted:
                continue
            unsent_bytes = link.unsent_bytes()
            if unsent_bytes < connection.unsent_bytes_seen:
                # It reads a long answer, and says nothing meanwhile.
                connection.active_ms = now_ms
            connection.unsent_bytes_seen = unsent_bytes
            if now_ms - connection.active_ms > limit_ms:
                link.abort()
        return max(SWEEP_MS_MIN, min(SWEEP_MS_MAX, limit_ms // SWEEPS_PER_LIMIT))
