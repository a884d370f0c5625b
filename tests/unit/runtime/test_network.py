import logging
import os
import resource
import socket
import struct
import threading
import time
from pathlib import Path

import pytest

from kafkaesque.env.disk import FileRange
from kafkaesque.env.network import Address, ConnectionHandler, Framing, ListenOptions
from kafkaesque.runtime import connection, network, outbound
from kafkaesque.runtime.file import RealFile
from kafkaesque.runtime.network import RealListener
from tests.unit.env.worlds import RealWorld, Recorder

FRAMED = ListenOptions(framing=Framing.LENGTH_PREFIXED)
STREAM = ListenOptions(framing=Framing.STREAM)
LOCAL = Address("127.0.0.1", 0)


class Server:
    """A listener, and everybody who came."""

    def __init__(self, world: RealWorld, options: ListenOptions = FRAMED) -> None:
        self.world = world
        self.handlers: list[Recorder] = []
        listener = world.env.network.listen(LOCAL, options, self.accept)
        assert isinstance(listener, RealListener)
        self.listener = listener
        self.socks: list[socket.socket] = []
        world.at_close.append(self.hang_up)

    def hang_up(self) -> None:
        for sock in self.socks:
            sock.close()

    def accept(self) -> ConnectionHandler:
        self.handlers.append(Recorder())
        return self.handlers[-1]

    def dial_many(self, count: int) -> None:
        before = len(self.handlers)
        for number in range(1, count + 1):
            self.socks.append(socket.create_connection(self.listener.address))
            if number % 500 == 0 or number == count:  # Within the backlog.
                self.world.run_until(lambda number=number: len(self.handlers) == before + number)  # type: ignore[misc]

    def dial(self, receive_bytes: int = 0) -> tuple[socket.socket, Recorder]:
        """Connect with a plain socket."""
        count = len(self.handlers)
        sock = socket.socket()
        self.socks.append(sock)
        if receive_bytes:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        sock.connect(self.listener.address)
        self.world.run_until(lambda: len(self.handlers) > count)
        return sock, self.handlers[-1]


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_idle_connections_cost_next_to_nothing(world: RealWorld, many_descriptors: None) -> None:
    server = Server(world)
    server.dial()[0].close()
    count = 2000
    before = resident_bytes()
    server.dial_many(count)
    # That includes the test's own sockets and recorders.
    assert (resident_bytes() - before) / count < 10_000
    server.hang_up()
    world.run_until(lambda: all(handler.closed for handler in server.handlers))


def test_announced_frames_cost_nothing_until_they_come(
    world: RealWorld, many_descriptors: None
) -> None:
    server = Server(world)
    count = 500
    server.dial_many(count)
    before = resident_bytes()
    for sock in server.socks:
        sock.sendall(struct.pack(">i", 100_000_000) + b"x" * 1000)
    world.settle()
    assert (resident_bytes() - before) / count < 10_000
    for sock in server.socks[:10]:
        sock.sendall(bytes(100_000))
    world.settle()
    assert resident_bytes() - before < 10_000 * count + 10 * 600_000
    server.hang_up()
    world.run_until(lambda: all(handler.closed for handler in server.handlers))


def test_a_client_that_sends_byte_by_byte_is_served_like_any_other(world: RealWorld) -> None:
    server = Server(world)
    sock, handler = server.dial()
    for byte in struct.pack(">i", 300) + bytes(300):
        sock.sendall(bytes([byte]))
        world.loop.run_until_complete(_turn())
    world.run_until(lambda: handler.pieces == [bytes(300)])


async def _turn() -> None:
    return None


def test_file_ranges_for_a_client_that_never_reads_take_no_memory(world: RealWorld) -> None:
    server = Server(world)
    file = world.env.disk.open("log", create=True)
    file.write_at(0, [bytes(1_000_000)] * 50)
    _, handler = server.dial()
    before = resident_bytes()
    for _ in range(10):
        handler.link.write([b"head", FileRange(file, 0, 50_000_000)])
    world.settle()
    assert 480_000_000 < handler.link.unsent_bytes() < 500_000_040
    assert resident_bytes() - before < 50_000_000
    handler.link.abort()
    world.run_until(lambda: bool(handler.closed))


def read_slowly(sock: socket.socket, expected: int, received: list[bytes]) -> None:
    total = 0
    while total < expected:
        piece = sock.recv(1_000_000)
        if not piece:
            break
        received.append(piece)
        total += len(piece)
        if len(received) % 50 == 0:
            time.sleep(0.001)


def test_large_ranges_and_small_writes_reach_a_slow_reader_in_order(world: RealWorld) -> None:
    server = Server(world)
    file = world.env.disk.open("log", create=True)
    content = os.urandom(1_000_003) * 50
    file.write_at(0, [content])
    sock, handler = server.dial(receive_bytes=100_000)
    expected: list[bytes] = []
    for number in range(2):
        small = b"frame %d" % number
        handler.link.write([small, FileRange(file, number, 50_000_000)])
        handler.link.write([small * 3, FileRange(file, 1000 * number, 100)])
        expected += [small, content[number : number + 50_000_000], small * 3]
        expected.append(content[1000 * number : 1000 * number + 100])
    wanted = b"".join(expected)
    received: list[bytes] = []
    thread = threading.Thread(target=read_slowly, args=(sock, len(wanted), received))
    thread.start()
    world.run_until(lambda: not thread.is_alive(), 60_000)
    assert b"".join(received) == wanted


@pytest.mark.parametrize("length", [100, 65_535, 65_536, 5_000_000])
def test_cold_pages_are_brought_in_by_a_worker(
    world: RealWorld, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(world)
    file = world.env.disk.open("log", create=True)
    content = os.urandom(6_000_000)
    file.write_at(0, [content])
    # Whether pages leave memory when they are told to is the kernel's affair: here every place is
    # cold when it is asked for, until a worker has been there.
    monkeypatch.setattr(RealFile, "read_nowait", lambda *_: None)
    monkeypatch.setattr(RealFile, "is_cached", lambda *_: False)
    flushed: list[outbound.Flushed] = []
    flush = outbound.Outbound.flush

    def spy(self: outbound.Outbound, sock: socket.socket) -> outbound.Flushed:
        flushed.append(flush(self, sock))
        return flushed[-1]

    monkeypatch.setattr(outbound.Outbound, "flush", spy)
    sock, handler = server.dial()
    handler.link.write([b"head", FileRange(file, 500_000, length), b"tail"])
    received: list[bytes] = []
    thread = threading.Thread(target=read_slowly, args=(sock, length + 8, received))
    thread.start()
    world.run_until(lambda: not thread.is_alive())
    assert b"".join(received) == b"head" + content[500_000 : 500_000 + length] + b"tail"
    windows = -(-length // outbound.WINDOW_BYTES)
    assert flushed.count(outbound.Flushed.COLD) == windows


def test_a_failing_handler_costs_its_own_connection_only(
    world: RealWorld, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(world)
    bad_sock, bad = server.dial()
    good_sock, good = server.dial()

    def fail(_: bytes) -> None:
        raise BlockingIOError("a handler's own trouble")

    bad.on_piece = fail
    bad_sock.sendall(struct.pack(">i", 1) + b"x" + struct.pack(">i", 1) + b"y")
    world.run_until(lambda: bool(bad.closed))
    assert bad.pieces == [b"x"]
    assert isinstance(bad.closed[0], BlockingIOError)
    assert "a handler's own trouble" in caplog.text
    assert "Traceback" in caplog.text
    good_sock.sendall(struct.pack(">i", 1) + b"z")
    world.run_until(lambda: good.pieces == [b"z"])


def test_a_peer_that_takes_nothing_after_close_is_dropped_in_time(
    world: RealWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CLOSE_MS_MAX", 100)
    server = Server(world)
    _, handler = server.dial()
    handler.link.write([bytes(50_000_000)])
    handler.link.close()
    quiet_sock, quiet = server.dial()
    quiet.link.close()
    world.run_until(lambda: bool(handler.closed and quiet.closed), 2_000)
    assert quiet_sock.recv(10) == b""


def test_a_reset_is_noticed_even_while_reading_is_paused(world: RealWorld) -> None:
    server = Server(world)
    sock, handler = server.dial()
    handler.link.pause_reading()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
    world.run_until(lambda: bool(handler.closed))
    assert isinstance(handler.closed[0], ConnectionResetError)


def test_a_reset_behind_unread_data_is_noticed(world: RealWorld) -> None:
    server = Server(world, STREAM)
    sock, handler = server.dial()
    sock.sendall(bytes(600_000))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()
    world.run_until(lambda: bool(handler.closed))
    assert isinstance(handler.closed[0], ConnectionResetError)


def test_without_free_descriptors_accepting_waits_and_does_not_spin(
    world: RealWorld, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(world)
    sock = socket.socket()
    server.socks.append(sock)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    def complaints() -> int:
        return sum(each.levelno == logging.ERROR for each in caplog.records)

    def has_complained() -> bool:
        if not sock_connected:
            lowest_free = os.dup(0)
            os.close(lowest_free)
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
            sock.connect(server.listener.address)
            sock_connected.append(True)
        return complaints() > 0

    sock_connected: list[bool] = []
    try:
        world.run_until(has_complained)
        end = time.monotonic() + 0.35
        world.run_until(lambda: time.monotonic() > end)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    # Ten a second, and not thousands.
    assert 1 <= complaints() <= 20
    assert server.handlers == []
    world.run_until(lambda: len(server.handlers) == 1)


def test_names_are_resolved_off_the_loop(world: RealWorld) -> None:
    server = Server(world)
    address = Address("localhost", server.listener.address.port)
    client = Recorder()
    world.env.network.connect(address, STREAM, client, client.failed.append)
    world.run_until(lambda: client.connection is not None)
    lost = Recorder()
    nowhere = Address("no-such-host.invalid", 1)
    world.env.network.connect(nowhere, STREAM, lost, lost.failed.append)
    world.run_until(lambda: bool(lost.failed), 60_000)
    assert isinstance(lost.failed[0], OSError)


def test_an_attempt_to_connect_ends_in_time(
    world: RealWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "CONNECT_MS_MAX", 200)
    # A listener whose backlog is full does not answer.
    deaf = socket.socket()
    deaf.bind(LOCAL)
    deaf.listen(0)
    clients = [Recorder() for _ in range(4)]
    for client in clients:
        address = Address(*deaf.getsockname())
        world.env.network.connect(address, STREAM, client, client.failed.append)
    world.run_until(lambda: any(client.failed for client in clients), 2_000)
    failed = next(client for client in clients if client.failed)
    assert isinstance(failed.failed[0], TimeoutError)
    deaf.close()


def test_nothing_leaks_descriptors(world: RealWorld) -> None:
    server = Server(world)

    def visit() -> None:
        file = world.env.disk.open("log", create=True)
        file.write_at(0, [bytes(200_000)])
        sock, handler = server.dial()
        handler.link.write([FileRange(file, 0, 200_000), FileRange(file, 0, 10)])
        file.close()
        world.env.disk.remove("log")
        received: list[bytes] = []
        thread = threading.Thread(target=read_slowly, args=(sock, 200_010, received))
        thread.start()
        world.run_until(lambda: not thread.is_alive())
        sock.close()
        world.run_until(lambda: bool(handler.closed))

    visit()
    world.settle()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        visit()
    world.settle()
    assert len(os.listdir("/proc/self/fd")) <= before
    assert world.doors.network.connection_count == 0
