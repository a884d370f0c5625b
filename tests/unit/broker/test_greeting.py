"""Greetings between brokers: sealed with the cluster's secret, each believed once."""

from __future__ import annotations

import pytest

from kafkaesque.broker.peers import greeting
from kafkaesque.broker.peers.greeting import Greeter, explain
from kafkaesque.broker.peers.messages import (
    Denial,
    GreetingDenied,
    Hello,
    MalformedPeerFrame,
    SectionKind,
    read_denial,
    read_sections,
    write_denial,
)
from kafkaesque.env.network import Address
from kafkaesque.membership.seal import Keyring
from kafkaesque.model.ids import NodeId

SECRET, OTHER = b"the secret of this cluster", b"the secret of another one"
ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


class Life:
    """A process's number, which a test sets."""

    number = 1_000

    def __call__(self) -> int:
        return self.number


def greeter(
    node: NodeId,
    secrets: tuple[bytes, ...] = (SECRET,),
    cluster_id: str = "cluster",
    life: Life | None = None,
) -> Greeter:
    return Greeter(
        node=node,
        cluster_id=cluster_id,
        incarnation=100 + node,
        advertised=Address(f"b{node}", 9190),
        secrets=secrets,
        life=life or Life(),
    )


def section(sender: Greeter, to: NodeId) -> tuple[SectionKind, memoryview]:
    ((kind, body),) = read_sections(b"".join(bytes(part) for part in sender.write(to)))
    return kind, body


def read(receiver: Greeter, one: tuple[SectionKind, memoryview]) -> Hello:
    return receiver.read(*one)


def denial_of(receiver: Greeter, one: tuple[SectionKind, memoryview]) -> Denial:
    with pytest.raises(GreetingDenied) as denied:
        read(receiver, one)
    return denied.value.denial


@pytest.mark.parametrize("secrets", [(), (SECRET,)], ids=["plain", "sealed"])
def test_a_greeting_says_who_greets(secrets: tuple[bytes, ...]) -> None:
    hello = read(greeter(TWO, secrets), section(greeter(ONE, secrets), TWO))
    assert (hello.node, hello.incarnation, hello.host, hello.port) == (1, 101, "b1", 9190)


@pytest.mark.parametrize("secrets", [(), (SECRET,)], ids=["plain", "sealed"])
def test_broker_zero_greets_and_is_greeted_and_a_question_is_not_for_it(
    secrets: tuple[bytes, ...],
) -> None:
    zero, one = greeter(NodeId(0), secrets), greeter(ONE, secrets)
    assert read(one, section(zero, ONE)).node == 0
    assert read(zero, section(one, NodeId(0))).node == ONE
    ((kind, body),) = read_sections(b"".join(bytes(part) for part in one.write_claim()))
    assert zero.read_claim(kind, body).node == ONE
    with pytest.raises(MalformedPeerFrame, match="it looks for broker -1, not 0"):
        zero.read(SectionKind.SEALED_HELLO if secrets else SectionKind.HELLO, body)
    with pytest.raises(MalformedPeerFrame, match="a question to somebody else"):
        greeter(TWO, secrets).read_claim(kind, section(one, NodeId(0))[1])


def test_a_recorded_greeting_is_not_believed_again_nor_an_older_one() -> None:
    life = Life()
    sender, receiver = greeter(ONE, life=life), greeter(TWO)
    first, second = section(sender, TWO), section(sender, TWO)
    read(receiver, second)
    assert denial_of(receiver, second) is Denial.OUTDATED
    assert denial_of(receiver, first) is Denial.OUTDATED
    life.number += 1
    read(receiver, section(greeter(ONE, life=life), TWO))
    life.number -= 1
    assert denial_of(receiver, section(sender, TWO)) is Denial.OUTDATED


def test_a_greeting_for_one_broker_is_none_for_another() -> None:
    with pytest.raises(MalformedPeerFrame, match="it looks for broker 2, not 3"):
        read(greeter(THREE), section(greeter(ONE), TWO))


@pytest.mark.parametrize(
    ("sender", "receiver", "denial"),
    [
        (greeter(ONE, (OTHER,)), (SECRET,), Denial.OTHER_SECRET),
        (greeter(ONE, ()), (SECRET,), Denial.SECRET_WANTED),
        (greeter(ONE), (), Denial.NO_SECRET),
        (greeter(ONE, (), "elsewhere"), (), Denial.OTHER_CLUSTER),
        (greeter(ONE, (SECRET,), "elsewhere"), (SECRET,), Denial.OTHER_CLUSTER),
        (greeter(ONE, (), "elsewhere"), (SECRET,), Denial.OTHER_CLUSTER),
    ],
)
def test_strangers(sender: Greeter, receiver: tuple[bytes, ...], denial: Denial) -> None:
    found = denial_of(greeter(TWO, receiver), section(sender, TWO))
    assert found is denial
    assert read_denial(b"".join(bytes(part) for part in write_denial(found))) is denial


def test_what_is_signed_for_gossip_is_no_greeting() -> None:
    kind, body = section(greeter(ONE), TWO)
    packet = Keyring("cluster", [SECRET], b"greeting").open(bytes(body)).packet
    frame = Keyring("cluster", [SECRET]).seal(ONE, TWO, 5_000, 1, packet)
    assert denial_of(greeter(TWO), (kind, memoryview(frame))) is Denial.OTHER_SECRET


def test_a_member_cannot_greet_in_anothers_name() -> None:
    kind, body = section(greeter(ONE), TWO)
    ring = Keyring("cluster", [SECRET], b"greeting")
    frame = ring.seal(THREE, TWO, 5_000, 1, ring.open(bytes(body)).packet)
    with pytest.raises(MalformedPeerFrame, match="whose seal is another's"):
        read(greeter(TWO), (kind, memoryview(frame)))


@pytest.mark.parametrize("at", [0, 10, 30, 60, -1])
def test_a_changed_byte_is_noticed(at: int) -> None:
    kind, body = section(greeter(ONE), TWO)
    frame = bytearray(body)
    frame[at] ^= 1
    with pytest.raises(MalformedPeerFrame):
        read(greeter(TWO), (kind, memoryview(frame)))


def test_what_is_remembered_of_senders_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(greeting, "SENDERS_MAX", 2)
    receiver = greeter(TWO)
    for node in (1, 3, 4, 5):
        read(receiver, section(greeter(NodeId(node)), TWO))
    assert len(receiver._last) == 2


def test_each_denial_has_a_sentence() -> None:
    assert len({explain(denial) for denial in Denial}) == len(Denial)


@pytest.mark.parametrize(
    "frame", [b"", b"\x08\0\0\0\x01\x63", b"\x08\0\0\0\x01\xc0", b"\x02\0\0\0\0"]
)
def test_what_is_no_denial(frame: bytes) -> None:
    with pytest.raises(MalformedPeerFrame):
        read_denial(frame)


def test_gossip_is_told_of_lives_that_greeted_and_of_no_other() -> None:
    """It tells one that falls back, with its clock, and would be refused here until it is later."""
    told: list[tuple[int, int]] = []
    receiver = Greeter(
        node=TWO,
        cluster_id="cluster",
        incarnation=102,
        advertised=Address("b2", 9190),
        secrets=(SECRET,),
        on_life=lambda node, life: told.append((node, life)),
    )
    life = Life()
    read(receiver, section(greeter(ONE, life=life), TWO))
    life.number = 500
    assert denial_of(receiver, section(greeter(ONE, life=life), TWO)) is Denial.OUTDATED
    assert denial_of(receiver, section(greeter(THREE, (OTHER,)), TWO)) is Denial.OTHER_SECRET
    assert told == [(1, 1_000)]
