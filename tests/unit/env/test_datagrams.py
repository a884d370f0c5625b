"""Datagrams, on the real machine and the simulated one."""

from typing import Any

import pytest

from kafkaesque.env.network import Address
from kafkaesque.runtime import datagrams, names
from tests.unit.env.worlds import RealWorld, SimWorld, World

LOCAL = Address("127.0.0.1", 0)
Got = list[tuple[Address, bytes]]


def test_a_datagram_comes_with_the_address_to_answer_to(world: World) -> None:
    network = world.env.network
    asked: Got = []
    answered: Got = []
    one = network.open_datagrams(LOCAL, lambda source, data: asked.append((source, data)))
    two = network.open_datagrams(LOCAL, lambda source, data: answered.append((source, data)))
    one_address, two_address = one.address, two.address
    assert one_address.port != two_address.port
    two.send(one_address, b"hello")
    world.run_until(lambda: bool(asked))
    assert asked == [(two_address, b"hello")]
    one.send(asked[0][0], b"\0" * 1_200)
    world.run_until(lambda: bool(answered))
    assert answered == [(one_address, b"\0" * 1_200)]


def test_what_is_closed_neither_sends_nor_receives(world: World) -> None:
    network = world.env.network
    got: Got = []
    one = network.open_datagrams(LOCAL, lambda source, data: got.append((source, data)))
    two = network.open_datagrams(LOCAL, lambda source, data: got.append((source, data)))
    address = one.address
    one.close()
    one.close()
    two.send(address, b"to nobody")
    one.send(two.address, b"from nobody")
    world.settle()
    assert got == []
    again = network.open_datagrams(address, lambda source, data: got.append((source, data)))
    two.send(address, b"here")
    world.run_until(lambda: bool(got))
    again.close()
    two.close()


def test_a_port_in_use_cannot_be_bound(world: World) -> None:
    taken = world.env.network.open_datagrams(LOCAL, lambda source, data: None)
    with pytest.raises(OSError, match="cannot listen on"):
        world.env.network.open_datagrams(taken.address, lambda source, data: None)
    taken.close()


def test_whatever_cannot_be_sent_is_lost_without_a_word(world: World) -> None:
    opened = world.env.network.open_datagrams(LOCAL, lambda source, data: None)
    for address in (
        Address("127.0.0.1", 70_000),
        Address("::1", 9),
        Address("no.such.host.invalid", 9),
        Address("nul\0", 9),
    ):
        opened.send(address, b"x")
    opened.send(opened.address, b"x" * 100_000)
    world.settle()
    opened.close()


def _resolver(monkeypatch: pytest.MonkeyPatch, found: list[Any]) -> list[str]:
    """Has names resolved to the last one found; returns the names that were looked up."""
    asked: list[str] = []

    def resolve(address: Address) -> list[names.Target]:
        asked.append(address.host)
        if not found:
            raise OSError("unknown")
        return list(found[-1:])

    monkeypatch.setattr(datagrams, "resolve", resolve)
    return asked


def test_names_are_looked_up_once_in_a_while_and_what_waits_is_sent_then(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(world, SimWorld):
        pytest.skip("simulated machines have no names but their own")
    got: Got = []
    one = world.env.network.open_datagrams(LOCAL, lambda source, data: got.append((source, data)))
    two = world.env.network.open_datagrams(LOCAL, lambda source, data: None)
    found: list[Any] = [(2, tuple(one.address))]
    asked = _resolver(monkeypatch, found)
    where = Address("broker-1", one.address.port)
    for number in range(datagrams.WAITING_MAX + 2):
        two.send(where, b"%d" % number)
    world.run_until(lambda: len(got) == datagrams.WAITING_MAX)
    assert got[0][1] == b"2"
    two.send(where, b"more")
    world.run_until(lambda: got[-1][1] == b"more")
    assert asked == ["broker-1"]
    monkeypatch.setattr(datagrams, "NAME_S_MAX", 0.0)
    found.clear()
    two.send(where, b"still")
    world.run_until(lambda: got[-1][1] == b"still")
    world.run_until(lambda: len(asked) == 2)
    one.close()
    two.close()


def test_a_paused_process_reads_what_its_socket_kept(tmp_path: Any) -> None:
    real = RealWorld(tmp_path / "data")
    got: Got = []
    one = real.env.network.open_datagrams(LOCAL, lambda source, data: got.append((source, data)))
    two = real.env.network.open_datagrams(LOCAL, lambda source, data: None)
    for number in range(300):
        two.send(one.address, b"%d" % number * 100)
    real.run_until(lambda: len(got) == 300)
    real.close()
