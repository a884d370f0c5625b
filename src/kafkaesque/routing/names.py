"""Names of messages: tuples of levels, and how MQTT, AMQP and NATS write them.

Theory of operation. A name is a tuple of one or more levels; a level is any text, the empty one
included. Each protocol's grammar maps its texts to names one to one, both ways: what a client wrote
is given back to clients of the same protocol letter by letter, and a name that came from another
protocol survives the way there and back.

What a protocol cannot hold within a level (its separator, MQTT's wildcards, spaces in NATS) is
written as `%` and two hexadecimal digits. A text that looks like such an escape anyway is told from
a real one by one more `25` behind its `%`; every other `%` stands for itself:

| level     | MQTT      | AMQP        | NATS        |
|-----------|-----------|-------------|-------------|
| `a.b`     | `a.b`     | `a%2Eb`     | `a%2Eb`     |
| `a/b`     | `a%2Fb`   | `a/b`       | `a/b`       |
| `a%2Eb`   | `a%2Eb`   | `a%252Eb`   | `a%252Eb`   |
| `100%`    | `100%`    | `100%`      | `100%`      |
| (empty)   | (empty)   | (empty)     | `%`         |

A level that is empty is `%` where the protocol has none: everywhere in NATS, and in MQTT if it is
all of the name. Names with bytes that are no UTF-8 (AMQP and NATS allow them) hold these as lone
surrogates, as Python's `surrogateescape` does, and cannot be written for MQTT.

The *key* of a name is its text in MQTT's grammar. Indexes and caches use it for all protocols,
because for most names it is made by one `replace`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, NewType

from kafkaesque.routing.errors import BadName, NotExpressible

#: A name.
Levels = tuple[str, ...]
#: A name's text in MQTT's grammar.
NameKey = NewType("NameKey", str)


class Wildcard(Enum):
    """What a filter has in place of a level."""

    #: Exactly one level.
    ONE = "one"
    #: Any number of levels, and none.
    MANY = "many"


ONE = Wildcard.ONE
MANY = Wildcard.MANY
#: A filter's levels.
FilterLevels = tuple[str | Wildcard, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NameFilter:
    """A set of names: those that have these levels.

    A run of wildcards is kept as all its ONEs and then one MANY, which means the same.
    """

    levels: FilterLevels
    #: Whether a wildcard at its beginning passes over names that begin with `$` (MQTT 4.7.2-1).
    skips_dollar: bool = False

    def __post_init__(self) -> None:
        if MANY in self.levels[:-1]:
            object.__setattr__(self, "levels", tuple(_in_order(self.levels)))

    @property
    def has_wildcard(self) -> bool:
        """Whether more than one name may match."""
        return any(isinstance(level, Wildcard) for level in self.levels)

    def matches(self, name: Levels) -> bool:
        """Tell whether a name is in the set, in steps bounded by the product of both lengths."""
        if self.skips_dollar and name[0].startswith("$"):
            return False
        return _matches(self.levels, name)


#: How specific a filter is: how many levels it has but for MANY, and how many of them are words.
#: Of two filters the longer one is more specific.
Length = tuple[int, int]
#: Shorter than every filter.
NO_LENGTH: Final[Length] = (-1, -1)


def length_of(name_filter: NameFilter) -> Length:
    """Return how specific a filter is."""
    levels = [each for each in name_filter.levels if each is not MANY]
    return len(levels), sum(each is not ONE for each in levels)


def _matches(levels: FilterLevels, name: Levels) -> bool:
    """Match greedily: only the last MANY that was passed is ever widened."""
    at = position = 0
    many_at, many_position = -1, 0
    while position < len(name):
        level = levels[at] if at < len(levels) else None
        if level is MANY:
            many_at, many_position = at, position
            at += 1
        elif level is ONE or (level is not None and level == name[position]):
            at += 1
            position += 1
        elif many_at >= 0:
            many_position += 1
            at, position = many_at + 1, many_position
        else:
            return False
    return all(level is MANY for level in levels[at:])


class EmptyLevels(Enum):
    """Where a protocol allows empty levels."""

    ANYWHERE = "anywhere"
    NOT_ALONE = "not alone"
    NOWHERE = "nowhere"


class ManyLevels(Enum):
    """What a protocol's wildcard for many levels stands for, and where it may be."""

    ZERO_ANYWHERE = "zero or more, anywhere"
    ZERO_LAST = "zero or more, last"
    ONE_LAST = "one or more, last"


#: An empty level where there can be none, and a text that has to be told from it.
_EMPTY = re.compile(r"%(?:25)*")


class Grammar:
    """How one protocol writes names and filters."""

    __slots__ = (
        "_escape",
        "_refused",
        "_special",
        "empty",
        "levels_max",
        "many",
        "many_levels",
        "name_bytes_max",
        "one",
        "protocol",
        "separator",
    )

    def __init__(
        self,
        *,
        protocol: str,
        separator: str,
        one: str,
        many: str,
        refused: str,
        empty: EmptyLevels,
        many_levels: ManyLevels,
        name_bytes_max: int,
        levels_max: int,
    ) -> None:
        """Make a grammar; `refused` are the characters that no level of a name can hold."""
        self.protocol = protocol
        self.separator = separator
        self.one = one
        self.many = many
        self.empty = empty
        self.many_levels = many_levels
        self.name_bytes_max = name_bytes_max
        self.levels_max = levels_max
        special = separator + refused
        codes = "|".join(f"{ord(each):02X}" for each in special)
        #: What is written otherwise than it stands in a level.
        self._special = re.compile(f"[{re.escape(special)}]|%(?:25)*(?:{codes})")
        #: What is read otherwise than it stands in a text.
        self._escape = re.compile(f"%(?:25)*(?:{codes})")
        self._refused = re.compile(f"[{re.escape(refused)}]") if refused else None

    # -- names

    def read_name(self, text: str) -> Levels:
        """Return the name that a client has written.

        Raises:
            BadName: it is none in this protocol, or beyond a bound.
        """
        self._check_size(text)
        if self._refused is not None:
            found = self._refused.search(text)
            if found is not None:
                raise BadName(f"{found[0]!r} cannot be part of a name in {self.protocol}")
        levels = text.split(self.separator)
        self._check_levels(levels)
        if "%" not in text:
            return tuple(levels)
        return tuple(self.read_level(level, len(levels)) for level in levels)

    def write_name(self, name: Levels) -> str:
        """Return how a name is written; its length may be beyond the protocol's bound.

        Raises:
            NotExpressible: it holds bytes that are no UTF-8, and the protocol allows no others.
        """
        text = self.separator.join(self.write_level(level, len(name)) for level in name)
        if self is MQTT and not _is_unicode(text):
            raise NotExpressible("the name is not UTF-8, and MQTT has no others")
        return text

    def key_of(self, text: str) -> NameKey:
        """Return the key of the name that a client has written.

        Raises:
            BadName: it is none in this protocol, or beyond a bound.
        """
        if self.separator == "." and text and not _NEEDS_CARE.search(text):
            if self.empty is EmptyLevels.ANYWHERE or self._is_plain(text):
                self._check_size(text)
                if text.count(".") < self.levels_max:
                    return NameKey(text.replace(".", "/"))
        return key_of_levels(self.read_name(text))

    def _is_plain(self, text: str) -> bool:
        """Tell whether a text has no empty level and nothing that a name cannot hold."""
        if ".." in text or text[0] == "." or text[-1] == ".":
            return False
        return self._refused is None or self._refused.search(text) is None

    def read_level(self, text: str, count: int) -> str:
        """Return the level that a text is, among so many."""
        if self._may_be_empty(count) or _EMPTY.fullmatch(text) is None:
            return self._escape.sub(_read_escape, text) if "%" in text else text
        return "" if text == "%" else "%" + text[3:]

    def write_level(self, level: str, count: int) -> str:
        """Return how a level is written, among so many."""
        if not self._may_be_empty(count):
            if not level:
                return "%"
            if _EMPTY.fullmatch(level):
                return "%25" + level[1:]
        return self._special.sub(_write_escape, level)

    def _may_be_empty(self, count: int) -> bool:
        """Tell whether a level may be empty, if there are so many."""
        if self.empty is EmptyLevels.NOT_ALONE:
            return count > 1
        return self.empty is EmptyLevels.ANYWHERE

    def _check_size(self, text: str) -> None:
        bytes_max = self.name_bytes_max
        # Four bytes for each character at most; most texts need not be encoded to be told.
        if len(text) * 4 <= bytes_max:
            return
        if len(text) > bytes_max or len(text.encode(errors="surrogateescape")) > bytes_max:
            raise BadName(f"a name in {self.protocol} has at most {bytes_max} bytes")

    def _check_levels(self, levels: list[str]) -> None:
        if len(levels) > self.levels_max:
            raise BadName(f"a name in {self.protocol} has at most {self.levels_max} levels")
        if not self._may_be_empty(len(levels)) and "" in levels:
            raise BadName(f"an empty level cannot be here in {self.protocol}")

    # -- filters

    def read_filter(self, text: str) -> NameFilter:
        """Return the filter that a client has written.

        Raises:
            BadName: it is none in this protocol, or beyond a bound.
        """
        self._check_size(text)
        words = text.split(self.separator)
        self._check_levels(words)
        levels = tuple(self._read_filter_levels(words))
        skips_dollar = self is MQTT and isinstance(levels[0], Wildcard)
        return NameFilter(levels=levels, skips_dollar=skips_dollar)

    def _read_filter_levels(self, words: list[str]) -> Iterator[str | Wildcard]:
        for number, word in enumerate(words):
            if word == self.one:
                yield ONE
            elif word == self.many:
                if self.many_levels is not ManyLevels.ZERO_ANYWHERE and number + 1 < len(words):
                    raise BadName(f"{self.many!r} has to be the last level in {self.protocol}")
                if self.many_levels is ManyLevels.ONE_LAST:
                    yield ONE
                yield MANY
            else:
                if self._refused is not None:
                    self._check_word(word)
                yield self.read_level(word, len(words))

    def _check_word(self, word: str) -> None:
        found = self._refused.search(word) if self._refused is not None else None
        if found is None:
            return
        if found[0] in (self.one, self.many):
            raise BadName(f"{found[0]!r} has to be all of a level in {self.protocol}")
        raise BadName(f"{found[0]!r} cannot be part of a filter in {self.protocol}")

    def write_filters(self, name_filter: NameFilter) -> tuple[str, ...]:
        """Return how to say a filter: mostly in one text, where NATS may need two.

        Whether wildcards at the beginning pass over `$` is not written down.

        Raises:
            NotExpressible: the protocol has nothing of the kind.
        """
        levels = name_filter.levels
        is_inner = MANY in levels[:-1]
        if is_inner and self.many_levels is not ManyLevels.ZERO_ANYWHERE:
            raise NotExpressible(f"{self.protocol} has no wildcard for many levels but at the end")
        if self.many_levels is not ManyLevels.ONE_LAST or levels[-1] is not MANY:
            return (self._write_filter(levels),)
        if levels == (MANY,) or levels[-2] is ONE:
            return (self._write_filter((*levels[:-2], MANY)),)
        return self._write_filter(levels[:-1]), self._write_filter(levels)

    def _write_filter(self, levels: FilterLevels) -> str:
        words = []
        for level in levels:
            if isinstance(level, Wildcard):
                words.append(self.one if level is ONE else self.many)
                continue
            word = self.write_level(level, len(levels))
            if word in (self.one, self.many):
                raise NotExpressible(f"{word!r} is always a wildcard in {self.protocol}")
            words.append(word)
        return self.separator.join(words)


def _write_escape(found: re.Match[str]) -> str:
    text = found[0]
    return "%25" + text[1:] if text[0] == "%" else f"%{ord(text):02X}"


def _read_escape(found: re.Match[str]) -> str:
    text = found[0]
    return "%" + text[3:] if text.startswith("%25") else chr(int(text[1:], 16))


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _in_order(levels: FilterLevels) -> Iterator[str | Wildcard]:
    """Yield the levels with each run of wildcards as ONEs and one MANY."""
    is_many_due = False
    for level in levels:
        if level is MANY:
            is_many_due = True
            continue
        if is_many_due and level is not ONE:
            yield MANY
            is_many_due = False
        yield level
    if is_many_due:
        yield MANY


#: MQTT 5.0, sections 1.5.4 and 4.7.
MQTT = Grammar(
    protocol="MQTT",
    separator="/",
    one="+",
    many="#",
    refused="+#\0",
    empty=EmptyLevels.NOT_ALONE,
    many_levels=ManyLevels.ZERO_LAST,
    name_bytes_max=4096,
    levels_max=32,
)

#: Topic exchanges (AMQP 0-9-1, section 3.1.3.3); STOMP's brokers do the same.
AMQP = Grammar(
    protocol="AMQP",
    separator=".",
    one="*",
    many="#",
    refused="",
    empty=EmptyLevels.ANYWHERE,
    many_levels=ManyLevels.ZERO_ANYWHERE,
    # A short string; it has no more levels than this.
    name_bytes_max=255,
    levels_max=256,
)

#: Names with `*` and `>` are allowed, as nats-server allows them to clients that are not pedantic.
NATS = Grammar(
    protocol="NATS",
    separator=".",
    one="*",
    many=">",
    refused=" \t\r\n",
    empty=EmptyLevels.NOWHERE,
    many_levels=ManyLevels.ONE_LAST,
    name_bytes_max=4096,
    levels_max=128,
)

#: What makes a key other than the text with its separators replaced.
_NEEDS_CARE = re.compile(r"[%/+#\0]")


def key_of_levels(name: Levels) -> NameKey:
    """Return the key of a name."""
    write = MQTT.write_level
    return NameKey("/".join([write(level, len(name)) for level in name]))


def key_of_routing_key(text: str) -> NameKey:
    """Return the key of a name in AMQP's grammar, which may be longer than AMQP allows."""
    if text and not _NEEDS_CARE.search(text):
        return NameKey(text.replace(".", "/"))
    levels = text.split(".")
    return key_of_levels(tuple(AMQP.read_level(level, len(levels)) for level in levels))


def levels_of_key(key: NameKey) -> Levels:
    """Return the name that has this key."""
    levels = key.split("/")
    return tuple(MQTT.read_level(level, len(levels)) for level in levels)
