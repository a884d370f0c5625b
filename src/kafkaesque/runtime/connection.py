"""One TCP connection.

Theory of operation. A connection is in one of four states:

    OPEN -> FLUSHING    `close`, or the peer has ended its side: nothing is delivered any more
    FLUSHING -> LINGERING   all is sent: our side is ended, what still comes is thrown away, so
                            that the kernel does not reset the connection while the peer still reads
    any -> CLOSED       end of the peer's stream (while lingering), an error, `abort`, or time is up

Sending is a second, independent machine, `_Sending`: written parts wait in `Outbound` and are
flushed once per turn of the loop, so that many answers of a turn leave in one system call. It
waits for nothing (IDLE), for the flush at the end of this turn (TURN), for the socket (SOCKET) or
for a worker that reads cold pages (WORKER).

`TlsConnection` (`tls_connection.py`) is this one over TLS.

The handler is called from the loop only, never inside a call that it made. An exception that it
lets out costs this connection, `InvariantBroken` costs the broker.
"""

import logging
import os
import socket
import struct
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

from kafkaesque.env.certificate import PeerCertificate
from kafkaesque.env.clock import Timer
from kafkaesque.env.disk import Buffer, FileRange
from kafkaesque.env.network import LOW_WATER_BYTES, ConnectionHandler
from kafkaesque.env.report_limit import ReportLimit
from kafkaesque.model.errors import DiskFailed, InvariantBroken, OverBound
from kafkaesque.runtime.framing import Cutter, FrameRefused, Scratch
from kafkaesque.runtime.loop import OnFatal
from kafkaesque.runtime.outbound import Flushed, Outbound
from kafkaesque.runtime.poller import BROKEN, READABLE, WRITABLE
from kafkaesque.runtime.ports import Loop, Poll, Socket, Workers

log = logging.getLogger("kafkaesque.runtime")

#: More than this unsent is a caller without a bound: the connection is aborted.
UNSENT_BYTES_MAX: Final = 1024 * 1024 * 1024
#: After `close`, the rest has so long to leave and the peer so long to end its side.
CLOSE_MS_MAX: Final = 5_000

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class State(Enum):
    """See above."""

    OPEN = "open"
    FLUSHING = "flushing"
    LINGERING = "lingering"
    CLOSED = "closed"


class _Sending(Enum):
    IDLE = "idle"
    TURN = "turn"
    SOCKET = "socket"
    WORKER = "worker"


# To look a member up in its class takes as long as three calls.
_OPEN: Final = State.OPEN
_FLUSHING: Final = State.FLUSHING
_LINGERING: Final = State.LINGERING
_CLOSED: Final = State.CLOSED
_IDLE: Final = _Sending.IDLE
_TURN: Final = _Sending.TURN
_SOCKET: Final = _Sending.SOCKET
_WORKER: Final = _Sending.WORKER
_EMPTY: Final = Flushed.EMPTY
_BLOCKED: Final = Flushed.BLOCKED
_COLD: Final = Flushed.COLD


class Shared:
    """What all connections of a network have in common."""

    __slots__ = (
        "_to_flush",
        "loop",
        "on_fatal",
        "poller",
        "readers",
        "refusals",
        "scratch",
        "strict",
    )

    def __init__(
        self,
        loop: Loop,
        poller: Poll,
        readers: Workers,
        on_fatal: OnFatal,
        *,
        strict: bool = False,
    ) -> None:
        self.loop: Final = loop
        self.poller: Final = poller
        self.scratch: Final = Scratch()
        self.readers: Final = readers
        self.on_fatal: Final = on_fatal
        #: Tells of connections that were refused; anybody can cause such lines.
        self.refusals: Final = ReportLimit(
            log.warning, lambda ms, callback: loop.call_later(ms / 1000, callback)
        )
        #: Whether everything that a handler lets out is fatal: nothing goes unseen in a simulation.
        self.strict: Final = strict
        self._to_flush: list[SocketConnection] = []

    def flush_soon(self, connection: "SocketConnection") -> None:
        """Call the connection's `flush` at the end of the turn, together with all the others."""
        if not self._to_flush:
            self.loop.call_last(self._flush_all)
        self._to_flush.append(connection)

    def _flush_all(self) -> None:
        connections, self._to_flush = self._to_flush, []
        for connection in connections:
            connection.flush()


class SocketConnection:
    """A connected socket and its handler."""

    __slots__ = (
        "_cutter",
        "_error",
        "_fd",
        "_handler",
        "_mask",
        "_notify",
        "_on_gone",
        "_outbound",
        "_peer",
        "_peer_ended",
        "_receiving",
        "_sending",
        "_shared",
        "_sock",
        "_state",
        "_timer",
        "reading",
        "received",
    )

    def __init__(
        self,
        shared: Shared,
        sock: Socket,
        peer: str,
        cutter: Cutter,
        on_gone: Callable[["SocketConnection"], None],
        outbound: Outbound | None = None,
    ) -> None:
        self._shared: Final = shared
        self._sock: Final = sock
        self._fd: Final = sock.fileno()
        self._peer: Final = peer
        self._cutter: Final = cutter
        self._on_gone: Final = on_gone
        self._outbound: Final = outbound or Outbound()
        self._handler: ConnectionHandler | None = None
        self._state = _OPEN
        self._sending = _IDLE
        #: Whether the handler takes anything at the moment; never once it is closing.
        self.reading = True
        #: Bytes, since the beginning.
        self.received = 0
        #: The events that the poller looks for.
        self._mask = READABLE
        #: Whether this connection is just now receiving, so that a flush will follow anyway.
        self._receiving = False
        self._peer_ended = False
        self._notify = False
        self._error: Exception | None = None
        self._timer: Timer | None = None

    def start(self, handler: ConnectionHandler) -> None:
        """Introduce the handler and begin to receive."""
        self._handler = handler
        self._shared.poller.add(self._fd, self._mask, self._on_events)
        try:
            handler.on_open(self)
        except Exception as error:
            self._on_handler_error(error)

    # What the handler calls

    @property
    def peer(self) -> str:
        return self._peer

    def peer_certificate(self) -> PeerCertificate | None:
        return None

    def write(self, parts: Sequence[Buffer | FileRange]) -> None:
        if self._state is not _OPEN:
            return
        outbound = self._outbound
        outbound.add(parts)
        if outbound.unsent_bytes > LOW_WATER_BYTES:
            self._notify = True
            if outbound.unsent_bytes > UNSENT_BYTES_MAX:
                log.error("%s: %d bytes unsent, closed", self._peer, outbound.unsent_bytes)
                self.abort()
                return
        if self._sending is _IDLE:
            self._flush_this_turn()

    def unsent_bytes(self) -> int:
        return self._outbound.unsent_bytes

    def received_bytes(self) -> int:
        return self.received

    def sent_bytes(self) -> int:
        return self._outbound.added_bytes - self._outbound.unsent_bytes

    def pause_reading(self) -> None:
        if self.reading and self._state is _OPEN:
            self.reading = False
            self._watch(self._mask & ~READABLE)

    def resume_reading(self) -> None:
        if not self.reading and self._state is _OPEN:
            self.reading = True
            self._shared.loop.call_soon(self._deliver_rest)

    def limit_frames(self, frame_bytes_max: int) -> None:
        self._cutter.limit_frames(frame_bytes_max)

    def close(self) -> None:
        if self._state is _OPEN:
            self._end()
            self._timer = self._shared.loop.call_later(CLOSE_MS_MAX / 1000, self._on_time_up)
            if self._sending is _IDLE:
                self._flush_this_turn()

    def abort(self) -> None:
        if self._state is not _CLOSED:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._close_now(None)

    # Receiving

    def deliver(self, data: bytearray) -> None:
        """Pass on what the cutter has cut."""
        handler = self._handler
        if handler is not None and self._state is _OPEN:
            try:
                handler.on_bytes(data)
            except Exception as error:
                self._on_handler_error(error)

    def give_up(self, reason: str) -> None:
        """Drop the connection for want of room; another one needs it more."""
        log.warning("%s: closed, %s", self._peer, reason)
        self._close_now(ConnectionAbortedError(reason))

    def _watch(self, mask: int) -> None:
        if mask != self._mask:
            self._mask = mask
            self._shared.poller.change(self._fd, mask)

    def _on_events(self, events: int) -> None:
        if events & WRITABLE and self._sending is _SOCKET:
            self._watch(self._mask & ~WRITABLE)
            self._sending = _TURN
            self.flush()
        if events & (READABLE | BROKEN) and self._state is not _CLOSED:
            if self._mask & READABLE:
                self._on_readable()
            elif events & BROKEN:
                # Nothing is being read, so nobody else would find out.
                code = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                self._close_now(ConnectionResetError(code, os.strerror(code)))

    def _on_readable(self) -> None:
        if self._state is not _OPEN:
            self._throw_away()
            return
        self._receiving = True
        try:
            if not self._cutter.receive(self._sock, self):
                self._on_peer_ended()
        except BlockingIOError:
            pass
        except FrameRefused as error:
            self._refuse(error)
        except OSError as error:
            self._close_now(error)
        finally:
            self._receiving = False
        if self._sending is _TURN:
            self.flush()

    def _deliver_rest(self) -> None:
        if not self.reading:
            return
        try:
            self._cutter.deliver_rest(self)
        except FrameRefused as error:
            self._refuse(error)
        if self._peer_ended:
            return  # Its end has been told, and would be found again and again.
        if self.reading:
            self._watch(self._mask | READABLE)

    def _throw_away(self) -> None:
        """Receive what nobody wants, until the peer ends its side or our time is up."""
        try:
            if self._sock.recv_into(self._shared.scratch.view) == 0:
                self._peer_ended = True
                self._watch(self._mask & ~READABLE)
                if self._state is _LINGERING:
                    self._close_now(None)
        except BlockingIOError:
            pass
        except OSError as error:
            self._close_now(error)

    def _on_peer_ended(self) -> None:
        self._peer_ended = True
        self._watch(self._mask & ~READABLE)
        # See `HalfCloseHandler`: who has answers to give closes later.
        on_eof = getattr(self._handler, "on_eof", None)
        if self._state is not _OPEN:
            return
        if on_eof is None:
            self.close()
            return
        try:
            on_eof()
        except Exception as error:
            self._on_handler_error(error)

    def _refuse(self, error: FrameRefused) -> None:
        self._shared.refusals.say(f"{self._peer}: closed, it announced {error}")
        self._close_now(error)

    # Sending

    def flush(self) -> None:
        """Send what can be sent; the network calls this at the end of a turn."""
        if self._sending is not _TURN:
            return
        self._sending = _IDLE
        try:
            self._after_flush(self._outbound.flush(self._sock))
        except OSError as error:
            self._close_now(error)
        except (DiskFailed, OverBound) as error:  # A range's promise was not kept.
            log.error("%s: closed, %s", self._peer, error)
            self._close_now(error)
        if self._notify and self._outbound.unsent_bytes <= LOW_WATER_BYTES:
            self._notify = False
            if self._handler is not None and self._state is _OPEN:
                try:
                    self._handler.on_writable()
                except Exception as error:
                    self._on_handler_error(error)

    def _is_idle(self) -> bool:
        """Tell whether nothing is about to be sent."""
        return self._sending is _IDLE and self._state is not _CLOSED

    def _flush_this_turn(self) -> None:
        self._sending = _TURN
        if not self._receiving:
            self._shared.flush_soon(self)

    def _after_flush(self, flushed: Flushed) -> None:
        if flushed is _EMPTY:
            if self._state is _FLUSHING:
                self._linger()
        elif flushed is _BLOCKED:
            self._sending = _SOCKET
            self._notify = True
            self._watch(self._mask | WRITABLE)
        elif flushed is _COLD:
            self._sending = _WORKER
            self._shared.readers.submit(self._outbound.cold_read(), self._on_warmed)
        else:
            self._sending = _TURN
            self._shared.flush_soon(self)

    def _on_warmed(self, result: object, error: Exception | None) -> None:
        if self._state is _CLOSED:
            return
        try:
            if error is not None:
                raise error
            self._outbound.warmed(result)
        except (OSError, DiskFailed) as raised:
            log.error("%s: closed, %s", self._peer, raised)
            self._close_now(raised)
            return
        self._sending = _TURN
        self.flush()

    # Ending

    def _end(self) -> None:
        """Deliver nothing any more, and from now on throw away what comes."""
        self.reading = False
        self._state = _FLUSHING
        if not self._peer_ended:
            self._watch(self._mask | READABLE)

    def _linger(self) -> None:
        if self._peer_ended:
            self._close_now(None)
            return
        self._state = _LINGERING
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError as error:
            self._close_now(error)

    def _on_time_up(self) -> None:
        self._timer = None
        self.abort()

    def _on_handler_error(self, error: Exception) -> None:
        if self._shared.strict or isinstance(error, InvariantBroken):
            self._shared.on_fatal(error)
        else:
            log.error("%s: closed, its handler failed", self._peer, exc_info=error)
        self._error = error
        self.abort()

    def _close_now(self, error: Exception | None) -> None:
        if self._state is _CLOSED:
            return
        self._state = _CLOSED
        self.reading = False
        self._error = self._error or error
        loop = self._shared.loop
        self._shared.poller.remove(self._fd)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._sending = _IDLE
        self._notify = False
        self._outbound.clear()
        self._cutter.close()
        self._sock.close()
        loop.call_soon(self._on_closed)

    def _on_closed(self) -> None:
        handler, self._handler = self._handler, None
        self._on_gone(self)
        if handler is None:
            return
        try:
            handler.on_close(self._error)
        except Exception as error:
            if self._shared.strict or isinstance(error, InvariantBroken):
                self._shared.on_fatal(error)
            else:
                log.exception("%s: its handler failed in on_close", self._peer)
