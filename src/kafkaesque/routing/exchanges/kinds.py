"""Types of exchanges, and what each makes of arguments."""

from collections.abc import Callable
from enum import Enum

from kafkaesque.routing.errors import BadSelector
from kafkaesque.routing.exchanges.errors import BadArgument, UnknownExchangeKind
from kafkaesque.routing.exchanges.records import Arguments
from kafkaesque.routing.selectors.selector import Selector, read_selector


class Kind(Enum):
    """Types of exchanges; the values are AMQP's and RabbitMQ's words."""

    DIRECT = "direct"
    FANOUT = "fanout"
    TOPIC = "topic"
    HEADERS = "headers"
    CONSISTENT_HASH = "x-consistent-hash"
    MODULUS_HASH = "x-modulus-hash"
    RANDOM = "x-random"
    LOCAL_RANDOM = "x-local-random"
    DELAYED = "x-delayed-message"


#: Kinds that choose one of their bindings.
CHOOSING = frozenset((Kind.CONSISTENT_HASH, Kind.MODULUS_HASH, Kind.RANDOM, Kind.LOCAL_RANDOM))

ALTERNATE = "alternate-exchange"
#: The topic in which messages that are published to an exchange are kept once for all queues; a
#: policy says it as `log`.
LOG = "x-log"
LOG_OF_POLICY = "log"
DELAYED_TYPE = "x-delayed-type"
#: A selector: the binding passes on only messages for which it is true.
FILTER = "x-filter"
#: So many levels of the name choose the partition of a topic that a binding leads to.
KEY_LEVELS = "x-key-levels"
#: Of the bindings of a topic exchange that say so, only the most specific ones that match count.
LONGEST_MATCH = "x-longest-match"
#: The name of a transformation: what goes that way is changed by it.
TRANSFORMATION = "x-transformation"
HASH_HEADER = "hash-header"
HASH_PROPERTY = "hash-property"
MATCH = "x-match"

HASH_PROPERTIES = ("correlation_id", "message_id", "timestamp")
#: (whether all pairs have to match, whether those that begin with `x-` count)
MATCH_WORDS = {
    "all": (True, False),
    "any": (False, False),
    "all-with-x": (True, True),
    "any-with-x": (False, True),
}
#: A name of AMQP has no more levels.
KEY_LEVELS_MAX = 256
#: Weight of a binding of a consistent hash exchange.
WEIGHT_MAX = 10_000


def read_kind(word: str) -> Kind:
    """Return the kind that a word names.

    Raises:
        UnknownExchangeKind: it names none.
    """
    try:
        return Kind(word)
    except ValueError:
        raise UnknownExchangeKind(f"unknown exchange type '{word}'") from None


def matching_kind(kind: Kind, arguments: Arguments) -> Kind:
    """Return how an exchange matches: its own kind, or the one that a delayed exchange names.

    Raises:
        BadArgument: a delayed exchange names none that there is.
    """
    if kind is not Kind.DELAYED:
        return kind
    word = arguments.get(DELAYED_TYPE)
    if word is None:
        raise BadArgument(f"{DELAYED_TYPE} is missing: it names the type that routes the messages")
    try:
        found = Kind(word)
    except ValueError:
        found = Kind.DELAYED
    if found is Kind.DELAYED:
        raise BadArgument(f"{DELAYED_TYPE} has to name another type of exchange, not {word!r}")
    return found


def check_exchange(kind: Kind, arguments: Arguments) -> None:
    """Check the arguments of an exchange.

    Raises:
        BadArgument: one has a value that it cannot have.
    """
    matching_kind(kind, arguments)
    alternate = arguments.get(ALTERNATE)
    if alternate is not None and not isinstance(alternate, str):
        raise BadArgument(f"{ALTERNATE} has to be a text, not {alternate!r}")
    check_log(arguments.get(LOG))
    header, name = arguments.get(HASH_HEADER), arguments.get(HASH_PROPERTY)
    if header is not None and name is not None:
        raise BadArgument(f"an exchange has {HASH_HEADER} or {HASH_PROPERTY}, not both")
    if header is not None and (not isinstance(header, str) or not header):
        raise BadArgument(f"{HASH_HEADER} has to be a header's name, not {header!r}")
    if name is not None and name not in HASH_PROPERTIES:
        raise BadArgument(f"{HASH_PROPERTY} has to be one of {', '.join(HASH_PROPERTIES)}")


def check_log(topic: object) -> None:
    """Check what an exchange or a policy says of the topic that keeps messages.

    Raises:
        BadArgument: it is no name.
    """
    if topic is not None and (not isinstance(topic, str) or not topic):
        raise BadArgument(f"{LOG} has to be a topic's name, not {topic!r}")


def check_binding(kind: Kind, key: str, arguments: Arguments) -> None:
    """Check key and arguments of a binding of an exchange that matches so.

    Raises:
        BadArgument: one has a value that it cannot have.
    """
    if kind is Kind.CONSISTENT_HASH:
        read_weight(key)
    word = arguments.get(MATCH, "all")
    # A table or an array is no key that could be looked for.
    if kind is Kind.HEADERS and not (isinstance(word, str) and word in MATCH_WORDS):
        raise BadArgument(f"{MATCH} has to be one of {', '.join(MATCH_WORDS)}, not {word!r}")
    read_key_levels(arguments)
    read_transformation(arguments)
    _check_longest_match(kind, arguments)
    if check_filter(arguments) is not None and kind in CHOOSING:
        raise BadArgument(f"{FILTER} has no place in an exchange of type {kind.value}")


def read_weight(key: str) -> int:
    """Return the weight that a binding's key says.

    Raises:
        BadArgument: it says none, or one that is out of range.
    """
    if not key.isascii() or not key.isdecimal() or len(key) > 9 or not 0 < int(key) <= WEIGHT_MAX:
        raise BadArgument(f"the key has to be a weight from 1 to {WEIGHT_MAX}, not {key[:40]!r}")
    return int(key)


def read_key_levels(arguments: Arguments) -> int:
    """Return how many levels of the name choose a topic's partition; 0: all of them.

    Raises:
        BadArgument: it is no number that it can be.
    """
    found = arguments.get(KEY_LEVELS)
    if found is None:
        return 0
    if not isinstance(found, int) or isinstance(found, bool) or not 0 < found <= KEY_LEVELS_MAX:
        raise BadArgument(
            f"{KEY_LEVELS} has to be a number from 1 to {KEY_LEVELS_MAX}, not {found!r}"
        )
    return int(found)


def _check_longest_match(kind: Kind, arguments: Arguments) -> None:
    found = arguments.get(LONGEST_MATCH, False)
    if kind is Kind.TOPIC:
        if not isinstance(found, bool):
            raise BadArgument(f"{LONGEST_MATCH} has to be true or false, not {found!r}")
    elif found is True:
        raise BadArgument(f"{LONGEST_MATCH} has no place in an exchange of type {kind.value}")


def read_transformation(arguments: Arguments) -> str:
    """Return the name of the transformation that a binding's arguments say; empty: none.

    Raises:
        BadArgument: it is no name.
    """
    found = arguments.get(TRANSFORMATION)
    if found is None:
        return ""
    if not isinstance(found, str) or not found:
        raise BadArgument(f"{TRANSFORMATION} has to be a transformation's name, not {found!r}")
    return found


def check_filter(arguments: Arguments) -> Selector | None:
    """Return the filter that somebody gives now, compiled; see `read_selector`.

    Raises:
        BadArgument: it is no selector, or no condition.
    """
    return _read_filter(arguments, read_selector)


def read_filter(arguments: Arguments) -> Selector | None:
    """Return the filter that a binding's arguments have, compiled.

    Raises:
        BadArgument: it is no selector.
    """
    return _read_filter(arguments, Selector)


def _read_filter(arguments: Arguments, read: Callable[[str], Selector]) -> Selector | None:
    text = arguments.get(FILTER)
    if text is None:
        return None
    if not isinstance(text, str):
        raise BadArgument(f"{FILTER} has to be a text, not {text!r}")
    try:
        return read(text)
    except BadSelector as error:
        raise BadArgument(f"{FILTER}: {error}") from None
