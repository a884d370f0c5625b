"""One connection at the broker's side: bytes to events.

Theory of operation. `receive` takes bytes as they come and returns events; how they were cut does
not matter. A command is a line; behind that of PUB and HPUB stands a payload of the size that it
says. Both have a bound, which is checked before anything is kept.

The client's mistakes are events: after `CommandRefused` it stays, after `ConnectionFailed` nothing
more is read, and the caller sends what `fail` returns. Which is which, and where a broker says
nothing, is as in nats-server.

Where a log-in is wanted, nothing but CONNECT is taken. After any CONNECT reading pauses until the
caller has said `accept`, and then calls `receive(b"", now)` for what has come in the meantime.

There is no clock in here: the caller passes its own, and asks `deadline_ms` for the time at which
it has to call `tick`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

import msgspec

from kafkaesque.model.errors import InvariantBroken
from kafkaesque.protocols.nats.errors import ErrorText, NatsError, silent
from kafkaesque.protocols.nats.events import (
    CommandRefused,
    Connected,
    ConnectionFailed,
    ConnectOptions,
    Event,
    PingDue,
    PingReceived,
    PongReceived,
    Published,
    Subscribed,
    Unsubscribed,
)
from kafkaesque.protocols.nats.subjects import is_literal, is_subject
from kafkaesque.protocols.nats.writing import write_error

#: Digits of a size or number; nats-server reads no more.
_DIGITS_MAX: Final = 9
#: What a command begins with.
_BEGINNINGS: Final = frozenset(b"CPHSUI+-cphsui")
_EOL_BYTES: Final = 2

#: A PUB without a reply, in the place of which some clients write another blank.
_PUBLISH: Final = re.compile(rb"PUB (\S{1,1024}) {1,2}(\d{1,9})\r\n").match

_decoder = msgspec.json.Decoder(ConnectOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one connection may take up."""

    control_line_bytes_max: int = 4096
    #: Headers and payload together.
    payload_bytes_max: int = 1024 * 1024
    #: The same before a client has logged in.
    connect_ms_max: int = 2_000
    ping_interval_ms: int = 120_000
    #: So many pings without an answer end the connection.
    pings_out_max: int = 2


class ConnectionState(Enum):
    """How far a connection is."""

    #: A log-in is wanted.
    AWAITS_CONNECT = "awaits CONNECT"
    #: The caller is to accept or to refuse.
    CONNECTS = "is to be accepted"
    OPEN = "is open"
    CLOSED = "is closed"


# To look a member up in its class takes as long as three calls.
_OPEN: Final = ConnectionState.OPEN


class Connection:
    """The broker's side of one connection."""

    __slots__ = (
        "_buffer",
        "_heard_ms",
        "_limits",
        "_offered",
        "_payload",
        "_pinged_ms",
        "_pings_out",
        "_searched",
        "options",
        "state",
    )

    def __init__(self, now_ms: int, limits: Limits | None = None, *, needs_login: bool) -> None:
        self._limits: Final = limits or Limits()
        self.state = ConnectionState.AWAITS_CONNECT if needs_login else ConnectionState.OPEN
        #: As for a client that has not said anything.
        self.options = self._offered = ConnectOptions()
        #: What has come and is not consumed, and how much of it is known to hold no line's end.
        self._buffer = bytearray()
        self._searched = 0
        #: The command whose payload is awaited: subject, reply, size of the headers, size of all.
        self._payload: tuple[str, str, int, int] | None = None
        self._heard_ms = self._pinged_ms = now_ms
        self._pings_out = 0

    @property
    def is_paused(self) -> bool:
        """Whether nothing is read until the caller has accepted the client, or ever again."""
        return self.state in (ConnectionState.CONNECTS, ConnectionState.CLOSED)

    @property
    def kept_bytes(self) -> int:
        """How much has come and is not consumed."""
        return len(self._buffer)

    @property
    def is_verbose(self) -> bool:
        """Whether each command that was done is answered by `OK`."""
        return bool(self.options.verbose)

    # -- receiving

    def receive(self, data: bytes | bytearray | memoryview, now_ms: int) -> list[Event]:
        """Return what has come with these bytes and those before, in its order."""
        events: list[Event] = []
        if self.state is ConnectionState.CLOSED:
            return events
        if data:
            self._heard_ms = now_ms
            self._buffer += data
        at = 0
        try:
            if self._payload is None and self.state is _OPEN and not self.options.pedantic:
                at = self._take_publishes(events)
            while not self.is_paused:
                found = self._take_one(at, events)
                if found is None:
                    break
                at = found
        except NatsError as error:
            self.state = ConnectionState.CLOSED
            self._buffer.clear()
            events.append(ConnectionFailed(error=error))
            return events
        if at:
            del self._buffer[:at]
            self._searched = max(self._searched - at, 0)
        return events

    def _take_publishes(self, events: list[Event]) -> int:
        """Take the whole PUBs without a reply that come first; return where they end.

        Nearly all that comes is of these. Whatever else it may be is for `_take_one` to tell.
        """
        at = 0
        if not self._buffer.startswith(b"PUB "):
            return at
        buffer = bytes(self._buffer)
        size_max = self._limits.payload_bytes_max
        line_max = self._limits.control_line_bytes_max + _EOL_BYTES
        while (found := _PUBLISH(buffer, at)) is not None:
            begin = found.end()
            end = begin + int(found[2])
            if begin - at > line_max or end - begin > size_max:
                break
            if buffer[end : end + _EOL_BYTES] != b"\r\n":
                break
            subject, payload = _text(found[1]), buffer[begin:end]
            events.append(Published(subject=subject, reply="", headers=b"", payload=payload))
            at = end + _EOL_BYTES
        return at

    def _take_one(self, at: int, events: list[Event]) -> int | None:
        """Take a line or a payload; return where it ends, or None if it is not whole."""
        if self._payload is not None:
            return self._take_payload(at, events)
        buffer = self._buffer
        if at == len(buffer):
            return None
        self._check_first(buffer[at])
        end = buffer.find(b"\n", max(at, self._searched))
        line_bytes_max = self._limits.control_line_bytes_max
        if end < 0:
            self._searched = len(buffer)
            if len(buffer) - at > line_bytes_max + 1:
                # One more, because the last may be the ending's CR.
                raise _line_too_long(line_bytes_max)
            return None
        line = bytes(buffer[at:end]).removesuffix(b"\r")
        if len(line) > line_bytes_max:
            raise _line_too_long(line_bytes_max)
        self._take_line(line, events)
        return end + 1

    def _check_first(self, first: int) -> None:
        """Refuse at its first byte what can be no command: its sender may not speak NATS."""
        if self.state is ConnectionState.AWAITS_CONNECT and first not in b"Cc":
            raise NatsError(ErrorText.AUTHORIZATION_VIOLATION, "a command before CONNECT")
        if first not in _BEGINNINGS:
            raise _unknown(bytes((first,)))

    def _take_line(self, line: bytes, events: list[Event]) -> None:
        words = line.split(None, 1)
        verb = words[0].upper() if words else b""
        take = _COMMANDS.get(verb)
        if take is None:
            self._take_unparted(line, events)
            return
        if len(words) == 2:
            take(self, words[1], events)
            return
        if len(line) == len(verb) and verb in _NEEDS_BLANK:
            raise _unknown(line)
        take(self, b"", events)

    def _take_unparted(self, line: bytes, events: list[Event]) -> None:
        """Take a command whose verb needs no blank behind it."""
        if line[:7].upper() == b"CONNECT":
            self._take_connect(line[7:], events)
            return
        take = _ALONE.get(line[:4].upper())
        if take is None:
            raise _unknown(line)
        take(self, b"", events)

    def _take_payload(self, at: int, events: list[Event]) -> int | None:
        if self._payload is None:
            raise InvariantBroken("no payload is awaited")
        subject, reply, header_bytes, size = self._payload
        buffer, end = self._buffer, at + size
        ending = buffer[end : end + _EOL_BYTES]
        if not b"\r\n".startswith(ending):
            raise NatsError(ErrorText.UNKNOWN_OPERATION, "a payload is longer than its size")
        if len(ending) < _EOL_BYTES:
            return None
        self._payload = None
        if self.options.pedantic and not is_literal(subject):
            events.append(CommandRefused(text=ErrorText.INVALID_PUBLISH_SUBJECT))
        events.append(
            Published(
                subject=subject,
                reply=reply,
                headers=bytes(buffer[at : at + header_bytes]),
                payload=bytes(buffer[at + header_bytes : end]),
            )
        )
        return end + _EOL_BYTES

    # -- commands

    def _take_pub(self, rest: bytes, events: list[Event]) -> None:
        words = rest.split()
        if len(words) == 2:
            subject, reply, size = words[0], b"", words[1]
        elif len(words) == 3:
            subject, reply, size = words
        else:
            raise silent(f"PUB takes a subject, maybe a reply, a size, not {len(words)} words")
        self._await_payload(subject, reply, 0, _read_number(size))

    def _take_hpub(self, rest: bytes, events: list[Event]) -> None:
        if not self.options.headers:
            raise silent("HPUB without headers in CONNECT")
        words = rest.split()
        if len(words) == 3:
            (subject, header_size, size), reply = words, b""
        elif len(words) == 4:
            subject, reply, header_size, size = words
        else:
            raise silent(f"HPUB takes a subject, maybe a reply, two sizes, not {len(words)} words")
        header_bytes, total = _read_number(header_size), _read_number(size)
        if header_bytes > total:
            raise silent(f"headers of {header_bytes} bytes in a message of {total}")
        self._await_payload(subject, reply, header_bytes, total)

    def _await_payload(self, subject: bytes, reply: bytes, header_bytes: int, size: int) -> None:
        if size > self._limits.payload_bytes_max:
            what = f"a message of {size} bytes is above {self._limits.payload_bytes_max}"
            raise NatsError(ErrorText.PAYLOAD_TOO_LARGE, what)
        self._payload = (_text(subject), _text(reply), header_bytes, size)

    def _take_sub(self, rest: bytes, events: list[Event]) -> None:
        words = [_text(word) for word in rest.split()]
        if len(words) == 2:
            (subject, sid), queue = words, ""
        elif len(words) == 3:
            subject, queue, sid = words
        else:
            raise silent(f"SUB takes a subject, maybe a queue, and an id, not {len(words)} words")
        if not is_subject(subject):
            events.append(CommandRefused(text=ErrorText.INVALID_SUBJECT))
            return
        events.append(Subscribed(subject=subject, queue=queue, sid=sid))

    def _take_unsub(self, rest: bytes, events: list[Event]) -> None:
        words = rest.split()
        if len(words) not in (1, 2):
            raise silent(f"UNSUB takes an id and maybe a number, not {len(words)} words")
        # What is no number counts as none.
        is_bounded = len(words) == 2 and words[1].isdigit() and len(words[1]) <= _DIGITS_MAX
        messages_max = int(words[1]) if is_bounded else 0
        events.append(Unsubscribed(sid=_text(words[0]), messages_max=messages_max))

    def _take_connect(self, rest: bytes, events: list[Event]) -> None:
        try:
            options = _decoder.decode(rest)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise silent(f"CONNECT holds no options: {error}") from None
        if options.no_responders and not options.headers:
            what = "CONNECT asks for no_responders without headers"
            raise NatsError(ErrorText.NO_RESPONDERS_NEED_HEADERS, what)
        self._offered = options
        self.state = ConnectionState.CONNECTS
        events.append(Connected(options=options))

    def _take_ping(self, rest: bytes, events: list[Event]) -> None:
        events.append(PingReceived())

    def _take_pong(self, rest: bytes, events: list[Event]) -> None:
        self._pings_out = 0
        events.append(PongReceived())

    def _take_error(self, rest: bytes, events: list[Event]) -> None:
        raise silent(f"the client has said {rest[:100]!r}")

    def _take_nothing(self, rest: bytes, events: list[Event]) -> None:
        """What brokers say; from a client it means nothing."""

    # -- time

    @property
    def deadline_ms(self) -> int | None:
        """When `tick` has to be called; None: never."""
        match self.state:
            case ConnectionState.AWAITS_CONNECT:
                return self._pinged_ms + self._limits.connect_ms_max
            case ConnectionState.OPEN:
                return max(self._pinged_ms, self._heard_ms) + self._limits.ping_interval_ms
        return None

    def tick(self, now_ms: int) -> list[Event]:
        """Return what follows from the client's silence."""
        deadline_ms = self.deadline_ms
        if deadline_ms is None or now_ms < deadline_ms:
            return []
        if self.state is ConnectionState.AWAITS_CONNECT:
            error = NatsError(ErrorText.AUTHENTICATION_TIMEOUT, "no CONNECT has come")
        elif self._pings_out >= self._limits.pings_out_max:
            error = NatsError(ErrorText.STALE_CONNECTION, "pings are not answered")
        else:
            self._pings_out += 1
            self._pinged_ms = now_ms
            return [PingDue()]
        self.state = ConnectionState.CLOSED
        return [ConnectionFailed(error=error)]

    def excuse(self, now_ms: int) -> None:
        """The client could not be heard until now: nothing was read from it."""
        self._heard_ms = now_ms
        self._pings_out = 0

    # -- the caller's turn

    def accept(self) -> None:
        """Let the client in that has sent CONNECT; then call `receive`.

        From now on its options hold: what came before is answered by those before.

        Raises:
            InvariantBroken: none has.
        """
        if self.state is not ConnectionState.CONNECTS:
            raise InvariantBroken(f"nobody is to be accepted: the connection {self.state.value}")
        self.options = self._offered
        self.state = ConnectionState.OPEN

    def fail(self, error: NatsError) -> bytes:
        """Return what the client is to be told before the connection is closed; maybe nothing."""
        self.state = ConnectionState.CLOSED
        return b"" if error.text is None else write_error(error.text.value)


_COMMANDS: Final[dict[bytes, Callable[[Connection, bytes, list[Event]], None]]] = {
    b"PUB": Connection._take_pub,
    b"HPUB": Connection._take_hpub,
    b"SUB": Connection._take_sub,
    b"UNSUB": Connection._take_unsub,
    b"CONNECT": Connection._take_connect,
    b"INFO": Connection._take_nothing,
    b"+OK": Connection._take_nothing,
    b"-ERR": Connection._take_error,
}
#: What follows them in the line means nothing.
_ALONE: Final = {b"PING": Connection._take_ping, b"PONG": Connection._take_pong}
_NEEDS_BLANK: Final = frozenset((b"PUB", b"HPUB", b"SUB", b"UNSUB", b"-ERR"))


def _read_number(raw: bytes) -> int:
    if not raw.isdigit() or len(raw) > _DIGITS_MAX:
        raise silent(f"{raw[:20]!r} is no number of up to {_DIGITS_MAX} digits")
    return int(raw)


def _text(raw: bytes) -> str:
    return str(raw, "utf-8", "surrogateescape")


def _unknown(line: bytes) -> NatsError:
    return NatsError(ErrorText.UNKNOWN_OPERATION, f"{line[:20]!r} is no command")


def _line_too_long(line_bytes_max: int) -> NatsError:
    return NatsError(ErrorText.LINE_TOO_LONG, f"a line has more than {line_bytes_max} bytes")
