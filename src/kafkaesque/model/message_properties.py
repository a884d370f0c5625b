"""The one table of what messages say of themselves, and how each protocol says it.

A record has headers; the names here are what Kafka's clients, SQS, the text port, the command line
and the Python client see. Translations between protocols go by this table, and
`docs/properties.md` is made of it.
"""

from enum import Enum
from typing import Final, NamedTuple


class Form(Enum):
    """How a header writes its value."""

    TEXT = "text, UTF-8"
    NAME = "a name, as AMQP and STOMP write it"
    TIME_MS = "Unix time in milliseconds, decimal"
    NUMBER = "0 to 255, decimal"


class MessageProperty(NamedTuple):
    """A row; an empty name: this protocol has no field for it, and shows the header."""

    meaning: str
    header: str
    form: Form = Form.TEXT
    #: AMQP 0-9-1's property.
    amqp: str = ""
    #: The property of MQTT 5.0; others are user properties.
    mqtt: str = ""
    #: STOMP's header, where it is not the same one.
    stomp: str = ""
    #: NATS' header, or field, where it is not the same one.
    nats: str = ""
    note: str = ""


CONTENT_TYPE: Final = MessageProperty(
    "type of the body",
    "content-type",
    amqp="content_type",
    mqtt="Content Type",
    nats="Content-Type",
)
CONTENT_ENCODING: Final = MessageProperty(
    "its encoding", "content-encoding", amqp="content_encoding"
)
CORRELATION: Final = MessageProperty(
    "what it answers",
    "correlation-id",
    amqp="correlation_id",
    mqtt="Correlation Data",
    note="longer than 255 bytes, it is a header in AMQP",
)
REPLY: Final = MessageProperty(
    "where answers go",
    "reply-to",
    Form.NAME,
    amqp="reply_to",
    mqtt="Response Topic",
    nats="the reply subject",
    note="STOMP is shown a destination: `/queue/NAME`",
)
MESSAGE_ID: Final = MessageProperty(
    "the publisher's id",
    "message-id",
    amqp="message_id",
    stomp="amqp-message-id",
    nats="Nats-Msg-Id",
    note="STOMP's `message-id` is the broker's",
)
EXPIRES_AT: Final = MessageProperty(
    "when its life ends",
    "expires-at",
    Form.TIME_MS,
    amqp="expiration",
    mqtt="Message Expiry Interval",
    stomp="expires",
    note="AMQP has milliseconds from the publish on, MQTT seconds that are left",
)
PRIORITY: Final = MessageProperty("its priority", "priority", Form.NUMBER, amqp="priority")
TIMESTAMP: Final = MessageProperty(
    "the publisher's time",
    "timestamp",
    Form.TIME_MS,
    amqp="timestamp",
    note="AMQP has whole seconds; what STOMP sends and is no such number is a header",
)
TYPE: Final = MessageProperty("its kind", "type", amqp="type")
USER_ID: Final = MessageProperty(
    "the user who has sent it",
    "user-id",
    amqp="user_id",
    note="checked where AMQP publishes it, and nowhere else",
)
APP_ID: Final = MessageProperty("the program that has sent it", "app-id", amqp="app_id")

#: In the order of the page.
PROPERTIES: Final = (
    CONTENT_TYPE,
    CONTENT_ENCODING,
    CORRELATION,
    REPLY,
    MESSAGE_ID,
    EXPIRES_AT,
    PRIORITY,
    TIMESTAMP,
    TYPE,
    USER_ID,
    APP_ID,
)
