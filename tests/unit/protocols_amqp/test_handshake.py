"""What clients say of themselves when a connection begins."""

from __future__ import annotations

import pytest

from kafkaesque.protocols.amqp.errors import AmqpError, ReplyCode
from kafkaesque.protocols.amqp.handshake import (
    CAPABILITIES,
    TELLS_FAILED_LOGIN,
    Login,
    has_capability,
    read_login,
    server_properties,
)
from kafkaesque.protocols.amqp.method_codec import read_method, write_method
from kafkaesque.protocols.amqp.methods import ConnectionStart, ConnectionStartOk
from kafkaesque.protocols.amqp.wire import write_table


@pytest.mark.parametrize(
    ("mechanism", "response", "login"),
    [
        ("PLAIN", b"\0guest\0guest", Login("guest", b"guest")),
        ("PLAIN", b"other\0\xc3\xa9\0\xff", Login("é", b"\xff")),
        ("AMQPLAIN", write_table({"LOGIN": "é", "PASSWORD": "p"})[4:], Login("é", b"p")),
    ],
)
def test_logins(mechanism: str, response: bytes, login: Login) -> None:
    assert read_login(ConnectionStartOk(mechanism=mechanism, response=response)) == login


@pytest.mark.parametrize(
    ("mechanism", "response", "code"),
    [
        ("PLAIN", b"", ReplyCode.SYNTAX_ERROR),
        ("PLAIN", b"\0a\0b\0c", ReplyCode.SYNTAX_ERROR),
        ("PLAIN", b"\0\xff\0b", ReplyCode.SYNTAX_ERROR),
        ("AMQPLAIN", b"", ReplyCode.SYNTAX_ERROR),
        ("AMQPLAIN", b"\x05LOGIN", ReplyCode.SYNTAX_ERROR),
        ("AMQPLAIN", write_table({"LOGIN": 1, "PASSWORD": "p"})[4:], ReplyCode.SYNTAX_ERROR),
        ("GSSAPI", b"", ReplyCode.COMMAND_INVALID),
    ],
)
def test_responses_that_say_nothing(mechanism: str, response: bytes, code: ReplyCode) -> None:
    with pytest.raises(AmqpError) as caught:
        read_login(ConnectionStartOk(mechanism=mechanism, response=response))
    assert caught.value.code is code
    assert (caught.value.class_id, caught.value.method_id) == (10, 11)


def test_capabilities() -> None:
    told = ConnectionStart(server_properties=server_properties("1.0", "home"))
    assert read_method(write_method(told)) == told
    assert told.server_properties["capabilities"] == CAPABILITIES
    mine: dict[str, object] = {"capabilities": {TELLS_FAILED_LOGIN: True, "other": 1}}
    client = ConnectionStartOk(client_properties=mine)
    assert has_capability(client, TELLS_FAILED_LOGIN)
    assert not has_capability(client, "other")
    assert not has_capability(ConnectionStartOk(client_properties={"capabilities": 1}), "other")
