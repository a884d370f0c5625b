"""One TCP connection that speaks TLS.

All of `SocketConnection` holds, and three things more. Plaintext may wait inside the TLS socket of
which no poller tells: as long as there is some, and the handler takes it, the connection comes back
in the next turn, after others had theirs. The end of our side is said within TLS before TCP's. And
the connection ends when the other end's certificate does, or is revoked.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

from kafkaesque.env.certificate import PeerCertificate
from kafkaesque.env.clock import Timer
from kafkaesque.env.network import ConnectionHandler
from kafkaesque.runtime.connection import Shared, SocketConnection, State
from kafkaesque.runtime.framing import Cutter
from kafkaesque.runtime.poller import READABLE
from kafkaesque.runtime.sealed_outbound import SealedOutbound
from kafkaesque.runtime.tls_socket import TlsBuffers, TlsSocket

log = logging.getLogger("kafkaesque.runtime")

#: How long a timer waits at most; a clock that is put forward is noticed then.
LOOK_AGAIN_S_MAX: Final = 3_600.0


class TlsConnection(SocketConnection):
    """A TLS socket whose handshake has ended well, and its handler."""

    __slots__ = ("_certificate", "_expiry", "_is_coming_back", "_tls", "context")

    def __init__(
        self,
        shared: Shared,
        tls: TlsSocket,
        peer: str,
        cutter: Cutter,
        on_gone: Callable[[SocketConnection], None],
        *,
        buffers: TlsBuffers,
        context: str,
        certificate: PeerCertificate | None,
    ) -> None:
        super().__init__(shared, tls, peer, cutter, on_gone, SealedOutbound(tls, buffers))
        self._tls: Final = tls
        self._certificate: Final = certificate
        #: The name of what it was checked by.
        self.context: Final = context
        self._is_coming_back = False
        self._expiry: Timer | None = None

    def start(self, handler: ConnectionHandler) -> None:
        super().start(handler)
        self._watch_expiry()
        self._maybe_come_back()
        self._maybe_speak()

    def peer_certificate(self) -> PeerCertificate | None:
        return self._certificate

    # -- receiving

    def _on_readable(self) -> None:
        super()._on_readable()
        self._maybe_come_back()
        self._maybe_speak()

    def _deliver_rest(self) -> None:
        super()._deliver_rest()
        self._maybe_come_back()

    def _maybe_come_back(self) -> None:
        if self._tls.has_more and not self._is_coming_back and self._mask & READABLE:
            if self._state is not State.CLOSED:
                self._is_coming_back = True
                self._shared.loop.call_soon(self._come_back)

    def _come_back(self) -> None:
        self._is_coming_back = False
        if self._state is not State.CLOSED and self._mask & READABLE:
            self._on_readable()

    def _maybe_speak(self) -> None:
        """Send what TLS itself has to say, where nothing else is about to be sent."""
        tls = self._tls
        if (tls.unsent or tls.has_to_speak()) and self._is_idle():
            self._flush_this_turn()

    def _on_peer_ended(self) -> None:
        self._tls.stop_reading()
        super()._on_peer_ended()

    # -- ending

    def _end(self) -> None:
        self._tls.stop_reading()
        super()._end()

    def _linger(self) -> None:
        if not self._tls.is_ended:
            self._tls.end()
            self._after_flush(self._outbound.flush(self._sock))
        else:
            super()._linger()

    def _close_now(self, error: Exception | None) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        super()._close_now(error)

    def _watch_expiry(self) -> None:
        """Close when the certificate has expired, and look again if it is not yet so."""
        self._expiry = None
        if self._certificate is None or self._state is State.CLOSED:
            return
        left_s = self._certificate.not_after_ms / 1000 - time.time()
        if left_s <= 0:
            log.info("%s: closed, its certificate has expired", self._peer)
            self.close()
            return
        delay_s = min(left_s + 0.001, LOOK_AGAIN_S_MAX)
        self._expiry = self._shared.loop.call_later(delay_s, self._watch_expiry)

    def revoke(self, reason: str) -> None:
        """Drop the connection: its certificate counts no more."""
        log.warning("%s: closed, %s", self._peer, reason)
        self.abort()
