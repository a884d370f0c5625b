"""The text port and people who do not mean well: one line says what was wrong, and it goes on."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator

import pytest

from tests.clients.bad_input import MIB, Victim, Wire
from tests.waiting import eventually

LINE_BYTES_MAX = MIB
CONNECTIONS_MAX = 1_000


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    with Victim() as made:
        yield made


@pytest.fixture(scope="module")
def topic(victim: Victim) -> str:
    return victim.make_topic(2, max_message_bytes="4000000")


@pytest.fixture
def growth_bytes_max() -> int:
    """How much larger the broker may be after a test."""
    return 24 * MIB


@pytest.fixture(autouse=True)
def others_notice_nothing(victim: Victim, growth_bytes_max: int) -> Iterator[None]:
    with victim.watched(growth_bytes_max=growth_bytes_max):
        yield


@pytest.fixture
def person(victim: Victim) -> Iterator[Person]:
    with Person(victim) as made:
        yield made


class Person(Wire):
    """A connection to the text port."""

    def __init__(self, victim: Victim, *, receive_bytes: int = 0) -> None:
        super().__init__(victim.text_port, receive_bytes=receive_bytes)
        self._rest = b""

    def line(self) -> str:
        """Return the next line that the broker says."""
        while b"\n" not in self._rest:
            part = self.socket.recv(65536)
            if not part:
                raise ConnectionError("the broker closed the connection")
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode().rstrip("\r")

    def last_line(self, command: bytes | str) -> str:
        """Send a line and return the last one of the answer."""
        self.send((command.encode() if isinstance(command, str) else command) + b"\r\n")
        while True:
            line = self.line()
            if line.startswith(("OK", "ERROR")):
                return line

    def is_served(self) -> bool:
        return self.last_line("TOPICS").startswith("OK")


def test_a_line_without_an_end(person: Person) -> None:
    for _ in range(20):
        person.send(b"x" * MIB)
    assert person.line().startswith("ERROR a line has at most")
    # What is still to come of it is dropped; the next line is a line again.
    person.send(b"yyyy\r\n")
    assert person.is_served()


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
def test_lines_just_as_long_as_they_may_be(person: Person, topic: str, ending: bytes) -> None:
    room = LINE_BYTES_MAX - len(f"PUBS {topic} ")
    person.send(f"PUBS {topic} ".encode() + b"x" * (room + 1) + ending)
    assert person.line().startswith("ERROR a line has at most")
    person.send(f"PUBS {topic} ".encode() + b"x" * room + ending)
    assert person.line().startswith("OK")


def test_binary_rubbish(victim: Victim) -> None:
    dice = random.Random(7)
    for _ in range(30):
        with Person(victim) as person:
            # Ctrl-D and telnet's end of file would end it, as they should.
            rubbish = dice.randbytes(5000).replace(b"\x04", b"x").replace(b"\xff", b"y")
            person.send(rubbish + b"\r\n")
            lines = [line for line in rubbish.split(b"\n") if line.strip(b"\r \t\x0b\x0c")]
            for line in lines:
                # Lines of nothing but what Python calls white space are empty lines.
                if line.decode(errors="replace").split():
                    assert person.line().startswith("ERROR"), line
            assert person.is_served()


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe\xfd",
        b"\xc3\x28",
        b"\0\0\0",
        b"GETS / HTTP/1.1",
        b"PUBS",
        b"PUBS a/b text",
        b"PUBS . text",
        b"PUBS " + b"x" * 300 + b" text",
        b"SUBS",
        b"SUBS topic-2 g 5-1",
        b"SUBS topic-2 g 0-999999999",
        b"SUBS topic-2 g -1",
        b"SUBS topic-2 g 1,x",
        b"SUBS topic-2 g " + b"1," * 100_000,
        b"SUBS topic-2 " + b"g" * 1000,
        b"CONS topic-2 nobody next",
        b"CONS topic-2 g/all/000000 next",
        b"CONS topic-2 g/all/000000 " + b"9" * 100_000,
        b"CONS topic-2 g/all/000000 " + b"0:1," * 100_000,
        b"x" * 500_000,
        b"a " * 250_000,
    ],
    ids=lambda line: f"{line[:24]!r} ({len(line)})",
)
def test_lines_that_make_no_sense(person: Person, topic: str, line: bytes) -> None:
    assert topic == "topic-2"
    answer = person.last_line(line)
    assert answer.startswith("ERROR")
    assert len(answer) < 1_000
    assert person.is_served()


@pytest.mark.parametrize(
    "message",
    [
        '{"Body": ' + "[" * 500_000,
        '{"Body": ' + "[" * 200_000 + "]" * 200_000 + "}",
        '{"Body": ' + '{"a":' * 100_000 + "1" + "}" * 100_000 + "}",
        '{"Body": ' + "9" * 500_000 + "}",
        '{"Body": 1e999999999}',
        '{"Body": "\\ud800"}',
        '{"Key": "\\udfff", "Body": "x"}',
        '{"Body": "\\u0000"}',
        '{"Body": NaN}',
        '{"Body": 1, "Body": 2}',
        '{"Header": ' + json.dumps({str(n): "v" for n in range(50_000)}) + ', "Body": 1}',
        '{"Header": [1, 2], "Body": 1}',
        '{"BodyBase64": "***"}',
        '{"BodyBase64": 7}',
        '{"Body": 1, "BodyBase64": ""}',
        '{"Body": ',
        "{" * 100_000,
    ],
    ids=lambda message: f"{message[:30]!r} ({len(message)})",
)
def test_messages_that_are_hardly_json(person: Person, topic: str, message: str) -> None:
    # Text that is no message is a body; what is one, and wrong, is refused. Either is one line.
    answer = person.last_line(f"PUBS {topic} {message}")
    assert answer.startswith(("OK", "ERROR"))
    assert len(answer) < 1_000
    assert person.is_served()


def test_whatever_was_taken_can_be_shown(person: Person, topic: str) -> None:
    messages = (
        '{"Body": "\\u0000\\u001b[2J"}',
        "\x1b[2J \x07 bell",
        '{"Key": "\\n", "Body": 1}',
    )
    for message in messages:
        assert person.last_line(f"PUBS {topic} {message}").startswith("OK")
    subscribed = person.last_line(f"SUBS {topic} readers").split()[1]
    person.send(f"CONS {topic} {subscribed} earliest\r\n".encode())
    while (line := person.line()).startswith("MSG"):
        # Nothing that a terminal would obey.
        assert line.isprintable(), line
        json.loads(line.split(maxsplit=4)[4], parse_int=str)
    assert line.startswith("OK")


def test_a_line_that_comes_byte_by_byte(person: Person) -> None:
    for byte in b"TOPICS\r\n":
        person.send(bytes([byte]))
        time.sleep(0.02)
    while not (line := person.line()).startswith("OK"):
        assert "partitions=" in line


# What was held for so many stays with the process for a while.
@pytest.mark.parametrize("growth_bytes_max", [30 * 2 * MIB], ids=["2 MiB for each"])
def test_many_lines_at_once_from_somebody_who_does_not_read(
    victim: Victim, growth_bytes_max: int
) -> None:
    lines = b"HELP\r\n" * 10_000
    people = [Person(victim, receive_bytes=4096) for _ in range(30)]
    try:
        with victim.watched(growth_bytes_max=growth_bytes_max):
            for person in people:
                person.socket.setblocking(False)
            for _ in range(10):
                for person in people:
                    try:
                        person.socket.send(lines)
                    except BlockingIOError:
                        pass
                time.sleep(0.1)
    finally:
        for person in people:
            person.socket.close()


def test_more_people_than_there_is_room_for(victim: Victim) -> None:
    people = [Person(victim) for _ in range(CONNECTIONS_MAX)]
    try:
        assert people[-1].is_served()
        for _ in range(20):
            with Person(victim) as late:
                assert late.is_closed_by_broker()
    finally:
        for person in people:
            person.socket.close()

    def is_let_in() -> bool:
        try:
            with Person(victim) as person:
                return person.is_served()
        except ConnectionError:
            return False

    eventually(is_let_in, "somebody is let in, as all have gone")
