"""Arguments of queues, as RabbitMQ names and checks them, and the options that they stand for.

A client of AMQP declares a queue with them; a policy says the same without `x-`.
"""

from collections.abc import Callable, Mapping
from typing import Final

from kafkaesque.broker.options.queues import (
    DEFAULT_EXCHANGE_WORD,
    PARTITIONS,
    PARTITIONS_MAX,
    TRANSFORMATION_OUT,
    YEAR_MS,
)
from kafkaesque.model.errors import InvalidConfig
from kafkaesque.queues.policy import PRIORITIES_MAX

PREFIX: Final = "x-"
QUEUE_TYPE: Final = "x-queue-type"
QUEUE_TYPES: Final = ("classic", "quorum")
STREAM: Final = "stream"
MAX_AGE: Final = "x-max-age"
MAX_BYTES: Final = "x-max-length-bytes"
SEGMENT_BYTES: Final = "x-stream-max-segment-size-bytes"
#: RabbitMQ has no such argument.
PARTITIONS_ARGUMENT: Final = "x-partitions"
GROUP_SIZE: Final = "x-quorum-initial-group-size"
DEAD_LETTER_EXCHANGE: Final = "x-dead-letter-exchange"
TRANSFORMATION_OUT_ARGUMENT: Final = "x-transformation-out"
DEAD_LETTER_KEY: Final = "x-dead-letter-routing-key"
OVERFLOW: Final = "x-overflow"
DROP_HEAD: Final = "drop-head"
REJECT: Final = "reject-publish"
REJECT_AND_DEAD_LETTER: Final = "reject-publish-dlx"
REJECTIONS: Final = (REJECT, REJECT_AND_DEAD_LETTER)
OVERFLOWS: Final = (DROP_HEAD, *REJECTIONS)
_COUNT_MAX: Final = 2**32 - 1
_OCTET_MAX: Final = 255
#: Characters of a value in a refusal.
_SHOWN_MAX: Final = 100

_DAY_MS: Final = 24 * 60 * 60 * 1000
#: RabbitMQ's units of ages.
_AGES_MS: Final = {
    "Y": 365 * _DAY_MS,
    "M": 30 * _DAY_MS,
    "D": _DAY_MS,
    "h": 60 * 60 * 1000,
    "m": 60 * 1000,
    "s": 1000,
}

Options = dict[str, str]
_Reader = Callable[[str, object], Options]


def _number(
    option: str, most: int, *, shift: int = 0, least: int = 0, zero: int | None = None
) -> _Reader:
    """Return what reads a whole number; 0 becomes `zero` where options take 0 for none."""

    def read(name: str, value: object) -> Options:
        if isinstance(value, bool) or not isinstance(value, int):
            raise _bad(name, f"a whole number is expected, not {_shown(value)}")
        if not least <= value <= most:
            raise _bad(name, f"{value} is not from {least} to {most}")
        if value == 0 and zero is not None:
            return {option: str(zero)}
        return {option: str(value + shift)} if option and value + shift > 0 else {}

    return read


def _priorities(name: str, value: object) -> Options:
    options = _number("max.priority", _OCTET_MAX)(name, value)
    # Whatever is above the highest one that there is here is as high as that.
    return {each: str(min(int(said), PRIORITIES_MAX - 1)) for each, said in options.items()}


def _text(*choices: str) -> _Reader:
    def read(name: str, value: object) -> Options:
        if not isinstance(value, str) or (choices and value not in choices):
            wanted = f"one of {', '.join(choices)}" if choices else "a text"
            raise _bad(name, f"{wanted} is expected, not {_shown(value)}")
        return {}

    return read


def _age(name: str, value: object) -> Options:
    if not isinstance(value, str) or read_age_ms(value) is None:
        units = ", ".join(_AGES_MS)
        raise _bad(name, f"a number and a unit ({units}) is expected, not {_shown(value)}")
    return {}


def read_age_ms(text: str) -> int | None:
    """Return how long an age such as `7D` or `12h` is; None: it is none."""
    number, unit = text[:-1], text[-1:]
    if unit not in _AGES_MS or not number.isascii() or not number.isdecimal() or len(number) > 9:
        return None
    return int(number) * _AGES_MS[unit]


def _single_active(name: str, value: object) -> Options:
    if not isinstance(value, bool):
        raise _bad(name, f"true or false is expected, not {_shown(value)}")
    return {"sharing": "single-active"} if value else {}


def _transformation(name: str, value: object) -> Options:
    if not isinstance(value, str) or not value:
        raise _bad(name, f"a transformation's name is expected, not {_shown(value)}")
    return {TRANSFORMATION_OUT: value}


def _partitions(name: str, value: object) -> Options:
    options = _number(PARTITIONS, PARTITIONS_MAX, least=1)(name, value)
    return {} if value == 1 else options


def _bad(name: str, why: str) -> InvalidConfig:
    return InvalidConfig(f"invalid arg '{name}': {why}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."


#: Argument -> what checks it and returns the options that it stands for alone.
_ARGUMENTS: Final[Mapping[str, _Reader]] = {
    "x-message-ttl": _number("message.ttl.ms", 10 * YEAR_MS, zero=1),
    "x-expires": _number("expires.ms", 10 * YEAR_MS, least=1),
    # Options take 0 for no limit.
    "x-max-length": _number("max.length", _COUNT_MAX, zero=-1),
    MAX_BYTES: _number("max.length.bytes", 2**53, zero=-1),
    OVERFLOW: _text(*OVERFLOWS),
    DEAD_LETTER_EXCHANGE: _text(),
    DEAD_LETTER_KEY: _text(),
    "x-dead-letter-strategy": _text("at-most-once", "at-least-once"),
    "x-max-priority": _priorities,
    "x-single-active-consumer": _single_active,
    QUEUE_TYPE: _text(*QUEUE_TYPES, STREAM),
    MAX_AGE: _age,
    SEGMENT_BYTES: _number("", 2**31 - 1, least=1),
    # So many attempts may fail and the message comes again; -1: any number.
    "x-delivery-limit": _number("delivery.limit", 2**31 - 2, shift=1, least=-1),
    "x-consumer-timeout": _number("consumer.timeout.ms", YEAR_MS),
    "x-consumer-disconnected-timeout": _number("", YEAR_MS),
    "x-delayed-retry-type": _text(),
    "x-delayed-retry-min": _number("delayed.retry.min.ms", YEAR_MS),
    "x-delayed-retry-max": _number("delayed.retry.max.ms", YEAR_MS),
    "x-queue-leader-locator": _text(),
    GROUP_SIZE: _number("", 2**15 - 1, least=1),
    "x-quorum-target-group-size": _number("", 2**15 - 1, least=1),
    "x-queue-mode": _text("default", "lazy"),
    TRANSFORMATION_OUT_ARGUMENT: _transformation,
    PARTITIONS_ARGUMENT: _partitions,
}


def read_arguments(
    arguments: Mapping[str, object], has_queue: Callable[[str], bool] = lambda _: False
) -> Options:
    """Return the options that arguments stand for; those that are not known say nothing.

    `has_queue` tells whether there is a queue of a name.

    Raises:
        InvalidConfig: an argument is not what it has to be.
    """
    options: Options = {}
    for name, value in arguments.items():
        read = _ARGUMENTS.get(name)
        if read is not None:
            options.update(read(name, value))
    options.update(_dead_letters(arguments, has_queue))
    return options


#: What a stream may be declared with.
_OF_STREAMS: Final = frozenset(
    {
        QUEUE_TYPE,
        MAX_AGE,
        SEGMENT_BYTES,
        MAX_BYTES,
        GROUP_SIZE,
        "x-initial-cluster-size",
        "x-queue-leader-locator",
    }
)


def read_stream_arguments(arguments: Mapping[str, object]) -> Options:
    """Return the options of a stream's topic that its arguments stand for.

    Raises:
        InvalidConfig: an argument is not what it has to be, or none of a stream's.
    """
    read_arguments(arguments)
    for name in arguments:
        if name in _ARGUMENTS and name not in _OF_STREAMS:
            raise _bad(name, "a stream has none")
    options = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
    age, size, segment = (arguments.get(each) for each in (MAX_AGE, MAX_BYTES, SEGMENT_BYTES))
    if size == 0:
        raise _bad(MAX_BYTES, "a stream keeps what it is given")
    if isinstance(age, str):
        options["retention.ms"] = str(read_age_ms(age))
    if size is not None:
        options["retention.bytes"] = str(size)
    if segment is not None:
        options["segment.bytes"] = str(segment)
    return options


def _dead_letters(arguments: Mapping[str, object], has_queue: Callable[[str], bool]) -> Options:
    options: Options = {}
    exchange, key = arguments.get(DEAD_LETTER_EXCHANGE), arguments.get(DEAD_LETTER_KEY)
    if key is not None and exchange is None:
        raise _bad(DEAD_LETTER_KEY, f"there is no '{DEAD_LETTER_EXCHANGE}'")
    if key == "":
        # Options take it for none.
        raise _bad(DEAD_LETTER_KEY, "it is empty")
    if exchange == "" and isinstance(key, str) and has_queue(key):
        # Nothing else can come of it, and the right to write to the queue is enough.
        options["dead.letter.queue"] = key
    elif exchange is not None:
        options["dead.letter.exchange"] = str(exchange) or DEFAULT_EXCHANGE_WORD
        options.update({} if key is None else {"dead.letter.routing.key": str(key)})
    overflow = arguments.get(OVERFLOW, DROP_HEAD)
    if overflow != DROP_HEAD:
        options["overflow"] = str(overflow)
    elif exchange is not None:
        options["overflow"] = "dead-letter"
    return options
