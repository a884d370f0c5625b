"""What a queue is asked to do: limits, delays, dead letters, order; it may change at any time.

A policy is a decision like others: it is replayed from the log, so what was decided under an old
one stands. A new one holds for what is decided from then on, with two exceptions that cannot be
otherwise without reading all that waits: priorities and groups are taken from messages as they
arrive, and sizes of messages that arrived before bytes were counted are taken as their mean.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import IntEnum

from kafkaesque.model.errors import InvalidConfig
from kafkaesque.queues.runs import BadDecision, Reader, Writer

PRIORITIES_MAX = 32
#: Identities that a window of de-duplication may have to remember, if it is not told otherwise.
DEDUPLICATION_COUNT = 1_000_000


class Overflow(IntEnum):
    """What happens when a queue is longer than it may be."""

    DROP_HEAD = 0
    REJECT = 1
    #: The head becomes a dead letter.
    DEAD_LETTER = 2
    #: The publisher is refused, and the message becomes a dead letter, if they have a place.
    REJECT_AND_DEAD_LETTER = 3


class Sharing(IntEnum):
    """Which of the sessions that are attached are given messages."""

    ALL = 0
    #: One at a time; the next when it is gone.
    SINGLE_ACTIVE = 1
    #: One, and no other may attach.
    EXCLUSIVE = 2


class Undeliverable(IntEnum):
    """What becomes of a message that is given up where no queue or topic takes dead letters."""

    #: It is set aside in its own queue, until somebody decides.
    PARK = 0
    DROP = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """All options of a queue; 0 is "none" where nothing else is said."""

    #: How long a message is locked for who takes it, if he does not say.
    lock_ms: int = 30_000
    #: Attempts that may fail before a message is given up.
    attempts_max: int = 0
    #: A message that is given back waits so long, twice as long each time, at most so long.
    retry_ms_min: int = 0
    retry_ms_max: int = 0
    #: Messages wait so long before they are there, if they do not say.
    delay_ms: int = 0
    #: Messages live so long, at most.
    ttl_ms: int = 0
    priorities: int = 1
    #: Every eighth message is taken from the lowest priority, so that none starves.
    is_fair: bool = False
    #: Messages of one group are given out one after the other.
    is_ordered: bool = False
    messages_max: int = 0
    bytes_max: int = 0
    #: Whether limits count what is in flight.
    counts_in_flight: bool = False
    #: Whether bytes are counted; they are where `bytes_max` is set.
    counts_bytes: bool = False
    overflow: Overflow = Overflow.DROP_HEAD
    #: Where dead letters go, as the host understands it; empty: nowhere.
    dead_letters_to: str = ""
    undeliverable: Undeliverable = Undeliverable.PARK
    sharing: Sharing = Sharing.ALL
    deduplication_ms: int = 0
    deduplication_count: int = DEDUPLICATION_COUNT
    #: Messages that may be in flight.
    in_flight_max: int = 0
    #: A session that has not come back so long after a change of leader is gone.
    grace_ms: int = 30_000
    #: Messages per second that a redrive moves.
    redrive_rate: int = 0
    #: Groups are given messages in turn: a busy one does not let the others wait behind it.
    is_fair_by_group: bool = False
    #: A message does not outlive its time before somebody has had it; after that it does.
    keeps_begun: bool = False
    #: No message may wait: what nobody takes at once is too much.
    holds_nothing: bool = False

    def check(self) -> None:
        """Refuse what cannot be.

        Raises:
            InvalidConfig: a number is out of range, or two options exclude one another.
        """
        negative = [name for name, value in _numbers(self) if value < 0]
        if negative:
            raise InvalidConfig(f"{negative[0]} is negative")
        if not 1 <= self.priorities <= PRIORITIES_MAX:
            raise InvalidConfig(f"priorities must be 1 to {PRIORITIES_MAX}, not {self.priorities}")
        if self.is_ordered and self.priorities > 1:
            raise InvalidConfig("messages are ordered by group or by priority, not by both")
        if self.is_fair_by_group and (self.is_ordered or self.priorities > 1):
            what = "ordered by group" if self.is_ordered else "have priorities"
            raise InvalidConfig(f"messages that {what} are not given to groups in turn")
        if self.overflow is Overflow.DEAD_LETTER and not self.dead_letters_to:
            raise InvalidConfig("overflow to dead letters needs a place for them")
        if self.retry_ms_max and self.retry_ms_max < self.retry_ms_min:
            raise InvalidConfig("retry_ms_max is less than retry_ms_min")

    @property
    def reads_groups(self) -> bool:
        """Whether it matters which group a message is of."""
        return self.is_ordered or self.is_fair_by_group

    @property
    def is_sized(self) -> bool:
        """Whether bytes are counted."""
        return self.counts_bytes or self.bytes_max > 0

    @property
    def is_freed_by_settling(self) -> bool:
        """Whether somebody may wait for a settlement: the next of its group, or who needs room."""
        return self.is_ordered or self.in_flight_max > 0 or self.counts_in_flight

    @property
    def refuses(self) -> bool:
        """Whether publishers are refused when the queue is too long."""
        return self.overflow in (Overflow.REJECT, Overflow.REJECT_AND_DEAD_LETTER)

    @property
    def keeps_refused(self) -> bool:
        """Whether what publishers are refused becomes a dead letter."""
        return self.overflow is Overflow.REJECT_AND_DEAD_LETTER and bool(self.dead_letters_to)

    def retry_after_ms(self, failures: int) -> int:
        """Return how long a message waits that has failed so often."""
        if not self.retry_ms_min:
            return 0
        longest = max(self.retry_ms_max, self.retry_ms_min)
        # 2 ** 40 ms are 34 years.
        return min(longest, self.retry_ms_min << min(max(failures - 1, 0), 40))


def _numbers(policy: Policy) -> list[tuple[str, int]]:
    names = (each.name for each in fields(Policy) if each.name != "dead_letters_to")
    return [(name, int(getattr(policy, name))) for name in names]


def write_policy(policy: Policy, writer: Writer) -> None:
    """Write the options that are not as they are by default, by their places."""
    changed = [
        (number, getattr(policy, each.name))
        for number, each in enumerate(fields(Policy))
        if getattr(policy, each.name) != each.default
    ]
    writer.number(len(changed))
    for number, value in changed:
        writer.number(number)
        if isinstance(value, str):
            writer.number(1)
            writer.text(value)
        else:
            writer.number(0)
            writer.number(int(value))


def read_policy(reader: Reader) -> Policy:
    """Read what `write_policy` wrote; options of later releases are passed over.

    Raises:
        BadDecision: it is not a policy.
    """
    options: dict[str, int | str] = {}
    known = fields(Policy)
    for _ in range(reader.count()):
        number, is_text = reader.number(), reader.number()
        value = reader.text() if is_text else reader.number()
        if number >= len(known):
            continue
        name = known[number].name
        kind: Callable[[int | str], int | str] = type(known[number].default)  # type: ignore[assignment]
        if isinstance(value, str) != (kind is str):
            raise BadDecision(f"option {name} is {value!r}")
        try:
            options[name] = kind(value)
        except ValueError as error:
            raise BadDecision(f"option {name} is {value}") from error
    policy = Policy(**options)  # type: ignore[arg-type]
    try:
        policy.check()
    except InvalidConfig as error:
        raise BadDecision(f"a policy that cannot be: {error}") from error
    return policy
