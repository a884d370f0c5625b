"""Connections whose TLS handshake has not ended.

Theory of operation. A connection is a handshake until it has ended well; nobody else hears of it
before. A handshake costs a stranger nothing and us a signature, so all of them together are bounded
in every way:

- in time: `HANDSHAKE_MS_MAX` from its beginning to its end, whatever trickles in;
- in bytes: `HANDSHAKE_BYTES_MAX` of `tls_socket`;
- in number: they count as connections of their listener. Where that has no room for one more, the
  oldest of them goes;
- in memory: OpenSSL's part is made with the first bytes, and there are at most `BEGUN_MAX` of
  these. One more costs the one that has begun first: an honest one ends within two round trips, so
  whoever has taken longest is the least likely to end;
- in a turn: those that have something to do wait in a queue, in the order in which it came, and a
  turn takes from it for `TURN_NS_MAX`. Meanwhile their sockets are not watched.
"""

import ssl
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from kafkaesque.env.clock import Timer
from kafkaesque.runtime.poller import READABLE, WRITABLE
from kafkaesque.runtime.ports import Loop, Poll, Socket
from kafkaesque.runtime.tls_socket import TlsBroken, TlsBuffers, TlsSocket

#: From the first byte of TCP to the end of the handshake.
HANDSHAKE_MS_MAX: Final = 10_000
#: Handshakes for which OpenSSL has state, some 20 to 40 KiB each.
BEGUN_MAX: Final = 1_024
#: A turn of the loop goes on with handshakes for so long, with one at least.
TURN_NS_MAX: Final = 2_000_000

#: Called with None where the other end speaks in the clear, and may.
OnDone = Callable[[TlsSocket | None], None]
OnFailed = Callable[[Exception], None]


class Group:
    """Those of one listener, in the order of their beginning."""

    __slots__ = ("all",)

    def __init__(self) -> None:
        self.all: Final[dict[Handshake, None]] = {}

    def give_way(self) -> bool:
        """Give up the oldest for one that has come now; tell whether there was one."""
        if not self.all:
            return False
        next(iter(self.all)).fail(TlsBroken("others came for whom there was no room"))
        return True


class Handshakes:
    """All of one network."""

    __slots__ = ("_begun", "_is_asked", "_ready", "all", "buffers", "loop", "poller")

    def __init__(self, loop: Loop, poller: Poll) -> None:
        self.loop: Final = loop
        self.poller: Final = poller
        self.buffers: Final = TlsBuffers()
        #: In the order of their beginning.
        self.all: Final[dict[Handshake, None]] = {}
        self._begun: Final[dict[Handshake, None]] = {}
        self._ready: Final[deque[Handshake]] = deque()
        self._is_asked = False

    def accept(
        self,
        sock: Socket,
        context: ssl.SSLContext,
        on_done: OnDone,
        on_failed: OnFailed,
        group: "Group",
        is_clear: Callable[[], bool] | None = None,
    ) -> None:
        """Wait for a greeting and answer it; then either of the two is called, once.

        It is in the group until then. `is_clear` tells of what has come whether it is no TLS, where
        that is allowed, and raises BlockingIOError if nothing has.
        """
        Handshake(self, sock, context, on_done, on_failed, group, is_clear).start(is_server=True)

    def dial(
        self, sock: Socket, context: ssl.SSLContext, on_done: OnDone, on_failed: OnFailed
    ) -> None:
        """Greet the other end; then either of the two is called, once, and not in this call."""
        Handshake(self, sock, context, on_done, on_failed, Group(), None).start(is_server=False)

    def abort(self) -> None:
        """Give up all of them."""
        for each in list(self.all):
            each.fail(ConnectionAbortedError("the network is closed"))

    def note_begun(self, handshake: "Handshake") -> None:
        """OpenSSL has state for one more."""
        self._begun[handshake] = None
        if len(self._begun) > BEGUN_MAX:
            oldest = next(iter(self._begun))
            oldest.fail(TlsBroken(f"{BEGUN_MAX} others have not ended, it the longest"))

    def forget(self, handshake: "Handshake") -> None:
        """One has ended."""
        self.all.pop(handshake, None)
        self._begun.pop(handshake, None)

    def note_ready(self, handshake: "Handshake") -> None:
        """One has something to do."""
        self._ready.append(handshake)
        self._ask()

    def _ask(self) -> None:
        if not self._is_asked:
            self._is_asked = True
            self.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_asked = False
        end_ns = time.monotonic_ns() + TURN_NS_MAX
        ready = self._ready
        while ready:
            handshake = ready.popleft()
            if handshake in self.all:
                handshake.step()
                if time.monotonic_ns() > end_ns:
                    break
        if ready:
            self._ask()


class Handshake:
    """One."""

    __slots__ = (
        "_context",
        "_fd",
        "_group",
        "_is_clear",
        "_on_done",
        "_on_failed",
        "_owner",
        "_sock",
        "_timer",
        "_tls",
    )

    def __init__(
        self,
        owner: Handshakes,
        sock: Socket,
        context: ssl.SSLContext,
        on_done: OnDone,
        on_failed: OnFailed,
        group: Group,
        is_clear: Callable[[], bool] | None,
    ) -> None:
        self._owner: Final = owner
        self._is_clear: Final = is_clear
        self._group: Final = group
        self._sock: Final = sock
        self._fd: Final = sock.fileno()
        self._context: Final = context
        self._on_done: Final = on_done
        self._on_failed: Final = on_failed
        self._tls: TlsSocket | None = None
        self._timer: Timer | None = None

    def start(self, *, is_server: bool) -> None:
        """Begin; as a client with something to say."""
        owner = self._owner
        owner.all[self] = None
        self._group.all[self] = None
        self._timer = owner.loop.call_later(HANDSHAKE_MS_MAX / 1000, self._on_time_up)
        owner.poller.add(self._fd, READABLE if is_server else 0, self._on_events)
        if not is_server:
            self._begin(is_server=False)
            owner.note_ready(self)

    def step(self) -> None:
        """Send, receive once, and go on as far as that goes."""
        try:
            self._step()
        except BlockingIOError:
            self._wait()
        except OSError as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Give it up."""
        self._end()
        self._sock.close()
        self._on_failed(error)

    def _begin(self, *, is_server: bool) -> TlsSocket:
        owner = self._owner
        self._tls = tls = TlsSocket(self._sock, self._context, owner.buffers, is_server=is_server)
        owner.note_begun(self)
        if not is_server:
            tls.greet()
        return tls

    def _on_events(self, _: int) -> None:
        self._owner.poller.change(self._fd, 0)
        self._owner.note_ready(self)

    def _step(self) -> None:
        tls = self._tls
        if tls is None:
            if self._is_clear is not None and self._is_clear():
                self._end()
                self._on_done(None)
                return
            tls = self._begin(is_server=True)
        self._send(tls)
        has_ended = tls.shake_hands()
        try:
            self._send(tls)
        except BlockingIOError:
            if not has_ended:
                raise
            # The connection sends the rest.
        if has_ended:
            self._end()
            self._on_done(tls)
        else:
            self._wait()

    def _send(self, tls: TlsSocket) -> None:
        while tls.unsent:
            tls.send_unsent()

    def _wait(self) -> None:
        is_sending = self._tls is not None and bool(self._tls.unsent)
        self._owner.poller.change(self._fd, WRITABLE if is_sending else READABLE)

    def _on_time_up(self) -> None:
        self._timer = None
        self.fail(TlsBroken(f"it has not ended within {HANDSHAKE_MS_MAX} ms"))

    def _end(self) -> None:
        owner = self._owner
        owner.forget(self)
        self._group.all.pop(self, None)
        owner.poller.remove(self._fd)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
