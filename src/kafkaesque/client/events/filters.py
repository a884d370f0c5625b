"""Which events a subscriber wants."""

import re
from dataclasses import dataclass
from typing import Final

from kafkaesque.client.errors import InvalidArgument
from kafkaesque.client.streams.records import StreamRecord
from kafkaesque.routing.errors import BadName, BadSelector
from kafkaesque.routing.message import RoutedMessage
from kafkaesque.routing.names import AMQP, MANY, ONE, NameFilter
from kafkaesque.routing.selectors.selector import read_selector

#: Topics that begin so are the brokers' own.
_INTERNAL: Final = "__"
_LEVEL: Final = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Filter:
    """Events of topics whose names match, and for which the expression is true.

    In names, levels are parted by dots; `*` is one level and `#` any number of them, none included:
    `orders.*.created`, `orders.#`. The expression is a selector: SQL-92's conditions as JMS has
    them, over headers by their names and JSON by paths, as in `region = 'eu' AND $.amount > 10`.
    Headers are texts.
    """

    topics: str = "#"
    where: str = ""


class CompiledFilter:
    """The same, compiled once."""

    __slots__ = ("_names", "_selector", "topics")

    def __init__(self, wanted: Filter) -> None:
        """Compile it.

        Raises:
            InvalidArgument: the pattern or the expression is none; says what is wrong, and where.
        """
        for level in wanted.topics.split("."):
            if level not in ("*", "#") and not _LEVEL.fullmatch(level):
                raise InvalidArgument(
                    f"{wanted.topics!r} is no pattern of topics: between dots there is '*' or '#', "
                    "or there are letters, digits, '_' and '-'"
                )
        try:
            self._names: Final = AMQP.read_filter(wanted.topics)
            self._selector: Final = read_selector(wanted.where) if wanted.where else None
        except (BadName, BadSelector) as error:
            raise InvalidArgument(f"{wanted.where or wanted.topics!r}: {error}") from None
        #: A topic, or a regular expression as librdkafka has them.
        self.topics: Final = _expression(self._names) if self._names.has_wildcard else wanted.topics

    @property
    def is_pattern(self) -> bool:
        """Whether more than one topic may match, also one that is not there yet."""
        return self._names.has_wildcard

    def matches_topic(self, topic: str) -> bool:
        """Tell whether events of a topic may match."""
        is_own = topic.startswith(_INTERNAL) and self._names.has_wildcard
        return not is_own and self._names.matches(tuple(topic.split(".")))

    def matches(self, record: StreamRecord) -> bool:
        """Tell whether an event matches."""
        if not self.matches_topic(record.topic):
            return False
        if self._selector is None:
            return True
        properties = {"routing_key": record.topic, "timestamp": record.timestamp_ms}
        message = RoutedMessage(
            key=record.topic,
            headers=record.headers,
            properties=properties,
            body=record.raw_value or b"",
        )
        return self._selector.matches(message)


def _expression(names: NameFilter) -> str:
    """Return the regular expression for a filter with wildcards."""
    found, separator = "^", ""
    for number, level in enumerate(names.levels):
        if level is MANY and number:
            found += r"(\..*)?"
        elif level is MANY:
            found += ".*" if len(names.levels) == 1 else r"(.*\.)?"
        else:
            found += separator + ("[^.]*" if level is ONE else str(level))
        separator = "" if level is MANY and not number else r"\."
    return f"{found}$"


def as_filter(wanted: Filter | str) -> CompiledFilter:
    """Compile a filter, or a pattern of topics.

    Raises:
        InvalidArgument: as `CompiledFilter`.
    """
    return CompiledFilter(Filter(wanted) if isinstance(wanted, str) else wanted)
