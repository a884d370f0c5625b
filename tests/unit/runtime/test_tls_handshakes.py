"""Who does not get in by TLS, and what those cost who try."""

from __future__ import annotations

import datetime as dt
import logging
import resource
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from kafkaesque.env.network import Address, Framing, ListenOptions
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.runtime import tls_handshakes
from kafkaesque.server.certificates import load_tls
from kafkaesque.server.tls_settings import ClientAuth
from tests.certificates import CLUSTER_ID, TestAuthority
from tests.unit.env.worlds import RealWorld, Recorder
from tests.unit.runtime.test_tls_connection import LOCAL, Server, frame

DAY = dt.timedelta(days=1)


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    """Another authority for a cluster of the same name."""
    return TestAuthority(tmp_path_factory.mktemp("other") / "ca")


def client_hello(authority: TestAuthority) -> bytes:
    outgoing = ssl.MemoryBIO()
    tls = authority.client().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def read_all(world: RealWorld, sock: socket.socket) -> bytes:
    """Read until the other end hangs up, however it does."""
    received = bytearray()

    def read() -> None:
        try:
            while data := sock.recv(65_536):
                received.extend(data)
        except OSError:
            pass

    thread = threading.Thread(target=read)
    thread.start()
    world.run_until(lambda: not thread.is_alive())
    return bytes(received)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "it speaks HTTP and not TLS"),
        (b"POST /topics HTTP/1.1\r\n", "it speaks HTTP and not TLS"),
        (b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff", "it does not speak TLS"),
        (b"PUB topic hello\r\n", "it does not speak TLS"),
        (bytes(range(256)) * 300, "it does not speak TLS"),
        (b"\x16\x03\x01\x40\x00" + b"\x01\x00\xff\xff" + bytes(16_380), None),
        (b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", None),
        (b"\x15\x03\x01\x00\x02\x02\x28", None),
    ],
    ids=["get", "post", "kafka", "text", "noise", "long", "short", "alert"],
)
def test_what_is_no_greeting_is_refused_and_reaches_no_handler(
    world: RealWorld,
    authority: TestAuthority,
    caplog: pytest.LogCaptureFixture,
    data: bytes,
    reason: str | None,
) -> None:
    server = Server(world, authority)
    sock = server.connect()
    sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)
    with caplog.at_level(logging.WARNING):
        read_all(world, sock)
    assert server.handlers == []
    assert world.doors.network.connection_count == 0
    assert "no TLS connection" in caplog.text
    assert reason is None or reason in caplog.text


def test_a_handshake_is_bounded_in_bytes(
    world: RealWorld, authority: TestAuthority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A chain of certificates that OpenSSL would take."""
    server = Server(world, authority, client_auth=ClientAuth.REQUIRED)
    chain = tmp_path / "chain.pem"
    own, ca = authority.certificate("app").read_bytes(), authority.ca.read_bytes()
    for count, told in ((20, ""), (180, "more than 65536 bytes")):
        chain.write_bytes(own + ca * count)
        context = authority.client()
        context.load_cert_chain(chain, authority.key("app"))
        before = len(server.handlers)
        if told:
            refused_by_server(world, server, context)
        else:
            server.dial(context)
        assert len(server.handlers) == before + (not told)
        assert told in caplog.text


def test_a_handshake_is_bounded_in_time_whatever_trickles_in(
    world: RealWorld, authority: TestAuthority, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr(tls_handshakes, "HANDSHAKE_MS_MAX", 300)
    server = Server(world, authority)
    silent, slow = server.connect(), server.connect()
    hello = client_hello(authority)
    world.settle()
    assert world.doors.network.connection_count == 2
    at = 0
    while world.doors.network.connection_count and at < len(hello) - 1:
        try:
            slow.sendall(hello[at : at + 1])
        except OSError:
            break
        at += 1
        world.settle_turns(2)
    world.run_until(lambda: world.doors.network.connection_count == 0, 5_000)
    for sock in (silent, slow):
        assert read_all(world, sock) == b""
    assert "has not ended within 300 ms" in caplog.text
    client, handler = server.dial()
    client.sock.sendall(client.seal(frame(b"x")))
    world.run_until(lambda: handler.pieces == [b"x"])
    # No limit of a handshake's is a connection's.
    world.run_until(lambda: True)
    world.loop.run_until_complete(_sleep(0.4))
    assert handler.closed == []


async def _sleep(seconds: float) -> None:
    import asyncio

    await asyncio.sleep(seconds)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_a_flood_of_half_handshakes_is_bounded_and_others_go_on(
    world: RealWorld,
    authority: TestAuthority,
    many_descriptors: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # On a busy machine the flood takes longer than a handshake may, and the first would be gone.
    monkeypatch.setattr(tls_handshakes, "HANDSHAKE_MS_MAX", 300_000)
    server = Server(world, authority)
    good, handler = server.dial()
    handler.on_piece = lambda piece: handler.link.write([piece])
    hello = client_hello(authority)
    before = resident_bytes()
    count = 1_800
    for number in range(count):
        server.connect().sendall(hello)
        if number % 300 == 299:
            world.settle_turns(20)
            good.sock.sendall(good.seal(frame(b"%d" % number)))
            wanted = len(good.received) + len(b"%d" % number)
            assert good.read_until(wanted).endswith(b"%d" % number)
    begun = world.doors.network.handshakes._begun
    world.run_until(
        lambda: (
            len(world.doors.network.handshakes._ready) == 0
            and world.doors.network.connection_count <= tls_handshakes.BEGUN_MAX + 1
        )
    )
    assert len(begun) == tls_handshakes.BEGUN_MAX
    assert resident_bytes() - before < tls_handshakes.BEGUN_MAX * 60_000
    # One that comes now is let in, however many stand half-open.
    late, late_handler = server.dial()
    late.sock.sendall(late.seal(frame(b"late")))
    world.run_until(lambda: late_handler.pieces == [b"late"])


def test_where_a_listener_has_no_room_the_oldest_half_handshake_goes(
    world: RealWorld, authority: TestAuthority
) -> None:
    """Silent strangers keep nobody out, as long as they are strangers."""
    refused: list[None] = []
    options = ListenOptions(
        framing=Framing.LENGTH_PREFIXED,
        tls="tls",
        connections_max=10,
        on_refused=lambda: refused.append(None),
    )
    server = Server(world, authority, options)
    silent = [server.connect() for _ in range(30)]
    world.run_until(lambda: world.doors.network.connection_count == 10)
    for _ in range(10):
        client, handler = server.dial()
        client.sock.sendall(client.seal(frame(b"x")))
        world.run_until(lambda: handler.pieces == [b"x"])  # noqa: B023
    assert refused == []
    assert world.doors.network.connection_count == 10
    # Those who are in stay in, and now there is no room.
    late = server.connect()
    world.run_until(lambda: len(refused) == 1)
    assert read_all(world, late) == b""
    for sock in silent:
        assert read_all(world, sock) == b""


def test_where_it_is_optional_both_come_in(world: RealWorld, authority: TestAuthority) -> None:
    options = ListenOptions(framing=Framing.LENGTH_PREFIXED, tls="tls", is_tls_optional=True)
    server = Server(world, authority, options, client_auth=ClientAuth.REQUIRED)
    clear = server.connect()
    clear.sendall(frame(b"in the clear"))
    world.run_until(lambda: bool(server.handlers) and bool(server.handlers[0].pieces))
    assert server.handlers[0].pieces == [b"in the clear"]
    assert server.handlers[0].link.peer_certificate() is None
    client, handler = server.dial(authority.client("app"))
    client.sock.sendall(client.seal(frame(b"x")))
    world.run_until(lambda: handler.pieces == [b"x"])
    assert handler.link.peer_certificate() is not None
    # To begin with TLS and show nothing is not to come in the clear.
    count = len(server.handlers)
    refused_by_server(world, server, authority.client())
    silent = server.connect()
    silent.close()
    world.run_until(lambda: world.doors.network.connection_count == 2)
    assert len(server.handlers) == count


def test_who_speaks_tls_where_nobody_does_is_told_of(
    world: RealWorld, authority: TestAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    plain = ListenOptions(framing=Framing.LENGTH_PREFIXED)
    listener = world.env.network.listen(LOCAL, plain, Recorder)
    with socket.create_connection(listener.address) as sock:
        sock.sendall(client_hello(authority))
        read_all(world, sock)
    assert "TLS begins like this, and this port speaks in the clear" in caplog.text


def test_a_turn_goes_on_with_handshakes_for_a_bounded_time(
    world: RealWorld, authority: TestAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_handshakes, "TURN_NS_MAX", 0)
    server = Server(world, authority)
    hello = client_hello(authority)
    socks = [server.connect() for _ in range(30)]
    world.settle()
    for sock in socks:
        sock.sendall(hello)
    handshakes = world.doors.network.handshakes
    steps: list[int] = []
    go_on = tls_handshakes.Handshakes._go_on

    def counted(self: tls_handshakes.Handshakes) -> None:
        before = len(self._begun)
        go_on(self)
        steps.append(len(self._begun) - before)

    monkeypatch.setattr(tls_handshakes.Handshakes, "_go_on", counted)
    world.run_until(lambda: len(handshakes._begun) == 30)
    assert steps == [1] * 30


def refused_by_server(
    world: RealWorld, server: Server, context: ssl.SSLContext
) -> ssl.SSLError | OSError:
    """Return what a client is told that tries to come in and send something."""
    failed: list[OSError] = []

    def come_in() -> None:
        try:
            with (
                socket.create_connection(server.address) as sock,
                context.wrap_socket(sock, server_hostname="127.0.0.1") as tls,
            ):
                tls.sendall(frame(b"let me in"))
                if not tls.recv(1):
                    failed.append(ConnectionResetError("hung up"))
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=come_in)
    thread.start()
    world.run_until(lambda: not thread.is_alive())
    (error,) = failed
    return error


Refused = Callable[[TestAuthority, TestAuthority], ssl.SSLContext]


def _none(own: TestAuthority, other: TestAuthority) -> ssl.SSLContext:
    return own.client()


def _other_ca(own: TestAuthority, other: TestAuthority) -> ssl.SSLContext:
    context = own.client()
    context.load_cert_chain(other.certificate("app"), other.key("app"))
    return context


def _expired(own: TestAuthority, other: TestAuthority) -> ssl.SSLContext:
    own.forge("expired", uris=(f"kafkaesque://{CLUSTER_ID}/user/app",), lasts=-DAY)
    return own.client("expired")


def _server_only(own: TestAuthority, other: TestAuthority) -> ssl.SSLContext:
    own.forge("server-only", hosts=("localhost",), purposes=(ExtendedKeyUsageOID.SERVER_AUTH,))
    return own.client("server-only")


def _self_signed(own: TestAuthority, other: TestAuthority) -> ssl.SSLContext:
    context = own.client()
    context.load_cert_chain(other.ca, other.directory / "ca.key")
    return context


@pytest.mark.parametrize(
    ("make", "told", "logged"),
    [
        (_none, "CERTIFICATE_REQUIRED", "it shows no certificate"),
        (_other_ca, "UNKNOWN_CA|DECRYPT_ERROR|UNKNOWN", "its certificate is refused"),
        (_expired, "EXPIRED", "has expired"),
        (_server_only, "UNSUPPORTED_CERTIFICATE|CERTIFICATE", "purpose"),
        (_self_signed, "UNKNOWN_CA|CERTIFICATE", "its certificate is refused"),
    ],
    ids=["none", "other ca", "expired", "server only", "self signed"],
)
def test_clients_whose_certificate_does_not_count_are_told_so_and_stay_out(
    world: RealWorld,
    authority: TestAuthority,
    other: TestAuthority,
    caplog: pytest.LogCaptureFixture,
    make: Refused,
    told: str,
    logged: str,
) -> None:
    import re

    server = Server(world, authority, client_auth=ClientAuth.REQUIRED)
    error = refused_by_server(world, server, make(authority, other))
    assert re.search(told, str(error)) or isinstance(error, ConnectionResetError), error
    world.run_until(lambda: world.doors.network.connection_count == 0)
    assert server.handlers == []
    assert logged in caplog.text


@pytest.mark.parametrize("auth", [ClientAuth.OPTIONAL, ClientAuth.REQUIRED])
def test_a_certificate_that_counts_names_its_client(
    world: RealWorld, authority: TestAuthority, auth: ClientAuth
) -> None:
    server = Server(world, authority, client_auth=auth)
    _, handler = server.dial(authority.client("app"))
    found = handler.link.peer_certificate()
    assert found is not None
    assert found.subject == "CN=app"
    assert found.issuer == f"CN=Kafkaesque CA,O={CLUSTER_ID}"
    assert found.uris == (f"kafkaesque://{CLUSTER_ID}/user/app",)
    issued = [each for each in authority.authority.issued() if each.name == "app"]
    assert found.serial in [each.serial for each in issued]
    if auth is ClientAuth.OPTIONAL:
        _, handler = server.dial()
        assert handler.link.peer_certificate() is None


@pytest.mark.parametrize("auth", [ClientAuth.OPTIONAL])
def test_a_certificate_that_does_not_count_is_refused_where_none_would_do(
    world: RealWorld, authority: TestAuthority, other: TestAuthority, auth: ClientAuth
) -> None:
    server = Server(world, authority, client_auth=auth)
    refused_by_server(world, server, _other_ca(authority, other))
    assert server.handlers == []


def test_names_with_special_characters_come_escaped(
    world: RealWorld, authority: TestAuthority
) -> None:
    authority.forge("evil", common_name='admin,O=Example+CN="x"\\<>; ', hosts=("a.example",))
    server = Server(world, authority, client_auth=ClientAuth.REQUIRED)
    _, handler = server.dial(authority.client("evil"))
    found = handler.link.peer_certificate()
    assert found is not None
    assert found.subject == 'CN=admin\\,O=Example\\+CN=\\"x\\"\\\\\\<\\>\\;\\ '
    assert found.common_names == ('admin,O=Example+CN="x"\\<>; ',)
    assert (found.uris, found.dns_names) == ((), ("a.example",))


def test_a_connection_ends_when_its_certificate_does(
    world: RealWorld, authority: TestAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    authority.forge("brief", lasts=dt.timedelta(seconds=3))
    server = Server(world, authority, client_auth=ClientAuth.OPTIONAL)
    with caplog.at_level(logging.INFO):
        client, handler = server.dial(authority.client("brief"))
        _, stays = server.dial(authority.client("app"))
        _, nameless = server.dial()
        assert handler.closed == []
        while not client.is_ended:
            client.read()
    client.sock.close()
    world.run_until(lambda: bool(handler.closed))
    assert "its certificate has expired" in caplog.text
    assert stays.closed == nameless.closed == []


def test_revoking_a_certificate_closes_its_connections_and_lets_it_in_no_more(
    world: RealWorld, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = TestAuthority(tmp_path / "own")
    authority.authority.issue_user("guest")
    crl = authority.directory / "crl.pem"
    server = Server(world, authority, client_auth=ClientAuth.OPTIONAL)
    _, guest = server.dial(authority.client("guest"))
    _, app = server.dial(authority.client("app"))
    context = authority.client("guest")
    authority.authority.revoke("guest")
    loaded = load_tls(authority.settings(client_auth=ClientAuth.OPTIONAL, crl=crl))
    world.doors.network.use_tls("tls", loaded.context)
    world.run_until(lambda: bool(guest.closed))
    count = len(server.handlers)
    refused_by_server(world, server, context)
    world.run_until(lambda: world.doors.network.connection_count == 1)
    assert len(server.handlers) == count
    assert app.closed == []
    assert "(CN=guest) is revoked" in caplog.text


def s_client(server: Server, *options: str) -> tuple[int, str]:
    host, port = server.address
    command = ["openssl", "s_client", "-connect", f"{host}:{port}", *options]
    done: list[subprocess.CompletedProcess[str]] = []

    def run() -> None:
        done.append(
            subprocess.run(
                command, input="R\n", capture_output=True, text=True, timeout=60, check=False
            )
        )

    thread = threading.Thread(target=run)
    thread.start()
    server.world.run_until(lambda: not thread.is_alive())
    return done[0].returncode, done[0].stdout + done[0].stderr


@pytest.mark.parametrize(
    ("options", "protocol"),
    [
        (("-tls1_3",), "TLSv1.3"),
        (("-tls1_2",), "TLSv1.2"),
        ((), "TLSv1.3"),
        (("-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"), None),
        (("-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA"), None),
    ],
)
def test_openssl_speaks_1_3_and_1_2_with_the_broker_and_nothing_older(
    world: RealWorld, authority: TestAuthority, options: tuple[str, ...], protocol: str | None
) -> None:
    server = Server(world, authority, ListenOptions(framing=Framing.STREAM, tls="tls"))
    options = (*options, "-CAfile", str(authority.ca), "-verify_return_error")
    status, printed = s_client(server, *options)
    if protocol is None:
        assert status != 0
        assert server.handlers == []
    else:
        assert f"New, {protocol}, Cipher is" in printed, printed
        assert "Verification: OK" in printed


def test_nothing_is_negotiated_anew(world: RealWorld, authority: TestAuthority) -> None:
    """`R` on s_client's input asks for it."""
    server = Server(world, authority, ListenOptions(framing=Framing.STREAM, tls="tls"))
    _, printed = s_client(server, "-tls1_2", "-CAfile", str(authority.ca))
    assert "RENEGOTIATING" in printed
    assert "no renegotiation" in printed.lower()


@pytest.mark.parametrize("version", ["-tls1_3", "-tls1_2"])
def test_no_session_is_resumed(
    world: RealWorld, authority: TestAuthority, tmp_path: Path, version: str
) -> None:
    server = Server(world, authority, ListenOptions(framing=Framing.STREAM, tls="tls"))
    session = tmp_path / "session"
    _, printed = s_client(server, version, "-sess_out", str(session))
    assert "New, TLS" in printed
    if session.exists() and session.stat().st_size:
        _, printed = s_client(server, version, "-sess_in", str(session))
    assert "Reused" not in printed


def test_dialling_checks_the_other_end_and_tells_why_not(
    world: RealWorld, authority: TestAuthority, other: TestAuthority
) -> None:
    peers = ListenOptions(framing=Framing.LENGTH_PREFIXED, tls="peers")
    uri = f"kafkaesque://{CLUSTER_ID}/broker/1"
    network = world.doors.network
    network.use_tls("peers", authority.context(ClientAuth.REQUIRED, uri=uri))
    server = Server(world, authority, client_auth=ClientAuth.REQUIRED)
    client = Recorder()
    world.env.network.connect(server.address, peers, client, client.failed.append)
    world.run_until(lambda: bool(server.handlers and server.handlers[0].connection))
    world.run_until(lambda: client.connection is not None)
    for end in (client, server.handlers[0]):
        found = end.link.peer_certificate()
        assert found is not None
        assert found.uris == (uri,)
    client.link.write([frame(b"hello")])
    world.run_until(lambda: server.handlers[0].pieces == [b"hello"])

    network.use_tls("peers", other.context(ClientAuth.REQUIRED, uri=uri))
    stranger = Recorder()
    world.env.network.connect(server.address, peers, stranger, stranger.failed.append)
    world.run_until(lambda: bool(stranger.failed))
    assert "its certificate is refused" in str(stranger.failed[0])
    assert stranger.connection is None


def test_dialling_what_speaks_no_tls_fails(world: RealWorld, authority: TestAuthority) -> None:
    uri = f"kafkaesque://{CLUSTER_ID}/broker/1"
    world.doors.network.use_tls("peers", authority.context(ClientAuth.REQUIRED, uri=uri))
    plain = ListenOptions(framing=Framing.LENGTH_PREFIXED)
    handlers: list[Recorder] = []

    def accept() -> Recorder:
        handlers.append(Recorder())
        return handlers[-1]

    listener = world.env.network.listen(LOCAL, plain, accept)
    client = Recorder()
    options = ListenOptions(framing=Framing.LENGTH_PREFIXED, tls="peers")
    world.env.network.connect(listener.address, options, client, client.failed.append)
    world.run_until(lambda: bool(client.failed))
    assert "hung up" in str(client.failed[0]) or "reset" in str(client.failed[0]).lower()
    assert handlers[0].pieces == []


def test_a_name_that_is_not_known_is_a_defect_of_ours(world: RealWorld) -> None:
    options = ListenOptions(framing=Framing.STREAM, tls="no such")
    with pytest.raises(InvariantBroken, match="no such"):
        world.env.network.listen(LOCAL, options, Recorder)
    with pytest.raises(InvariantBroken, match="no such"):
        world.env.network.connect(Address("127.0.0.1", 1), options, Recorder(), lambda _: None)
