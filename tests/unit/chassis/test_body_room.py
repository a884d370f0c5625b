"""Memory for bodies: bounded over all connections, and who comes first has to go."""

from __future__ import annotations

from kafkaesque.chassis.body_room import (
    KNOWN_BYTES_MAX,
    STRANGERS_BYTES_MAX,
    BodyRoom,
    BodyRooms,
)
from kafkaesque.chassis.port_strangers import PortStrangers


class Connection:
    def __init__(self, peer_host: str = "10.0.0.1") -> None:
        self.peer_host = peer_host
        self.is_refused = False

    def refuse(self, reason: str) -> None:
        assert reason
        self.is_refused = True


def test_who_came_first_makes_place() -> None:
    room = BodyRoom(100)
    first, second, third = Connection(), Connection(), Connection()
    assert room.take(first, 60)
    assert room.take(second, 30)
    assert room.take(third, 50)
    assert [each.is_refused for each in (first, second, third)] == [True, False, False]
    assert room.held_bytes == 80
    room.release(first)
    room.release(second)
    room.release(third)
    assert room.held_bytes == 0


def test_who_is_answered_stays() -> None:
    room = BodyRoom(100)
    first, second = Connection(), Connection()
    assert room.take(first, 60)
    room.keep(first)
    assert not room.take(second, 50)
    assert room.take(second, 40)
    assert not first.is_refused


def test_nobody_makes_place_for_itself() -> None:
    room = BodyRoom(100)
    only = Connection()
    assert room.take(only, 90)
    assert not room.take(only, 20)
    assert not only.is_refused
    assert room.held_bytes == 90


def test_who_says_who_it_is_leaves_the_strangers() -> None:
    rooms, client = BodyRooms(), Connection()
    rooms.strangers.take(client, 10)
    rooms.let_in(client)
    assert (rooms.strangers.held_bytes, rooms.known.held_bytes) == (0, 10)
    rooms.known.release(client)
    assert rooms.known.held_bytes == 0


def test_who_finds_no_place_among_the_known_stays_counted() -> None:
    rooms, client, answered = BodyRooms(), Connection(), Connection()
    assert rooms.known.take(answered, KNOWN_BYTES_MAX)
    rooms.known.keep(answered)
    assert rooms.strangers.take(client, 10)
    assert rooms.let_in(client) is rooms.strangers
    assert (rooms.strangers.held_bytes, rooms.known.held_bytes) == (10, KNOWN_BYTES_MAX)
    rooms.known.release(answered)
    assert rooms.strangers.take(Connection(), STRANGERS_BYTES_MAX - 10)
    assert not client.is_refused


def test_the_address_with_most_strangers_has_to_give_way() -> None:
    strangers = PortStrangers(5)
    person = Connection("10.0.0.2")
    strangers.add(person)
    flood = [Connection() for _ in range(20)]
    for each in flood:
        strangers.add(each)
    assert not person.is_refused
    assert len(strangers) == 5
    assert [each.is_refused for each in flood] == [True] * 16 + [False] * 4
    for each in (*flood, person):
        strangers.remove(each)
    assert len(strangers) == 0


def test_one_network_is_one_address() -> None:
    strangers = PortStrangers(3)
    person = Connection("2001:db8:1::1")
    strangers.add(person)
    for number in range(10):
        strangers.add(Connection(f"2001:db8:2::{number}"))
    assert not person.is_refused
