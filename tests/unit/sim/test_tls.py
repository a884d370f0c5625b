"""In the simulator the identity at the other end is a value that the dialling side gives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkaesque.env.certificate import PeerCertificate
from kafkaesque.env.network import Address, Framing, ListenOptions
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.sim.env import World
from kafkaesque.sim.tls import SimTls
from tests.unit.env.worlds import Recorder

TLS = ListenOptions(framing=Framing.STREAM, tls="peers")
CLEAR = ListenOptions(framing=Framing.STREAM)


def certificate(name: str, issuer: str = "CN=ca") -> PeerCertificate:
    return PeerCertificate(subject=f"CN={name}", issuer=issuer, serial=1, not_after_ms=2**60)


def shows(name: str | None, trusts: str = "CN=ca", issuer: str = "CN=ca") -> SimTls:
    shown = None if name is None else certificate(name, issuer)
    return SimTls(certificate=shown, trusted=frozenset([trusts]))


def connect(
    alpha: SimTls | None, beta: SimTls | None
) -> tuple[Recorder, list[Recorder]]:  # fmt: skip
    world = World(7)
    envs = []
    for name, tls in (("alpha", alpha), ("beta", beta)):
        machine = world.add_machine(name, lambda error: None)
        envs.append(machine.boot())
        if tls is not None:
            machine.host.tls["peers"] = tls
    servers: list[Recorder] = []

    def accept() -> Recorder:
        servers.append(Recorder())
        return servers[-1]

    envs[1].network.listen(Address("beta", 9), TLS if beta else CLEAR, accept)
    client = Recorder()
    options = TLS if alpha else CLEAR
    envs[0].network.connect(Address("beta", 9), options, client, client.failed.append)
    world.loop.run_until(lambda: bool(client.failed or client.connection), 5_000)
    world.loop.run_for(100)
    return client, servers


def test_each_side_sees_what_the_other_has_shown() -> None:
    client, (server,) = connect(shows("alpha"), shows("beta"))
    assert client.link.peer_certificate() == certificate("beta")
    assert server.link.peer_certificate() == certificate("alpha")


def test_in_the_clear_nobody_has_shown_anything() -> None:
    client, (server,) = connect(None, None)
    assert client.link.peer_certificate() is server.link.peer_certificate() is None


def test_a_client_without_a_certificate_comes_in_where_none_is_wanted() -> None:
    client, (server,) = connect(shows(None), replace(shows("beta"), wants_certificate=False))
    assert server.link.peer_certificate() is None
    assert client.link.peer_certificate() == certificate("beta")


@pytest.mark.parametrize(
    ("alpha", "beta"),
    [
        (shows("alpha"), None),
        (None, shows("beta")),
        (shows(None), shows("beta")),
        (shows("alpha", issuer="CN=other"), shows("beta")),
        (shows("alpha"), shows("beta", issuer="CN=other")),
    ],
    ids=["server in the clear", "client in the clear", "no certificate", "other ca", "impostor"],
)
def test_who_is_not_believed_does_not_get_in(alpha: SimTls | None, beta: SimTls | None) -> None:
    client, servers = connect(alpha, beta)
    assert len(client.failed) == 1
    assert servers == []


def test_a_name_that_is_not_known_is_a_defect_of_ours() -> None:
    env = World(7).add_machine("alpha", lambda error: None).boot()
    with pytest.raises(InvariantBroken, match="peers"):
        env.network.listen(Address("alpha", 9), TLS, Recorder)
