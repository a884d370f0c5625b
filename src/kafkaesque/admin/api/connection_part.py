"""Connections of this broker's clients, and how one is ended: `connections`, `close-connection`."""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.fan_out import OnAnswer, PartServer
from kafkaesque.admin.api.part_pages import (
    CHANNELS,
    CLOSE_CONNECTION,
    CONNECTIONS,
    ChannelsAnswer,
    CloseConnection,
    ConnectionClosed,
    ConnectionsAnswer,
)
from kafkaesque.admin.api.values import Connected
from kafkaesque.chassis.channel_facts import ConnectionFacts
from kafkaesque.chassis.meter import Counted

#: Connections that a broker describes; the others are counted.
CONNECTIONS_MAX: Final = 5_000
#: Channels and consumers that it describes; the others are counted.
CHANNELS_MAX: Final = 10_000
CONSUMERS_MAX: Final = 20_000
#: Of what clients call themselves as much is shown.
CLIENT_ID_LENGTH_MAX: Final = 256
#: Rates are those of the time since the connections were last looked at: at least so many ms, and
#: at most so many, or there are none.
RATE_MS_MIN: Final = 2_000
RATE_MS_MAX: Final = 60_000


def register(context: Context, server: PartServer) -> None:
    """Have these parts served."""
    glances = Glances()
    server.register(CONNECTIONS, lambda _, done: done(_connections(context, glances)))
    server.register(CHANNELS, lambda _, done: done(_channels(context)))
    server.register(CLOSE_CONNECTION, lambda question, done: _close(context, question, done))


class _Glance(NamedTuple):
    """How much connections had received and sent at a time, by number."""

    at_ms: int
    bytes_of: dict[int, tuple[int, int]]


class Glances:
    """What connections had done when somebody last looked: nothing is counted for nobody."""

    def __init__(self) -> None:
        self._before: _Glance | None = None
        self._last: _Glance | None = None

    def rates(self, number: int, now_ms: int, sizes: tuple[int, int]) -> tuple[float, float] | None:
        """Return bytes a second, in and out; None while that is not known."""
        before = self._before
        seen = None if before is None else before.bytes_of.get(number)
        if before is None or seen is None or not 0 < now_ms - before.at_ms <= RATE_MS_MAX:
            return None
        seconds = (now_ms - before.at_ms) / 1000
        return (sizes[0] - seen[0]) / seconds, (sizes[1] - seen[1]) / seconds

    def begin(self, now_ms: int) -> None:
        """Compare with the newest glance that is old enough."""
        if self._last is not None and now_ms - self._last.at_ms >= RATE_MS_MIN:
            self._before, self._last = self._last, None

    def end(self, now_ms: int, bytes_of: dict[int, tuple[int, int]]) -> None:
        """Keep what was seen for those who ask next."""
        if self._last is None:
            self._last = _Glance(now_ms, bytes_of)


def _every(context: Context) -> Iterator[tuple[str, Counted]]:
    for (protocol, _), meter in context.chassis.meters.items():
        for each in meter.connections:
            yield protocol, each


def _connections(context: Context, glances: Glances) -> ConnectionsAnswer:
    now_ms, wall_ms = context.doors.clock.now_ms(), context.now()
    glances.begin(now_ms)
    found = []
    for protocol, each in islice(_every(context), CONNECTIONS_MAX):
        link, identity = each.connection, each.identity
        if link is None or identity is None:
            continue
        bytes_in, bytes_out = link.received_bytes(), link.sent_bytes()
        rates = glances.rates(each.number, now_ms, (bytes_in, bytes_out))
        found.append(
            Connected(
                broker=context.node,
                number=each.number,
                protocol=protocol,
                listener=identity.listener,
                peer=link.peer,
                host=identity.host,
                user=identity.user,
                client_id=each.client_id[:CLIENT_ID_LENGTH_MAX],
                opened_at=wall_ms - max(0, now_ms - each.opened_ms),
                bytes_in=bytes_in,
                bytes_out=bytes_out,
                rate_in=None if rates is None else rates[0],
                rate_out=None if rates is None else rates[1],
                unsent_bytes=link.unsent_bytes(),
                idle_ms=max(0, now_ms - each.active_ms),
                is_throttled=each.is_muted,
            )
        )
    glances.end(now_ms, {each.number: (each.bytes_in, each.bytes_out) for each in found})
    total = sum(meter.open for meter in context.chassis.meters.values())
    return ConnectionsAnswer(connections=found, total=total)


def _channels(context: Context) -> ChannelsAnswer:
    found: dict[int, ConnectionFacts] = {}
    channels_left, consumers_left = CHANNELS_MAX, CONSUMERS_MAX
    for _, each in islice(_every(context), CONNECTIONS_MAX):
        facts = each.describe_channels(channels_left, consumers_left)
        if facts is not None:
            found[each.number] = facts
            channels_left -= len(facts.channels)
            consumers_left -= sum(len(channel.consumers) for channel in facts.channels)
    return ChannelsAnswer(connections=found)


def _close(context: Context, question: CloseConnection, on_done: OnAnswer) -> None:
    """Hang up on a client; what was written is sent first."""
    wanted = (each for _, each in _every(context) if each.number == question.number)
    found = next(wanted, None)
    link = None if found is None else found.connection
    if found is None or link is None:
        on_done(ConnectionClosed(peer=None))
        return
    on_done(ConnectionClosed(peer=link.peer))
    if not question.is_dry_run:
        # It may be the one by which the answer goes out.
        context.doors.clock.call_soon(partial(found.dismiss, "an administrator has closed it"))
