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
from kafkaesque.broker.options.queues import DECLARATION, DEFAULT_EXCHANGE_WORD, YEAR_MS
from kafkaesque.chassis.meanings import plain
from kafkaesque.protocols.amqp.errors import AmqpError, ReplyCode
from kafkaesque.protocols.amqp.methods import QueueDeclare
from kafkaesque.protocols.amqp.wire import Table
from kafkaesque.queues.policy import PRIORITIES_MAX

_COUNT_MAX: Final = 2**32 - 1
#: Bytes of one declaration's arguments, as JSON: each broker keeps them.
ARGUMENTS_BYTES_MAX: Final = 16 * 1024
QUEUE_TYPES: Final = ("classic", "quorum")
DEAD_LETTER_EXCHANGE: Final = "x-dead-letter-exchange"
DEAD_LETTER_KEY: Final = "x-dead-letter-routing-key"
GROUP_SIZE: Final = "x-quorum-initial-group-size"
OVERFLOW: Final = "x-overflow"
REJECT_AND_DEAD_LETTER: Final = "reject-publish-dlx"
_DEAD_LETTERS: Final = ("dead.letter.queue", "dead.letter.topic", "dead.letter.exchange")
_OVERFLOWS: Final = ("drop-head", "reject-publish", REJECT_AND_DEAD_LETTER)


class Declaration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a queue was declared."""

    version: int = 1
    durable: bool = False
    auto_delete: bool = False
    #: The connection that alone may use it: broker, incarnation, number; empty: all may.
    owner: str = ""
    arguments: dict[str, Annotated[object, "as JSON has it"]] = msgspec.field(default_factory=dict)

    @property
    def is_exclusive(self) -> bool:
        """Whether it goes with the connection that has declared it."""
        return bool(self.owner)

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


def has_dead_letters(queue: QueueState) -> bool:
    """Tell whether what is given up in a queue goes somewhere."""
    return any(queue.options.get(name) for name in _DEAD_LETTERS)


# -- arguments as options


def _failed(what: str) -> AmqpError:
    kind = QueueDeclare
    return AmqpError(ReplyCode.PRECONDITION_FAILED, what, kind.class_id, kind.method_id)


def _number(
    option: str, most: int, *, shift: int = 0, least: int = 0, zero: int | None = None
) -> Callable[[str, object], dict[str, str]]:
    """Return what reads a whole number; 0 becomes `zero` where options take 0 for none."""

    def read(name: str, value: object) -> dict[str, str]:
        if isinstance(value, bool) or not isinstance(value, int):
            raise _failed(f"invalid arg '{name}': a whole number is expected, not {plain(value)!r}")
        if not least <= value <= most:
            raise _failed(f"invalid arg '{name}': {value} is not from {least} to {most}")
        if value == 0 and zero is not None:
            value = zero
        return {option: str(value + shift)} if value + shift > 0 else {}

    return read


def _text(*choices: str) -> Callable[[str, object], dict[str, str]]:
    def read(name: str, value: object) -> dict[str, str]:
        if not isinstance(value, str) or (choices and value not in choices):
            wanted = f"one of {', '.join(choices)}" if choices else "a text"
            raise _failed(f"invalid arg '{name}': {wanted} is expected, not {plain(value)!r}")
        return {}

    return read


def _single_active(name: str, value: object) -> dict[str, str]:
    if not isinstance(value, bool):
        raise _failed(f"invalid arg '{name}': true or false is expected, not {plain(value)!r}")
    return {"sharing": "single-active"} if value else {}


#: Argument -> what checks it and returns the options that it stands for.
_ARGUMENTS: Final[Mapping[str, Callable[[str, object], dict[str, str]]]] = {
    "x-message-ttl": _number("message.ttl.ms", 10 * YEAR_MS, zero=1),
    "x-expires": _number("", 10 * YEAR_MS, least=1),
    # A queue that holds nothing would be no queue: options take 0 for no limit.
    "x-max-length": _number("max.length", _COUNT_MAX, least=1),
    "x-max-length-bytes": _number("max.length.bytes", 2**53, least=1),
    OVERFLOW: _text(*_OVERFLOWS),
    DEAD_LETTER_EXCHANGE: _text(),
    DEAD_LETTER_KEY: _text(),
    "x-dead-letter-strategy": _text("at-most-once", "at-least-once"),
    "x-max-priority": _number("max.priority", PRIORITIES_MAX - 1),
    "x-single-active-consumer": _single_active,
    "x-queue-type": _text(*QUEUE_TYPES),
    # So many attempts may fail and the message comes again; -1: any number.
    "x-delivery-limit": _number("delivery.limit", 2**31 - 2, shift=1, least=-1),
    "x-consumer-timeout": _number("", YEAR_MS),
    "x-consumer-disconnected-timeout": _number("", YEAR_MS),
    "x-delayed-retry-type": _text(),
    "x-delayed-retry-min": _number("delayed.retry.min.ms", YEAR_MS),
    "x-delayed-retry-max": _number("delayed.retry.max.ms", YEAR_MS),
    "x-queue-leader-locator": _text(),
    GROUP_SIZE: _number("", 2**15 - 1, least=1),
    "x-quorum-target-group-size": _number("", 2**15 - 1, least=1),
    "x-queue-mode": _text("default", "lazy"),
}


def read_declaration(
    method: QueueDeclare, owner: str, has_queue: Callable[[str], bool]
) -> tuple[Declaration, dict[str, str]]:
    """Return a declaration, and the options that it stands for.

    `has_queue` tells whether there is a queue of a name.

    Raises:
        AmqpError: an argument is not what it has to be.
    """
    options: dict[str, str] = {}
    arguments = _plain(method.arguments)
    for name, value in method.arguments.items():
        read = _ARGUMENTS.get(name)
        if read is not None:
            options.update({key: each for key, each in read(name, value).items() if key})
    said = Declaration(
        durable=method.durable,
        auto_delete=method.auto_delete,
        owner=owner if method.exclusive else "",
        arguments=arguments,
    )
    _dead_letters(said, options, has_queue)
    options[DECLARATION] = msgspec.json.encode(said).decode()
    return said, options


def _plain(arguments: Table) -> dict[str, object]:
    shown = plain(arguments)
    if not isinstance(shown, dict) or len(json.dumps(shown)) > ARGUMENTS_BYTES_MAX:
        raise _failed(f"arguments have more than {ARGUMENTS_BYTES_MAX} bytes")
    return dict(shown)


def _dead_letters(
    said: Declaration, options: dict[str, str], has_queue: Callable[[str], bool]
) -> None:
    exchange, key = said.text(DEAD_LETTER_EXCHANGE), said.text(DEAD_LETTER_KEY)
    if key is not None and exchange is None:
        raise _failed(f"invalid arg '{DEAD_LETTER_KEY}': there is no '{DEAD_LETTER_EXCHANGE}'")
    if key == "":
        # Options take it for none.
        raise _failed(f"invalid arg '{DEAD_LETTER_KEY}': it is empty")
    if exchange == "" and key is not None and has_queue(key):
        # Nothing else can come of it, and the right to write to the queue is enough.
        options["dead.letter.queue"] = key
    elif exchange is not None:
        options["dead.letter.exchange"] = exchange or DEFAULT_EXCHANGE_WORD
        options.update({} if key is None else {"dead.letter.routing.key": key})
    overflow = said.text(OVERFLOW) or "drop-head"
    if overflow != "drop-head":
        options["overflow"] = "reject-publish"
    elif exchange is not None:
        options["overflow"] = "dead-letter"


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
    if options.get("delivery.limit", "0") != "0":
        found["x-delivery-limit"] = int(options["delivery.limit"]) - 1
    if options.get("overflow", "drop-head") == "reject-publish":
        found[OVERFLOW] = "reject-publish"
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


# -- the same declaration again

#: Options that are numbers, by their arguments.
_NUMBERS: Final[Mapping[str, str]] = {
    "x-message-ttl": "message.ttl.ms",
    "x-max-length": "max.length",
    "x-max-length-bytes": "max.length.bytes",
    "x-max-priority": "max.priority",
    "x-delayed-retry-min": "delayed.retry.min.ms",
    "x-delayed-retry-max": "delayed.retry.max.ms",
}

#: What has to be the same in a second declaration; options of queues that AMQP did not declare.
_COMPARED: Final[Mapping[str, str]] = {
    "x-message-ttl": "message.ttl.ms",
    "x-expires": "",
    "x-max-length": "max.length",
    "x-max-length-bytes": "max.length.bytes",
    OVERFLOW: "overflow",
    DEAD_LETTER_EXCHANGE: "",
    DEAD_LETTER_KEY: "",
    "x-max-priority": "max.priority",
    "x-single-active-consumer": "sharing",
    "x-queue-type": "",
    "x-delivery-limit": "delivery.limit",
}


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
                _compare(queue, name, options.get(option), queue.options.get(option))
        return
    _compare(queue, "durable", said.durable, before.durable)
    _compare(queue, "auto_delete", said.auto_delete, before.auto_delete)
    for name in _COMPARED:
        received, current = said.arguments.get(name), before.arguments.get(name)
        if name == "x-queue-type":
            received, current = received or QUEUE_TYPES[0], current or QUEUE_TYPES[0]
        _compare(queue, name, received, current)


def _compare(queue: QueueState, name: str, received: object, current: object) -> None:
    if received == current:
        return
    raise _failed(
        f"inequivalent arg '{name}' for queue '{queue.queue.name}' in vhost "
        f"'{queue.queue.vhost}': received {_shown(received)} but current is {_shown(current)}"
    )


def _shown(value: object) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return f"'{str(value).lower()}'"
        case _:
            return f"the value '{value}'"
