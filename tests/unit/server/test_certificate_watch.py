"""Certificates change while the broker runs; what does not fit leaves the old one in use."""

from __future__ import annotations

import shutil
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaesque.env.network import Address, Framing, ListenOptions
from kafkaesque.server import certificate_watch
from kafkaesque.server.certificate_watch import CertificateWatch
from kafkaesque.server.certificates import load_all
from kafkaesque.server.tls_settings import ClientAuth, TlsSettings
from tests.certificates import TestAuthority
from tests.unit.env.worlds import RealWorld, Recorder


class Place:
    """A listener whose certificate, key and lists are files that a test changes."""

    def __init__(self, directory: Path, authority: TestAuthority) -> None:
        self.authority = authority
        self.world = RealWorld(directory / "data")
        self.files = directory / "tls"
        self.files.mkdir()
        self.put("broker-1")
        shutil.copy(authority.ca, self.files / "ca.pem")
        shutil.copy(authority.directory / "crl.pem", self.files / "crl.pem")
        self.settings = TlsSettings(
            name="tls",
            setting="TLS of the listener x",
            certificate=self.files / "own.pem",
            key=self.files / "own.key",
            ca=self.files / "ca.pem",
            crl=self.files / "crl.pem",
            client_auth=ClientAuth.OPTIONAL,
            hosts=("127.0.0.1",),
        )
        self.told: list[str] = []
        self.warned: list[str] = []
        self.complained: list[str] = []
        self.watch = CertificateWatch(
            settings=[self.settings],
            clock=self.world.env.clock,
            workers=self.world.doors.disk.readers,
            use=self.world.doors.network.use_tls,
            report=self.told.append,
            report_warning=self.warned.append,
            report_error=self.complained.append,
        )
        self.watch.start(load_all([self.settings]))
        options = ListenOptions(framing=Framing.STREAM, tls="tls")
        self.handlers: list[Recorder] = []
        listener = self.world.env.network.listen(Address("127.0.0.1", 0), options, self.accept)
        self.address = listener.address

    def accept(self) -> Recorder:
        self.handlers.append(Recorder())
        return self.handlers[-1]

    def put(self, name: str, source: TestAuthority | None = None) -> None:
        source = source or self.authority
        shutil.copy(source.certificate(name), self.files / "own.pem")
        shutil.copy(source.key(name), self.files / "own.key")

    def shown(self) -> int:
        """Return the serial number of what a client is shown now."""
        found: list[str] = []

        def ask() -> None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.authority.ca)
            import socket

            with (
                socket.create_connection(self.address) as sock,
                context.wrap_socket(sock) as tls,
            ):
                found.append(str((tls.getpeercert() or {})["serialNumber"]))

        thread = threading.Thread(target=ask)
        thread.start()
        self.world.run_until(lambda: not thread.is_alive())
        return int(found[0], 16)

    def newest(self, name: str) -> int:
        return [each for each in self.authority.authority.issued() if each.name == name][-1].serial


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(certificate_watch, "LOOK_MS", 20)
    made = Place(tmp_path, TestAuthority(tmp_path / "ca"))
    yield made
    made.watch.stop()
    made.world.settle()
    made.world.close()


def test_a_new_certificate_is_taken_by_itself(place: Place) -> None:
    before = place.shown()
    place.authority.authority.renew("broker-1")
    place.put("broker-1")
    place.world.run_until(lambda: bool(place.told))
    assert place.shown() == place.newest("broker-1") != before
    assert "read again" in place.told[0]
    assert "ends in 364 days" in place.told[0] or "ends in 365 days" in place.told[0]
    place.world.settle()
    assert (len(place.told), place.complained) == (1, [])


def test_nothing_is_loaded_while_nothing_changes_but_when_it_is_asked_for(place: Place) -> None:
    place.world.settle()
    place.world.settle()
    assert place.told == []
    # One that comes while files are looked at is done after that, once for all that came.
    place.watch.reload()
    place.world.run_until(lambda: len(place.told) == 1)
    place.watch.reload()
    place.world.run_until(lambda: len(place.told) == 2)


@pytest.mark.parametrize("fault", ["key", "chain", "name", "junk", "gone"])
def test_what_does_not_fit_is_reported_and_the_old_one_stays(
    place: Place, other: TestAuthority, fault: str
) -> None:
    before = place.shown()
    own = place.files / "own.pem"
    match fault:
        case "key":
            shutil.copy(place.authority.key("broker-2"), place.files / "own.key")
        case "chain":
            place.put("broker-1", other)
        case "name":
            place.authority.authority.issue_broker(9, ["elsewhere.example"])
            place.put("broker-9")
        case "junk":
            own.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        case "gone":
            own.unlink()
    place.world.run_until(lambda: bool(place.complained))
    assert place.shown() == before
    assert "TLS of the listener x" in place.complained[0]
    assert "what was in use before stays so" in place.complained[0]
    place.world.settle()
    assert len(place.complained) == 1  # Once, and not with every look.
    place.watch.reload()
    place.world.run_until(lambda: len(place.complained) == 2)
    assert place.shown() == before
    place.put("broker-2")
    place.world.run_until(lambda: bool(place.told))
    assert place.shown() == place.newest("broker-2")


def test_a_pair_of_which_a_half_is_written_is_waited_for(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The certificate is new at one look, the key at the next: both are loaded together."""
    place.watch.stop()
    watch = place.watch
    watch._is_busy = False
    shutil.copy(place.authority.certificate("broker-2"), place.files / "own.pem")
    watch._on_looked(certificate_watch._look([place.settings]), None)
    shutil.copy(place.authority.key("broker-2"), place.files / "own.key")
    watch._on_looked(certificate_watch._look([place.settings]), None)
    assert not watch._is_busy
    watch._on_looked(certificate_watch._look([place.settings]), None)
    place.world.run_until(lambda: bool(place.told))
    assert place.complained == []


def test_revoking_closes_the_connections_of_whom_it_names(place: Place) -> None:
    authority = place.authority
    context = authority.client("app")
    ended: list[bool] = []

    def stay() -> None:
        import socket

        with (
            socket.create_connection(place.address) as sock,
            context.wrap_socket(sock, server_hostname="127.0.0.1") as tls,
        ):
            try:
                ended.append(tls.recv(1) == b"")
            except OSError:
                ended.append(True)

    thread = threading.Thread(target=stay)
    thread.start()
    place.world.run_until(lambda: bool(place.handlers and place.handlers[0].connection))
    authority.authority.revoke("app")
    shutil.copy(authority.directory / "crl.pem", place.files / "crl.pem")
    place.world.run_until(lambda: not thread.is_alive())
    assert ended == [True]


def test_a_certificate_that_ends_soon_is_warned_of(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert place.warned == []
    place.authority.authority.issue_broker(1, ["127.0.0.1"], days=10)
    place.put("broker-1")
    place.world.run_until(lambda: bool(place.warned))
    assert "ends in 9 days" in place.warned[0] or "ends in 10 days" in place.warned[0]
    place.world.settle()
    assert len(place.warned) == 1
