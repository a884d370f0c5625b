"""What clients of queues sent, were told and were given; nothing of how brokers do it.

Times are true time in milliseconds. An outcome is known, or it is not: then what was asked may have
been done, at any time after it was sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

FOREVER: Final = float("inf")


class Outcome(Enum):
    """What somebody knows of what he has asked."""

    #: Nobody answered, or the answer says that nobody knows.
    UNKNOWN = auto()
    DONE = auto()
    #: It was refused, and will not be done; of a settlement: the claim fitted to nothing any more.
    #: A broker may have asked twice: then the first may have done it.
    REFUSED = auto()


class What(Enum):
    """What becomes of a message that was taken."""

    SETTLE = auto()
    RELEASE = auto()
    FAIL = auto()
    REJECT = auto()
    EXTEND = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSpec:
    """A queue, and what its clients may rely on."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    #: The queue that takes what is given up; empty: it is parked, and lives.
    dead_letters_to: str = ""
    #: Attempts that may fail.
    limit: int = 0
    is_ordered: bool = False
    #: Groups of an ordered queue, and how many of its messages are in none: all but one in so many.
    groups: int = 4
    grouped_one_in: int = 1
    #: Whether each message has an identity, and is sent until it is confirmed.
    is_unique: bool = False
    #: Whether messages end without anybody settling them.
    has_lives: bool = False
    priorities: int = 1
    #: Whether what waits comes in the order in which it was put.
    is_plain: bool = False
    #: The shortest lock that the queue's options give during a run.
    lock_ms_min: int = 0
    #: Options that change while it is used: each to one of several values.
    changes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_purged: bool = False
    #: Whether consumers have to be attached.
    is_single: bool = False
    #: Its messages are this topic's, of which others say what was acknowledged.
    topic: str = ""
    publishers: int = 1
    workers: int = 2
    consumers: int = 0
    #: Messages of one request, at most.
    put_max: int = 4
    take_max: int = 6
    #: A publisher pauses so long for each message, after so many of the first.
    put_pause_ms: int = 80
    put_at_once: int = 0
    #: Locks that workers ask for; -1: as the queue has it.
    locks_ms: tuple[int, ...] = (-1, -1, 300, 1_000, 3_000)
    #: So long they work on what they have, at least and at most.
    work_ms: tuple[int, int] = (0, 120)


@dataclass(slots=True, kw_only=True, eq=False)
class Sent:
    """A message that was put into a queue, once; one with an identity perhaps several times."""

    queue: str
    value: bytes
    sent_ms: float
    group: bytes = b""
    identity: bytes = b""
    priority: int = 0
    #: By the publisher's wall clock, which is right; 0: none.
    not_before_ms: int = 0
    not_after_ms: int = 0
    outcome: Outcome = Outcome.UNKNOWN
    #: Where confirmations say that it is.
    offsets: set[int] = field(default_factory=set)


@dataclass(slots=True, kw_only=True, eq=False)
class Act:
    """What a worker asked for a message that he had taken."""

    what: What
    sent_ms: float
    lock_ms: int = 0
    outcome: Outcome = Outcome.UNKNOWN


@dataclass(slots=True, kw_only=True, eq=False)
class Delivery:
    """A message that was given to a worker."""

    queue: str
    partition: int
    offset: int
    attempt: int
    failures: int
    value: bytes
    #: The queue and the reason of each time that it was given up, the first one first.
    deaths: tuple[tuple[str, str, int], ...]
    #: When it was asked for, and when it came.
    sent_ms: float
    answered_ms: float
    #: The shortest time that it is locked for; 0: as long as its consumer is attached.
    lock_ms: int
    #: By the wall clock of the client.
    sent_wall_ms: int
    answered_wall_ms: int
    acts: list[Act] = field(default_factory=list)
    #: When its consumer may have hung up, of those that are attached.
    let_go_ms: float = FOREVER
    #: Whether its consumer took its leave in order, so that the attempt need not count as failed.
    is_left: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class Purged:
    """All that waited in a queue was to go."""

    queue: str
    sent_ms: float
    #: When it was answered; for ever, if it was not.
    answered_ms: float = FOREVER


class QueueHistory:
    """All that was seen, in the order in which it was."""

    def __init__(self, specs: Mapping[str, QueueSpec]) -> None:
        self.specs: Final = specs
        self.sent: Final[dict[tuple[str, bytes], Sent]] = {}
        self.deliveries: Final[list[Delivery]] = []
        self.purges: Final[list[Purged]] = []
        #: By queue, what was acknowledged in the topic that its messages are of: by partition and
        #: value, the offset.
        self.records: Final[dict[str, Mapping[tuple[int, bytes], int]]] = {}
        #: Queue and value of what still waited for its time at the very end.
        self.waiting: Final[set[tuple[str, bytes]]] = set()
        #: What the brokers count at the very end, by queue.
        self.counts: Final[dict[str, dict[str, int]]] = {}
        #: Deliveries of the end, when all is healed and there is one consumer: in that order.
        self.drained: Final[dict[str, list[list[Delivery]]]] = {}

    def note_sent(self, sent: Sent) -> None:
        """A message is about to be put for the first time."""
        self.sent[sent.queue, sent.value] = sent

    def note_deliveries(self, deliveries: list[Delivery], *, is_drain: bool = False) -> None:
        """Messages came with one answer."""
        self.deliveries.extend(deliveries)
        if is_drain and deliveries:
            self.drained.setdefault(deliveries[0].queue, []).append(deliveries)

    def count_settled(self) -> int:
        """Return how many messages are known to be settled; one that comes again counts once."""
        return len({(each.queue, each.value) for each in self.deliveries if _is_settled(each)})

    def tally(self) -> dict[str, int]:
        """Return what went on, by name."""
        acts = [act for delivery in self.deliveries for act in delivery.acts]
        done = [act.what for act in acts if act.outcome is Outcome.DONE]
        return {
            "messages put": sum(each.outcome is Outcome.DONE for each in self.sent.values()),
            "puts in doubt": sum(each.outcome is Outcome.UNKNOWN for each in self.sent.values()),
            "puts refused": sum(each.outcome is Outcome.REFUSED for each in self.sent.values()),
            "deliveries": len(self.deliveries),
            "settled": done.count(What.SETTLE),
            "released": done.count(What.RELEASE),
            "failed": done.count(What.FAIL),
            "rejected": done.count(What.REJECT),
            "extended": done.count(What.EXTEND),
            "dead letters": len({(d.queue, d.offset) for d in self.deliveries if d.deaths}),
            "purges": len(self.purges),
        }


def _is_settled(delivery: Delivery) -> bool:
    return any(
        each.what is What.SETTLE and each.outcome is Outcome.DONE for each in tuple(delivery.acts)
    )
