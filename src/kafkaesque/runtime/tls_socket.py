"""A socket that speaks TLS, over `ssl.MemoryBIO`: to a connection it is a socket like others.

Theory of operation. Received bytes go into OpenSSL by way of one memory BIO, and what is to be sent
comes out of another: so OpenSSL never touches the real socket, and nothing has to be tried again
with the same buffer. Two things follow that a plain socket does not know:

- Plaintext may wait inside while the real socket has nothing, and then no poller tells of it.
  `has_more` says so; whoever receives has to come again until it is False.
- What was sealed must be sent, and the socket may take a part. It stays here as `unsent`, at most
  one chunk of it, and nothing is sealed before it has gone.

Memory. Received bytes pass through one buffer of the loop and go into the BIO in slices
(`FEED_BYTES`), so that no connection's BIO grows to the size of a large read.
"""

import ssl
from collections.abc import Callable, Sequence
from typing import Final

from kafkaesque.env.certificate import PeerCertificate
from kafkaesque.env.disk import Buffer
from kafkaesque.runtime.peer_certificate import read_certificate
from kafkaesque.runtime.ports import Socket

#: Received from the real socket at once.
CIPHER_BYTES: Final = 256 * 1024
#: Sealed at once, and the most that a connection holds sealed.
CHUNK_BYTES: Final = 64 * 1024
#: Given to OpenSSL at once.
FEED_BYTES: Final = 32 * 1024
#: The longest record, and what one read of OpenSSL's returns at most.
RECORD_BYTES: Final = 16 * 1024
#: Received before the handshake has ended: a greeting, and a chain of certificates.
HANDSHAKE_BYTES_MAX: Final = 64 * 1024
#: What OpenSSL may have to say by itself, such as an answer to an update of keys.
OWN_BYTES_MAX: Final = 64 * 1024

_NOTHING: Final = memoryview(b"")


class TlsBroken(ConnectionError):
    """The other end does not keep to TLS, or cannot be trusted."""


class NothingSaid(TlsBroken):
    """The other end has gone without a word: it may only have looked whether somebody is there."""


class TlsBuffers:
    """What all TLS sockets of a loop share. Nothing in it outlives a call."""

    __slots__ = ("cipher", "plain")

    def __init__(self) -> None:
        self.cipher: Final = memoryview(bytearray(CIPHER_BYTES))
        self.plain: Final = memoryview(bytearray(CHUNK_BYTES))


class TlsSocket:
    """A connected socket over TLS; until `shake_hands` has returned True it is good for nothing."""

    __slots__ = (
        "_buffers",
        "_error",
        "_handshake_bytes",
        "_has_peer_ended",
        "_incoming",
        "_is_deaf",
        "_object",
        "_outgoing",
        "_raw",
        "has_more",
        "is_ended",
        "unsent",
    )

    def __init__(
        self, raw: Socket, context: ssl.SSLContext, buffers: TlsBuffers, *, is_server: bool
    ) -> None:
        self._raw: Final = raw
        self._buffers: Final = buffers
        self._incoming: Final = ssl.MemoryBIO()
        self._outgoing: Final = ssl.MemoryBIO()
        self._object: Final = context.wrap_bio(self._incoming, self._outgoing, is_server)
        self._handshake_bytes = 0
        #: What is to be raised when everything before it has been received.
        self._error: ssl.SSLError | None = None
        self._has_peer_ended = False
        #: Whether nobody wants to know what still comes.
        self._is_deaf = False
        #: Whether `recv_into` may have something although the real socket has nothing.
        self.has_more = False
        #: Whether the other end is told, with what is sent next, that nothing follows.
        self.is_ended = False
        #: Sealed, and not taken by the real socket.
        self.unsent = _NOTHING

    # -- the handshake

    def greet(self) -> None:
        """Begin the handshake, as the side that has dialled."""
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            self.collect()

    def shake_hands(self) -> bool:
        """Receive once and go on with the handshake; tell whether it has ended well.

        What there is to say is `unsent` then.

        Raises:
            BlockingIOError: nothing is there.
            TlsBroken: it sent too much for a handshake, or went away.
            ssl.SSLError: they do not agree; the other end was told if it could be.
        """
        arrived = self._raw.recv_into(self._buffers.cipher[:RECORD_BYTES])
        if arrived == 0:
            raise (
                TlsBroken("it has hung up")
                if self._handshake_bytes
                else NothingSaid("it has hung up")
            )
        self._handshake_bytes += arrived
        if self._handshake_bytes > HANDSHAKE_BYTES_MAX:
            raise TlsBroken(f"more than {HANDSHAKE_BYTES_MAX} bytes without an end")
        self._incoming.write(self._buffers.cipher[:arrived])
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            self.collect()
            return False
        except ssl.SSLError:
            self._send_alert()
            raise
        self.collect()
        self.has_more = bool(self._incoming.pending)
        return True

    def peer_certificate(self) -> PeerCertificate | None:
        """Return what the other end has shown and was checked; None if it has shown nothing."""
        found = self._object.getpeercert()
        return read_certificate(found) if found else None

    def version(self) -> str:
        """Return which TLS is spoken, such as TLSv1.3."""
        return self._object.version() or ""

    # -- receiving

    def recv_into(self, buffer: memoryview, /) -> int:
        """Receive once, and open as much as fits; see `has_more`.

        Raises:
            TlsBroken: the stream was cut off: an end has to be told.
        """
        if self._is_deaf:
            return self._raw.recv_into(buffer)
        if self.has_more:
            if self._error is not None:
                raise self._error
            count = self._open(buffer, 0)
            if count or self._has_peer_ended:
                return count
        cipher = self._buffers.cipher
        arrived = self._raw.recv_into(cipher[: max(len(buffer), RECORD_BYTES)])
        if arrived == 0:
            raise TlsBroken("the other end broke off without an end of TLS")
        count = 0
        for at in range(0, arrived, FEED_BYTES):
            self._incoming.write(cipher[at : min(at + FEED_BYTES, arrived)])
            count = self._open(buffer, count)
        if count or self._has_peer_ended:
            return count
        raise BlockingIOError

    def _open(self, buffer: memoryview, count: int) -> int:
        """Open what has come, behind the first `count` bytes; return how many there are then."""
        incoming, opened = self._incoming, self._object
        read: Callable[[int, memoryview], int] = opened.read  # type: ignore[assignment]
        size = len(buffer)
        self.has_more = True
        if self._error is not None or self._has_peer_ended:
            return count
        try:
            while count < size:
                got = read(size - count, buffer[count:] if count else buffer)
                if not got:
                    self._has_peer_ended = True
                    return count
                count += got
                if not incoming.pending and not opened.pending():
                    self.has_more = False
                    return count
        except ssl.SSLWantReadError:
            self.has_more = False
        except ssl.SSLError as error:
            self._send_alert()
            self._error = error
            if not count:
                raise
        if self._outgoing.pending > OWN_BYTES_MAX:
            raise TlsBroken("it makes this side speak and does not listen")
        return count

    def stop_reading(self) -> None:
        """What comes from now on is not opened: it is only taken from the real socket."""
        self._is_deaf = True
        self.has_more = False

    # -- sending

    def seal(self, data: Buffer) -> None:
        """Make `unsent` of data, up to a chunk; there must be none."""
        self._object.write(data)
        self.collect()

    def collect(self) -> None:
        """Make `unsent` of what OpenSSL has to say, unless there is something before it."""
        if not self.unsent and self._outgoing.pending:
            self.unsent = memoryview(self._outgoing.read())

    def has_to_speak(self) -> bool:
        """Tell whether there is something to send that nobody has written."""
        return bool(self._outgoing.pending)

    def send_unsent(self) -> int:
        """Send what is sealed; return how much was taken.

        Raises:
            BlockingIOError: the socket takes no more at the moment.
        """
        sent = self._raw.send(self.unsent)
        self.unsent = self.unsent[sent:] if sent < len(self.unsent) else _NOTHING
        return sent

    def send(self, data: Buffer, flags: int = 0, /) -> int:
        """Take a chunk if all before it has gone; return how much was taken."""
        while self.unsent:
            self.send_unsent()
        chunk = memoryview(data)[:CHUNK_BYTES]
        self.seal(chunk)
        try:
            while self.unsent:
                self.send_unsent()
        except BlockingIOError:
            pass
        return len(chunk)

    def sendmsg(self, buffers: Sequence[Buffer], ancdata: tuple[()], flags: int, /) -> int:
        return self.send(b"".join(buffers))

    def end(self) -> None:
        """Say that nothing follows; it is to be sent as what was sealed is."""
        self.is_ended = True
        try:
            self._object.unwrap()
        except ssl.SSLError:
            pass  # The other end has not said the same yet, or says what nobody hears any more.
        self.collect()

    def _send_alert(self) -> None:
        """Tell the other end what is wrong, if that goes at once."""
        if self.unsent:
            return
        try:
            self._raw.send(self._outgoing.read())
        except OSError:
            pass

    # -- as it is below

    def fileno(self) -> int:
        return self._raw.fileno()

    def shutdown(self, how: int, /) -> None:
        self._raw.shutdown(how)

    def setsockopt(self, level: int, option: int, value: bytes, /) -> None:
        self._raw.setsockopt(level, option, value)

    def getsockopt(self, level: int, option: int, /) -> int:
        return self._raw.getsockopt(level, option)

    def getsockname(self) -> tuple[str, int]:
        return self._raw.getsockname()

    def close(self) -> None:
        self._raw.close()
