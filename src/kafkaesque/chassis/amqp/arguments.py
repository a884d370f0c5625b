"""What queue.declare says, as options of a queue; and whether a second declaration is the same.

Arguments have RabbitMQ's names and meanings. What a queue was declared with is kept with it, in one
option (`amqp.declaration`), because options say less: that it is exclusive, and whose, for example.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Final

import msgspec

from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.options.queue_arguments import (
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_KEY,
    GROUP_SIZE,
    MAX_AGE,
    OVERFLOW,
    PARTITIONS_ARGUMENT,
    QUEUE_TYPE,
    QUEUE_TYPES,
    REJECTIONS,
    SEGMENT_BYTES,
    STREAM,
    TRANSFORMATION_OUT_ARGUMENT,
    read_arguments,
    read_stream_arguments,
)
from kafkaesque.broker.options.queues import (
    DECLARATION,
    DEFAULT_EXCHANGE_WORD,
    PARTITIONS,
    TRANSFORMATION_OUT,
    TRANSIENT,
)
from kafkaesque.chassis.meanings import plain
from kafkaesque.model.errors import InvalidConfig
from kafkaesque.protocols.amqp.errors import AmqpError, ReplyCode
from kafkaesque.protocols.amqp.methods import QueueDeclare
from kafkaesque.protocols.amqp.wire import Table

#: Bytes of one declaration's arguments, as JSON: each broker keeps them.
ARGUMENTS_BYTES_MAX: Final = 16 * 1024
#: Broker, incarnation, number; anybody may set the option, and readers take it apart.
_OWNER: Final = r"^([0-9]{1,10}\.[0-9]{1,20}\.[0-9]{1,20})?$"
_DEAD_LETTERS: Final = ("dead.letter.queue", "dead.letter.topic", "dead.letter.exchange")


class Declaration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a queue was declared."""

    version: int = 1
    durable: bool = False
    auto_delete: bool = False
    #: The connection that alone may use it: broker, incarnation, number; empty: all may.
    owner: Annotated[str, msgspec.Meta(pattern=_OWNER)] = ""
    #: Of a stream: whether its topic was made for it, and goes with it.
    made_topic: bool = False
    arguments: dict[str, Annotated[object, "as JSON has it"]] = msgspec.field(default_factory=dict)

    @property
    def is_exclusive(self) -> bool:
        """Whether it goes with the connection that has declared it."""
        return bool(self.owner)

    @property
    def is_stream(self) -> bool:
        """Whether its messages are those of a topic."""
        return self.arguments.get(QUEUE_TYPE) == STREAM

    def text(self, name: str) -> str | None:
        """Return an argument that is a text."""
        value = self.arguments.get(name)
        return value if isinstance(value, str) else None

    def number(self, name: str) -> int | None:
        """Return an argument that is a number."""
        value = self.arguments.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


_declaration: Final = msgspec.json.Decoder(Declaration)


def declaration_of(queue: QueueState) -> Declaration | None:
    """Return how a queue was declared; None: not by AMQP."""
    said = queue.options.get(DECLARATION)
    if not said:
        return None
    try:
        return _declaration.decode(said)
    except msgspec.MsgspecError:
        return None


def has_dead_letters(options: Mapping[str, str]) -> bool:
    """Tell whether what is given up in a queue with these options goes somewhere."""
    return any(options.get(name) for name in _DEAD_LETTERS)


# -- arguments as options


def _failed(what: str) -> AmqpError:
    kind = QueueDeclare
    return AmqpError(ReplyCode.PRECONDITION_FAILED, what, kind.class_id, kind.method_id)


def read_declaration(
    method: QueueDeclare, owner: str, has_queue: Callable[[str], bool]
) -> tuple[Declaration, dict[str, str]]:
    """Return a declaration, and the options that it stands for.

    `has_queue` tells whether there is a queue of a name.

    Raises:
        AmqpError: an argument is not what it has to be.
    """
    try:
        if method.arguments.get(QUEUE_TYPE) == STREAM:
            _check_stream(method)
            options: dict[str, str] = {}
        else:
            options = read_arguments(method.arguments, has_queue)
    except InvalidConfig as error:
        raise _failed(str(error)) from None
    said = _said(method, owner)
    options[DECLARATION] = msgspec.json.encode(said).decode()
    if method.exclusive and not method.durable:
        # It goes with the connection, and so with its broker: in that one's memory it is well.
        options[TRANSIENT] = "true"
    return said, options


def _said(method: QueueDeclare, owner: str) -> Declaration:
    return Declaration(
        durable=method.durable,
        auto_delete=method.auto_delete,
        owner=owner if method.exclusive else "",
        arguments=_plain(method.arguments),
    )


def _check_stream(method: QueueDeclare) -> None:
    """Check what a stream cannot be.

    Raises:
        AmqpError, InvalidConfig: it is declared so.
    """
    flags = {
        "non-durable": not method.durable,
        "exclusive": method.exclusive,
        "auto-delete": method.auto_delete,
    }
    for name, is_so in flags.items():
        if is_so:
            raise _failed(f"invalid property '{name}' for queue '{method.queue}'")
    read_stream_arguments(method.arguments)


def _plain(arguments: Table) -> dict[str, object]:
    shown = plain(arguments)
    if not isinstance(shown, dict) or len(json.dumps(shown)) > ARGUMENTS_BYTES_MAX:
        raise _failed(f"arguments have more than {ARGUMENTS_BYTES_MAX} bytes")
    try:
        msgspec.json.encode(shown)
    except (TypeError, ValueError):
        raise _failed("an argument has a value that cannot be kept, such as no UTF-8") from None
    return dict(shown)


def arguments_of(queue: QueueState) -> dict[str, object]:
    """Return the arguments that a queue has: those of its declaration, or what options stand for.

    A queue that AMQP did not declare can be declared with these.
    """
    said = declaration_of(queue)
    if said is not None:
        return dict(said.arguments)
    found: dict[str, object] = {}
    options = queue.options
    for argument, option in _NUMBERS.items():
        value = options.get(option, "")
        if value.isdecimal() and int(value):
            found[argument] = int(value)
        elif value == "-1":
            found[argument] = 0
    if options.get("delivery.limit", "0") != "0":
        found["x-delivery-limit"] = int(options["delivery.limit"]) - 1
    if options.get("overflow") in REJECTIONS:
        found[OVERFLOW] = options["overflow"]
    if options.get(TRANSFORMATION_OUT):
        found[TRANSFORMATION_OUT_ARGUMENT] = options[TRANSFORMATION_OUT]
    if options.get("sharing") == "single-active":
        found["x-single-active-consumer"] = True
    return {**found, **_dead_letter_arguments(options)}


def _dead_letter_arguments(options: Mapping[str, str]) -> dict[str, object]:
    exchange, key = options.get("dead.letter.exchange"), options.get("dead.letter.routing.key")
    target = options.get("dead.letter.queue")
    if target:
        return {DEAD_LETTER_EXCHANGE: "", DEAD_LETTER_KEY: target}
    if not exchange:
        return {}
    word = "" if exchange == DEFAULT_EXCHANGE_WORD else exchange
    return {DEAD_LETTER_EXCHANGE: word, **({DEAD_LETTER_KEY: key} if key else {})}


def replicas_of(said: Declaration, brokers: int) -> int:
    """Return how many replicas a declaration wants of so many brokers; -1: as many as usual."""
    wanted = said.number(GROUP_SIZE)
    return -1 if wanted is None else min(wanted, brokers)


# -- the same declaration again

#: Options that are numbers, by their arguments.
_NUMBERS: Final[Mapping[str, str]] = {
    PARTITIONS_ARGUMENT: PARTITIONS,
    "x-message-ttl": "message.ttl.ms",
    "x-max-length": "max.length",
    "x-max-length-bytes": "max.length.bytes",
    "x-max-priority": "max.priority",
    "x-delayed-retry-min": "delayed.retry.min.ms",
    "x-delayed-retry-max": "delayed.retry.max.ms",
}

#: What has to be the same in a second declaration; options of queues that AMQP did not declare.
#: In RabbitMQ's order: the first difference is told.
_COMPARED: Final[Mapping[str, str]] = {
    "x-expires": "",
    "x-message-ttl": "message.ttl.ms",
    DEAD_LETTER_EXCHANGE: "",
    DEAD_LETTER_KEY: "",
    "x-max-length": "max.length",
    "x-max-length-bytes": "max.length.bytes",
    "x-max-priority": "max.priority",
    OVERFLOW: "overflow",
    "x-queue-mode": "",
    "x-single-active-consumer": "sharing",
    "x-queue-type": "",
    "x-delivery-limit": "delivery.limit",
    TRANSFORMATION_OUT_ARGUMENT: TRANSFORMATION_OUT,
    PARTITIONS_ARGUMENT: PARTITIONS,
    MAX_AGE: "",
    SEGMENT_BYTES: "",
}


def check_redeclared(queue: QueueState, method: QueueDeclare, owner: str) -> None:
    """Check that a queue that was declared is declared so again, whatever its arguments mean.

    Raises:
        AmqpError: it differs.
    """
    if declaration_of(queue) is not None:
        check_equivalent(queue, _said(method, owner), {})


def check_equivalent(queue: QueueState, said: Declaration, options: Mapping[str, str]) -> None:
    """Check that a queue that is there is what a client declares.

    Raises:
        AmqpError: it differs.
    """
    before = declaration_of(queue)
    if before is None:
        # Made in other ways, where there is no such thing as a queue that is not durable.
        for name, option in _COMPARED.items():
            if option and name in said.arguments:
                _compare(queue, name, options.get(option), queue.options.get(option), "the value ")
        return
    _compare(queue, "durable", said.durable, before.durable)
    _compare(queue, "auto_delete", said.auto_delete, before.auto_delete)
    for name in _COMPARED:
        received, current = said.arguments.get(name), before.arguments.get(name)
        if name == QUEUE_TYPE and (received or QUEUE_TYPES[0]) == (current or QUEUE_TYPES[0]):
            continue
        _compare(queue, name, received, current, "the value ")


def _compare(
    queue: QueueState, name: str, received: object, current: object, what: str = ""
) -> None:
    if received == current:
        return
    raise _failed(
        f"inequivalent arg '{name}' for queue '{queue.queue.name}' in vhost "
        f"'{queue.queue.vhost}': received {_shown(received, what)} "
        f"but current is {_shown(current, what)}"
    )


def _shown(value: object, what: str) -> str:
    if value is None:
        return "none"
    return f"{what}'{str(value).lower() if isinstance(value, bool) else value}'"
