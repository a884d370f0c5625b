"""Connections over TLS: the same promises as in the clear, against the standard library's TLS."""

from __future__ import annotations

import os
import socket
import ssl
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkaesque.env.disk import FileRange
from kafkaesque.env.network import (
    LOW_WATER_BYTES,
    Address,
    ConnectionHandler,
    Framing,
    ListenOptions,
)
from kafkaesque.runtime import outbound, tls_socket
from kafkaesque.runtime.file import RealFile
from kafkaesque.runtime.network import RealListener
from kafkaesque.server.tls_settings import ClientAuth
from tests.certificates import TestAuthority
from tests.unit.env.worlds import EofRecorder, RealWorld, Recorder
from tests.unit.runtime.tls_client import TlsClient

FRAMED = ListenOptions(framing=Framing.LENGTH_PREFIXED, tls="tls")
STREAM = ListenOptions(framing=Framing.STREAM, tls="tls")
LOCAL = Address("127.0.0.1", 0)
VERSIONS = [ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2]


class Server:
    """A listener that speaks TLS, and everybody who came in."""

    def __init__(
        self,
        world: RealWorld,
        authority: TestAuthority,
        options: ListenOptions = FRAMED,
        make: Callable[[], Recorder] = Recorder,
        client_auth: ClientAuth = ClientAuth.NONE,
    ) -> None:
        self.world = world
        self.authority = authority
        self.make = make
        self.handlers: list[Recorder] = []
        authority.teach(world.doors.network, client_auth)
        listener = world.env.network.listen(LOCAL, options, self.accept)
        assert isinstance(listener, RealListener)
        self.address = listener.address
        self.socks: list[socket.socket] = []
        world.at_close.append(self.hang_up)

    def hang_up(self) -> None:
        for sock in self.socks:
            sock.close()

    def accept(self) -> ConnectionHandler:
        self.handlers.append(self.make())
        return self.handlers[-1]

    def connect(self, receive_bytes: int = 0) -> socket.socket:
        sock = socket.socket()
        self.socks.append(sock)
        if receive_bytes:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        sock.connect(self.address)
        return sock

    def dial(
        self, context: ssl.SSLContext | None = None, receive_bytes: int = 0
    ) -> tuple[TlsClient, Recorder]:
        """Connect and shake hands."""
        count = len(self.handlers)
        client = TlsClient(
            self.world, self.connect(receive_bytes), context or self.authority.client()
        )
        client.shake()
        self.world.run_until(lambda: len(self.handlers) > count)
        self.world.run_until(lambda: self.handlers[-1].connection is not None)
        return client, self.handlers[-1]


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


@pytest.mark.parametrize("version", VERSIONS, ids=lambda each: each.name)
def test_frames_go_both_ways(
    world: RealWorld, authority: TestAuthority, version: ssl.TLSVersion
) -> None:
    server = Server(world, authority)
    client, handler = server.dial(authority.client(newest=version))
    client.sock.sendall(client.seal(frame(b"hello") + frame(b"") + frame(b"again")))
    world.run_until(lambda: handler.pieces == [b"hello", b"", b"again"])
    handler.link.write([b"an ", b"answer"])
    assert client.read_until(9) == b"an answer"
    assert handler.link.peer_certificate() is None
    assert handler.link.sent_bytes() == 9
    assert handler.link.received_bytes() == 5 + 5 + 12


def test_what_came_with_the_end_of_the_handshake_is_served(
    world: RealWorld, authority: TestAuthority
) -> None:
    server = Server(world, authority)
    client = TlsClient(world, server.connect(), authority.client())
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.do_handshake()
    client.push()
    while True:
        client.pull()
        try:
            client.tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            pass
    # The client's last flight and its first request in one segment.
    client.sock.sendall(client.seal(frame(b"at once")))
    world.run_until(lambda: bool(server.handlers) and server.handlers[0].pieces == [b"at once"])


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    sizes=st.lists(st.integers(0, 70_000), min_size=1, max_size=6),
    cuts=st.lists(st.integers(1, 40_000), min_size=1, max_size=12),
    is_paused=st.booleans(),
)
def test_every_split_and_size_comes_in_whole(
    world: RealWorld, authority: TestAuthority, sizes: list[int], cuts: list[int], is_paused: bool
) -> None:
    server = Server(world, authority)
    client, handler = server.dial()
    payloads = [bytes([number]) * size for number, size in enumerate(sizes)]
    sealed = client.seal(b"".join(map(frame, payloads)))
    if is_paused:
        handler.on_piece = lambda _: handler.link.pause_reading()
    at = 0
    for number in range(200):
        if at >= len(sealed):
            break
        cut = cuts[number % len(cuts)]
        client.sock.sendall(sealed[at : at + cut])
        at += cut
        world.settle_turns(3)
    if at < len(sealed):
        client.sock.sendall(sealed[at:])

    def all_have_come() -> bool:
        handler.link.resume_reading()
        return len(handler.pieces) == len(payloads)

    world.run_until(all_have_come)
    assert handler.pieces == payloads
    handler.link.abort()


def test_plaintext_inside_of_openssl_is_kept_over_a_pause_and_then_served(
    world: RealWorld, authority: TestAuthority
) -> None:
    """The large frame's buffer took no more; the kernel has nothing, and nobody sends any more."""
    server = Server(world, authority)
    client, handler = server.dial()
    handler.on_piece = lambda _: handler.link.pause_reading()
    payloads = [os.urandom(300_001), *(bytes([number]) * 900 for number in range(20))]
    sealed = client.seal(b"".join(map(frame, payloads)))
    client.sock.sendall(sealed[:150_000])
    world.settle()
    client.sock.sendall(sealed[150_000:])
    world.run_until(lambda: len(handler.pieces) == 1)
    world.settle()
    assert len(handler.pieces) == 1
    assert handler.link._tls.has_more  # type: ignore[attr-defined]
    for count in range(2, 22):
        handler.link.resume_reading()
        world.run_until(lambda count=count: len(handler.pieces) >= count, 5_000)  # type: ignore[misc]
        world.settle_turns(5)
        assert len(handler.pieces) == count
    assert handler.pieces == payloads


def test_a_large_frame_whose_end_is_inside_is_delivered_without_another_byte(
    world: RealWorld, authority: TestAuthority
) -> None:
    server = Server(world, authority)
    client, handler = server.dial()
    large, small = os.urandom(300_001), b"after it"
    client.sock.settimeout(10)
    sealed = client.seal(frame(large) + frame(small))
    at = 0
    while at < len(sealed):
        at += client.sock.send(sealed[at : at + 50_000])
        world.settle_turns(2)
    world.run_until(lambda: len(handler.pieces) == 2)
    assert handler.pieces == [large, small]


def test_large_ranges_and_small_parts_reach_a_slow_reader_in_order(
    world: RealWorld, authority: TestAuthority
) -> None:
    server = Server(world, authority)
    file = world.env.disk.open("log", create=True)
    content = os.urandom(1_000_003) * 5
    file.write_at(0, [content])
    client, handler = server.dial(receive_bytes=100_000)
    expected = []
    for number in range(3):
        small = b"frame %d" % number
        handler.link.write([small, FileRange(file, number, 1_500_000), b""])
        handler.link.write([small * 3, FileRange(file, 1000 * number, 100), b"x" * 100_000])
        expected += [small, content[number : number + 1_500_000], small * 3]
        expected += [content[1000 * number : 1000 * number + 100], b"x" * 100_000]
    wanted = b"".join(expected)
    world.settle()
    unsent = handler.link.unsent_bytes()
    assert handler.writable_count == 0
    assert LOW_WATER_BYTES < unsent <= len(wanted)
    assert handler.link.sent_bytes() == len(wanted) - unsent
    while len(client.received) < len(wanted):
        client.read()
        if handler.link.unsent_bytes() > LOW_WATER_BYTES:
            assert handler.writable_count == 0
    assert client.received == wanted
    assert handler.writable_count >= 1
    assert (handler.link.unsent_bytes(), handler.link.sent_bytes()) == (0, len(wanted))


@pytest.mark.parametrize("length", [100, 65_535, 65_536, 3_000_000])
def test_cold_pages_are_brought_in_by_a_worker(
    world: RealWorld, authority: TestAuthority, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(world, authority)
    file = world.env.disk.open("log", create=True)
    content = os.urandom(4_000_000)
    file.write_at(0, [content])
    read_into = RealFile.read_into

    def cold(self: RealFile, room: memoryview, position: int, *, may_wait: bool) -> int | None:
        return read_into(self, room, position, may_wait=True) if may_wait else None

    monkeypatch.setattr(RealFile, "read_into", cold)
    touched: list[int] = []
    touch, read_blocking = RealFile.touch, RealFile.read_blocking

    def note_touch(self: RealFile, position: int, end: int) -> None:
        touched.append(position)
        touch(self, position, end)

    def note_read(self: RealFile, position: int, size: int) -> bytes:
        touched.append(position)
        return read_blocking(self, position, size)

    monkeypatch.setattr(RealFile, "touch", note_touch)
    monkeypatch.setattr(RealFile, "read_blocking", note_read)
    client, handler = server.dial()
    handler.link.write([b"head", FileRange(file, 500_000, length), b"tail"])
    assert client.read_until(length + 8) == b"head" + content[500_000 : 500_000 + length] + b"tail"
    assert len(touched) == -(-length // outbound.WINDOW_BYTES)


def test_a_range_that_ends_too_early_costs_the_connection(
    world: RealWorld, authority: TestAuthority
) -> None:
    server = Server(world, authority)
    file = world.env.disk.open("log", create=True)
    file.write_at(0, [bytes(1_000)])
    _, handler = server.dial()
    handler.link.write([FileRange(file, 0, 2_000)])
    world.run_until(lambda: bool(handler.closed))
    assert "ends at 1000" in str(handler.closed[0])


def test_an_end_is_told_within_tls_and_what_was_written_comes_before_it(
    world: RealWorld, authority: TestAuthority
) -> None:
    server = Server(world, authority)
    client, handler = server.dial(receive_bytes=50_000)
    handler.link.write([b"z" * 2_000_000])
    handler.link.close()
    while not client.is_ended:
        client.read()
    assert client.received == b"z" * 2_000_000
    client.sock.close()
    world.run_until(lambda: handler.closed == [None])


def test_a_client_that_ends_its_side_still_gets_its_answers(
    world: RealWorld, authority: TestAuthority
) -> None:
    server = Server(world, authority, make=EofRecorder)
    client, handler = server.dial()
    assert isinstance(handler, EofRecorder)
    sealed = client.seal(frame(b"the last"))
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.unwrap()
    client.sock.sendall(sealed + client.outgoing.read())
    world.run_until(lambda: handler.ended == 1)
    assert handler.pieces == [b"the last"]
    world.settle()
    assert handler.closed == []
    handler.link.write([b"bye"])
    handler.link.close()
    data = b""
    while not client.is_closed:
        client.pull()
        data += client.incoming.read()
    # Its own TLS has ended, so it does not open this any more; something has come, and an end.
    assert data
    world.run_until(lambda: handler.closed == [None])


def test_a_stream_that_is_cut_off_is_no_end(world: RealWorld, authority: TestAuthority) -> None:
    server = Server(world, authority, make=EofRecorder)
    client, handler = server.dial()
    assert isinstance(handler, EofRecorder)
    client.sock.sendall(client.seal(frame(b"x")))
    world.run_until(lambda: bool(handler.pieces))
    client.sock.shutdown(socket.SHUT_WR)
    world.run_until(lambda: bool(handler.closed))
    assert "broke off" in str(handler.closed[0])
    assert handler.ended == 0


def test_a_changed_byte_costs_the_connection_and_delivers_nothing(
    world: RealWorld, authority: TestAuthority
) -> None:
    server = Server(world, authority)
    client, handler = server.dial()
    sealed = bytearray(client.seal(frame(b"good")) + client.seal(frame(b"evil")))
    sealed[-1] ^= 1
    client.sock.sendall(sealed)
    world.run_until(lambda: bool(handler.closed))
    assert handler.pieces == [b"good"]
    assert isinstance(handler.closed[0], ssl.SSLError)


def test_a_client_that_reads_nothing_costs_one_chunk_of_sealed_bytes(
    world: RealWorld, authority: TestAuthority
) -> None:
    server = Server(world, authority)
    _, handler = server.dial(receive_bytes=20_000)
    for _ in range(50):
        handler.link.write([bytes(1_000_000)])
    world.settle()
    connection: Any = handler.link
    sealed = connection._tls.unsent
    assert 0 < len(sealed) < tls_socket.CHUNK_BYTES + 1_000
    assert handler.link.unsent_bytes() > 40_000_000
    # The chunk counts as unsent until all of it has gone.
    waiting = sum(len(part) for part in connection._outbound._queue)
    assert handler.link.unsent_bytes() - waiting == tls_socket.CHUNK_BYTES
    handler.link.abort()
    world.run_until(lambda: bool(handler.closed))
    assert handler.link.unsent_bytes() == 0


def test_updates_of_keys_are_answered(
    world: RealWorld, authority: TestAuthority, tmp_path: Path
) -> None:
    """OpenSSL's own client asks for new keys in the midst; what follows is sealed with these."""
    import subprocess

    server = Server(world, authority, STREAM)
    host, port = server.address
    command = ["openssl", "s_client", "-connect", f"{host}:{port}", "-CAfile", str(authority.ca)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        world.run_until(lambda: bool(server.handlers and server.handlers[0].connection))
        handler = server.handlers[0]
        process.stdin.write(b"before\n")
        process.stdin.flush()
        world.run_until(lambda: handler.stream == b"before\n")
        process.stdin.write(b"K\n")
        process.stdin.flush()
        world.settle()
        process.stdin.write(b"after\n")
        process.stdin.flush()
        world.run_until(lambda: handler.stream == b"before\nafter\n")
        handler.link.write([b"an answer under new keys\n"])
        handler.link.close()
        world.run_until(lambda: process.poll() is not None)
        printed = process.stdout.read()
    assert b"an answer under new keys\n" in printed
    assert b"Verify return code: 0 (ok)" in printed
