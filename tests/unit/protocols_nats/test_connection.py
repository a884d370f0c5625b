"""A connection over time, and before it has logged in."""

from __future__ import annotations

import pytest

from kafkaesque.model.errors import InvariantBroken
from kafkaesque.protocols.nats.connection import Connection, Limits
from kafkaesque.protocols.nats.errors import ErrorText, NatsError, permissions_violation
from kafkaesque.protocols.nats.events import ConnectOptions, PingDue
from kafkaesque.protocols.nats.writing import PING
from tests.unit.protocols_nats.peer import Broker

LIMITS = Limits(connect_ms_max=50, ping_interval_ms=100, pings_out_max=2)


def test_nothing_but_connect_is_taken_where_a_log_in_is_wanted() -> None:
    broker = Broker(needs_login=True)
    assert broker.receive(b"P") == b"-ERR 'Authorization Violation'\r\n"


def test_what_comes_behind_connect_waits_until_the_client_is_let_in() -> None:
    connection = Connection(0, needs_login=True)
    assert len(connection.receive(b"CONNECT {}\r\nPING\r\n", 0)) == 1
    assert connection.is_paused
    assert connection.receive(b"", 0) == []
    connection.accept()
    assert len(connection.receive(b"", 0)) == 1
    with pytest.raises(InvariantBroken):
        connection.accept()


def test_a_client_that_is_refused_is_told_and_not_read() -> None:
    connection = Connection(0, needs_login=True)
    connection.receive(b"CONNECT {}\r\n", 0)
    error = NatsError(ErrorText.AUTHORIZATION_VIOLATION, "wrong password")
    assert connection.fail(error) == b"-ERR 'Authorization Violation'\r\n"
    assert connection.receive(b"PING\r\n", 0) == []


def test_a_client_that_does_not_log_in_is_hung_up_on() -> None:
    broker = Broker(LIMITS, needs_login=True)
    assert broker.connection.deadline_ms == 50
    assert broker.tick(49) == b""
    assert broker.tick(50) == b"-ERR 'Authentication Timeout'\r\n"
    assert broker.connection.deadline_ms is None


def test_a_silent_client_is_pinged_and_then_hung_up_on() -> None:
    broker = Broker(LIMITS)
    assert broker.tick(99) == b""
    assert broker.tick(100) == PING
    assert broker.tick(199) == b""
    assert broker.tick(200) == PING
    assert broker.tick(300) == b"-ERR 'Stale Connection'\r\n"


def test_a_client_that_answers_or_speaks_stays() -> None:
    broker = Broker(LIMITS)
    for now_ms in range(100, 1_000, 100):
        assert broker.tick(now_ms) == PING
        broker.connection.receive(b"PONG\r\n", now_ms)
    broker.connection.receive(b"SUB a 1\r\n", 950)
    assert broker.connection.deadline_ms == 1_050
    assert broker.connection.tick(1_050) == [PingDue()]


def test_a_password_is_shown_in_no_log() -> None:
    assert "secret" not in repr(ConnectOptions(user="u", password="secret"))


def test_what_is_said_of_subjects_that_are_not_allowed() -> None:
    assert permissions_violation("Publish", "a") == 'Permissions Violation for Publish to "a"'
    assert permissions_violation("Subscription", "a", "q").endswith('"a" using queue "q"')
