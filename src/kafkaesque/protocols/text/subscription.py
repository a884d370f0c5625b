"""Subscription ids, which hold all that there is to know about a subscription.

No broker keeps subscriptions: the id *is* the subscription, and is good on every broker, for as
long as anybody remembers it. It reads `<group>/<partitions>/<check>`, for example
`readers/0-3,7/5c1f2a`; partitions are `all` where none were named, which includes those that the
topic may get later. The check is a CRC-32C over topic, group and partitions, cut to 24 bits: it
finds misspelt ids and those of another topic. It is no protection against anybody.
"""

from dataclasses import dataclass

from kafkaesque.model.checksum import crc32c
from kafkaesque.protocols.text.errors import BadCommand
from kafkaesque.protocols.text.examples import CONSUME_NEXT, SUBSCRIBE, SUBSCRIBE_SOME

ALL_PARTITIONS = "all"
#: The number of partitions that one subscription may name.
PARTITIONS_MAX = 10_000
#: Partitions are numbered below this.
PARTITION_END = 1_000_000
GROUP_LENGTH_MAX = 249

_CHECK_BITS = 24
_ID_EXAMPLE = f"{SUBSCRIBE} and then, with the id that it answers, {CONSUME_NEXT}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A group's interest in partitions of a topic."""

    topic: str
    group: str
    #: Ascending; None for all that there are.
    partitions: tuple[int, ...] | None

    @property
    def subscription_id(self) -> str:
        """The id that a person is given."""
        partitions = write_partitions(self.partitions)
        return f"{self.group}/{partitions}/{_check(self.topic, self.group, partitions)}"


def read_subscription(topic: str, subscription_id: str) -> Subscription:
    """Return the subscription that an id stands for.

    Raises:
        BadCommand: it is none, or none of this topic.
    """
    parts = subscription_id.rsplit("/", 2)
    if len(parts) != 3 or not parts[0]:
        raise BadCommand(f"{subscription_id!r} is not a subscription id", _ID_EXAMPLE)
    group, partitions, check = parts
    if check != _check(topic, group, partitions):
        raise BadCommand(
            f"{subscription_id!r} is misspelt, or a subscription to another topic than {topic!r}",
            _ID_EXAMPLE,
        )
    return Subscription(topic=topic, group=group, partitions=read_partitions(partitions))


def check_group(group: str) -> None:
    """Refuse what is no group's name.

    Raises:
        BadCommand: it is too long or cannot be printed.
    """
    if len(group) > GROUP_LENGTH_MAX:
        raise BadCommand(
            f"a group's name has at most {GROUP_LENGTH_MAX} characters, this has {len(group)}",
            SUBSCRIBE_SOME,
        )
    if not group.isprintable():
        raise BadCommand(f"the group's name {group!r} cannot be printed", SUBSCRIBE_SOME)


def read_partitions(text: str) -> tuple[int, ...] | None:
    """Return the partitions in a list such as `0,2-5`, ascending; None for `all`.

    Raises:
        BadCommand: it is no such list.
    """
    if text.lower() == ALL_PARTITIONS:
        return None
    found: set[int] = set()
    for piece in text.split(","):
        first_text, dash, last_text = piece.partition("-")
        first = _read_number(first_text, text)
        last = _read_number(last_text, text) if dash else first
        if last < first:
            raise BadCommand(f"{piece!r} in {text!r} counts backwards", SUBSCRIBE_SOME)
        if last - first >= PARTITIONS_MAX or len(found) > PARTITIONS_MAX:
            raise BadCommand(
                f"{text!r} names more than {PARTITIONS_MAX} partitions", SUBSCRIBE_SOME
            )
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def _read_number(digits: str, text: str) -> int:
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= len(str(PARTITION_END))
    if not is_number or int(digits) >= PARTITION_END:
        raise BadCommand(f"{text!r} is not a list of partitions", SUBSCRIBE_SOME)
    return int(digits)


def write_partitions(partitions: tuple[int, ...] | None) -> str:
    """Return the shortest list of ascending partitions."""
    if partitions is None:
        return ALL_PARTITIONS
    runs: list[list[int]] = []
    for number in partitions:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _check(topic: str, group: str, partitions: str) -> str:
    value = crc32c("\0".join((topic, group, partitions)).encode())
    return f"{value & (1 << _CHECK_BITS) - 1:06x}"
