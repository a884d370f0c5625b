"""A connection over time."""

from __future__ import annotations

import pytest

from kafkaesque.model.errors import InvariantBroken
from kafkaesque.protocols.stomp.connection import Connection, Limits
from kafkaesque.protocols.stomp.events import HeartbeatDue
from kafkaesque.protocols.stomp.frames import Frame, write_frame
from kafkaesque.protocols.stomp.versions import SUPPORTED, Version
from tests.unit.protocols_stomp.peer import CONNECTS, Broker, read_frames

V11 = Version.V1_1


def connected(beats: str, ours_ms: int = 100) -> Connection:
    connection = Connection(0, Limits(heart_beat_ms=ours_ms))
    raw = f"CONNECT\naccept-version:1.1\nhost:h\nheart-beat:{beats}\n\n\0".encode()
    connection.receive(raw, 0)
    (frame,) = read_frames(connection.accept("s", "k/1", 0), V11)
    assert frame.get("heart-beat") == f"{ours_ms},{ours_ms}"
    return connection


@pytest.mark.parametrize(
    ("beats", "ours_ms", "deadlines"),
    [
        ("0,0", 100, (None, None)),
        ("50,0", 100, (200, None)),
        ("150,0", 100, (300, None)),
        ("0,50", 100, (None, 100)),
        ("0,150", 100, (None, 150)),
        ("50,50", 0, (None, None)),
    ],
)
def test_heart_beats_that_are_agreed_upon(
    beats: str, ours_ms: int, deadlines: tuple[int | None, int | None]
) -> None:
    """The slower of what one side can and the other wants, and none if either has none."""
    silent_ms, due_ms = deadlines
    connection = connected(beats, ours_ms)
    assert connection.deadline_ms == (silent_ms or due_ms)


def test_heart_beats_are_sent_where_nothing_else_was() -> None:
    connection = connected("0,100")
    assert connection.tick(99) == []
    assert connection.tick(100) == [HeartbeatDue()]
    assert connection.deadline_ms == 200
    connection.note_sent(150)
    assert connection.tick(249) == []
    assert connection.tick(250) == [HeartbeatDue()]


def test_a_silent_client_is_hung_up_on() -> None:
    broker = Broker(Limits(heart_beat_ms=100))
    broker.receive(b"CONNECT\naccept-version:1.1\nhost:h\nheart-beat:100,0\n\n\0", 10)
    broker.receive(b"\n", 150)
    assert broker.tick(349) == b""
    (frame,) = read_frames(broker.tick(350), V11)
    assert (frame.command, frame.get("message")) == ("ERROR", "heart-beats do not come")
    assert broker.connection.deadline_ms is None


def test_a_client_that_is_not_read_is_not_called_silent() -> None:
    connection = connected("100,0")
    connection.excuse(1_000)
    assert connection.deadline_ms == 1_200


def test_a_client_that_sends_no_connect_is_hung_up_on() -> None:
    broker = Broker(Limits(connect_ms_max=50))
    broker.receive(b"CONN", 40)
    assert broker.connection.deadline_ms == 50
    (frame,) = read_frames(broker.tick(50), Version.V1_0)
    assert frame.get("message") == "no CONNECT has come"


def test_what_comes_behind_connect_waits_until_the_client_is_let_in() -> None:
    connection = Connection(0)
    raw = CONNECTS[V11] + b"SEND\ndestination:a~cb\n\n\0".replace(b"~", b"\\")
    assert len(connection.receive(raw, 0)) == 1
    assert connection.is_paused
    assert connection.receive(b"", 0) == []
    connection.accept("s", "k/1", 0)
    (event,) = connection.receive(b"", 0)
    assert getattr(event, "destination", "") == "a:b", "it is read in the version of CONNECT"
    with pytest.raises(InvariantBroken):
        connection.accept("s", "k/1", 0)


def test_a_client_that_accepts_no_version_is_told_ours() -> None:
    broker = Broker()
    answer = broker.receive(b"CONNECT\naccept-version:2.0\nhost:h\n\n\0")
    (frame,) = read_frames(answer, Version.V1_0)
    assert frame.get("version") == SUPPORTED == "1.0,1.1,1.2"


def test_transactions_that_are_open_when_a_client_goes() -> None:
    broker = Broker()
    broker.receive(CONNECTS[V11] + b"BEGIN\ntransaction:t\n\n\0DISCONNECT\n\n\0")
    assert broker.connection.open_transactions == ("t",)


def test_a_password_is_shown_in_no_log() -> None:
    broker = Broker()
    broker.receive(b"CONNECT\nlogin:l\npasscode:secret\n\n\0")
    assert "secret" not in repr(broker.events)


def test_a_length_is_not_written_twice() -> None:
    with pytest.raises(InvariantBroken):
        write_frame(Frame("SEND", (("content-length", "1"),), b"x"), V11)
