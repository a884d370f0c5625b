"""One listener: accepts clients, looks for silent ones, and lets them go in good order.

A new gateway makes a `Port` of its `PortOptions` and a class of connections that inherits from
`ClientConnection`; limits, pausing, drain, idle sweep and metrics come with these.
"""

from collections.abc import Callable, Sequence
from typing import Final

from kafkaesque.chassis.chassis import Chassis
from kafkaesque.chassis.link import ClientConnection, PortOptions, Shared
from kafkaesque.env.clock import Timer
from kafkaesque.env.network import Address, ConnectionHandler, Listener, ListenOptions
from kafkaesque.model.errors import InvariantBroken

#: How often silent clients are looked for, at least, and at most where little silence is allowed.
SWEEP_MS_MAX: Final = 30_000
SWEEP_MS_MIN: Final = 50
#: The limit on silence is kept to within this part of it.
SWEEPS_PER_LIMIT: Final = 4
#: How often it is looked whether those that are being answered have been.
DRAIN_STEP_MS: Final = 10


class Port:
    """One listener of a broker, with its connections."""

    def __init__(
        self,
        chassis: Chassis,
        options: PortOptions,
        make_connection: Callable[[Shared], ConnectionHandler],
    ) -> None:
        name = (options.protocol, options.listener)
        if name in chassis.meters:
            raise InvariantBroken(f"there are two listeners {options.listener}")
        self._chassis: Final = chassis
        self._options: Final = options
        self._make_connection: Final = make_connection
        self._shared: Final = Shared(chassis, options)
        self._listener: Listener | None = None
        self._sweep: Timer | None = None
        chassis.meters[name] = self._shared.meter

    @property
    def connections(self) -> dict[int, ClientConnection]:
        """Those that were admitted and are not gone, by `id`."""
        return self._shared.connections

    def open(self, address: Address) -> Address:
        """Listen; return the bound address.

        Raises:
            OSError: the address cannot be bound.
        """
        options = self._options
        self._listener = self._chassis.network.listen(
            address,
            ListenOptions(
                framing=options.framing,
                tls=options.tls,
                frame_bytes_max=options.frame_bytes_max,
                connections_max=options.connections_max,
                on_refused=self._on_refused,
            ),
            self.serve(),
        )
        return self._listener.address

    def serve(self) -> Callable[[], ConnectionHandler]:
        """Look after connections from now on; return what makes the handler of each.

        `open` has them come from a listener of its own. Without it they come from elsewhere, such
        as a listener of WebSockets, which refuses those above `connections_max`.
        """
        self._chassis.quotas.reload()
        self._on_sweep()
        return lambda: self._make_connection(self._shared)

    def stop_accepting(self) -> None:
        """Accept no more; harmless if that was done."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def close(self) -> None:
        """Accept no more and close what is open; what was written is sent."""
        self.stop_accepting()
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self.connections.values()):
            connection.close()

    def drain(self, on_drained: Callable[[], None]) -> None:
        """Begin nothing more, finish what is being answered, within a bound, and close.

        `on_drained` is called when everything is closed, at once if nothing is being answered.
        """
        self.stop_accepting()
        connections = list(self.connections.values())
        for connection in connections:
            connection.leave()
        until_ms = self._chassis.clock.now_ms() + self._options.drain_ms_max
        self._drain(connections, until_ms, on_drained)

    def _drain(
        self,
        connections: Sequence[ClientConnection],
        until_ms: int,
        on_drained: Callable[[], None],
    ) -> None:
        busy = []
        for connection in connections:
            if connection.is_open and connection.is_busy():
                busy.append(connection)
            else:
                connection.close()
        clock = self._chassis.clock
        if busy and clock.now_ms() < until_ms:
            clock.call_later(DRAIN_STEP_MS, lambda: self._drain(busy, until_ms, on_drained))
        else:
            self.close()
            on_drained()

    def sweep(self) -> int:
        """Have those go that were silent for too long; return after how many ms to look again."""
        limit_ms = self._options.idle_ms_max()
        if limit_ms < 0:
            return SWEEP_MS_MAX
        now_ms = self._chassis.clock.now_ms()
        for connection in list(self.connections.values()):
            if not connection.is_muted and _has_been_idle(connection, now_ms, limit_ms):
                connection.on_idle()
        return max(SWEEP_MS_MIN, min(SWEEP_MS_MAX, limit_ms // SWEEPS_PER_LIMIT))

    def _on_sweep(self) -> None:
        self._sweep = self._chassis.clock.call_later(self.sweep(), self._on_sweep)

    def _on_refused(self) -> None:
        self._shared.meter.refused += 1


def _has_been_idle(connection: ClientConnection, now_ms: int, limit_ms: int) -> bool:
    link = connection.connection
    if link is None:
        return False
    unsent_bytes = link.unsent_bytes()
    if unsent_bytes < connection.unsent_bytes_seen or (
        connection.is_listener_only and not unsent_bytes
    ):
        # It reads a long answer, or waits for what comes, and says nothing meanwhile.
        connection.active_ms = now_ms
    connection.unsent_bytes_seen = unsent_bytes
    return now_ms - connection.active_ms > limit_ms
