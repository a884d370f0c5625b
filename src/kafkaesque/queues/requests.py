"""What a queue is asked, what it answers, and what follows from its decisions outside."""

from enum import Enum, auto
from typing import Final, NamedTuple

import msgspec

from kafkaesque.queues.arrival import Arrival
from kafkaesque.queues.decisions import Reason
from kafkaesque.queues.policy import Policy
from kafkaesque.queues.state import Place
from kafkaesque.tables.log_table import RequestToken, Respond

#: As much as there is.
UNBOUNDED = 2**62
#: Names somebody's wait for messages; no other one ever has the name.
WaitName = tuple[int, int, int]
#: Messages that a session asks for at a time. One that asks for so many may have room for more.
TAKEN_MAX = 256


class Claim(NamedTuple):
    """Messages that lie together and were given out together: their identity in a settlement.

    An attempt is given once, so a claim of somebody who had a message earlier fits to nothing.
    """

    first: int
    end: int
    attempt: int


# -- requests


class Attach(msgspec.Struct, frozen=True, kw_only=True):
    """A session is there, or there again after a change of leader. Answer: `Attached`."""

    token: RequestToken
    #: Names the session for ever: broker, incarnation and number, for example.
    session: bytes
    #: Messages go to sessions of the highest priority, as long as one of them has room.
    priority: int = 0
    #: Refused if another session is attached, and no other one may attach while it is.
    is_exclusive: bool = False
    #: It wants no more, and is there for what it has in flight.
    is_leaving: bool = False
    #: Its demands are over: answers to them reach nobody. `Attached` tells all that it has then.
    is_anew: bool = False


class Detach(msgspec.Struct, frozen=True, kw_only=True):
    """A session is gone for good: what it has in flight is ready again. Answer: `Done`."""

    token: RequestToken
    session: bytes
    #: Whether what it has in flight counts as failed: not where it took its leave.
    is_failed: bool = True


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A session may be given so many more, as they come (`Deliver`). Answer: `Done`."""

    token: RequestToken
    session: bytes
    messages: int
    #: At least one message is delivered while there is any credit of bytes.
    bytes: int = UNBOUNDED
    #: How long each is locked; None: by the policy; 0: until it is settled.
    lock_ms: int | None = None


class Take(msgspec.Struct, frozen=True, kw_only=True):
    """Give out some now, or as soon as there are any. Answer: `Taken`."""

    token: RequestToken
    #: Whose they are; None: of nobody whose end ends their locks.
    session: bytes | None = None
    messages_max: int = 1
    bytes_max: int = UNBOUNDED
    lock_ms: int | None = None
    #: How long to wait for the first.
    wait_ms: int = 0
    #: Whether several messages of one group may come together, in order; else one of each.
    has_groups: bool = False
    #: By which the wait can be made longer; no other one ever has the name.
    name: WaitName | None = None


class Settle(msgspec.Struct, frozen=True, kw_only=True):
    """Messages are done with. Answer: `Done`."""

    token: RequestToken
    claims: tuple[Claim, ...]
    #: Whether to take it also if the lock has ended, as long as nobody has had the message since.
    may_be_late: bool = False


class GiveBack(msgspec.Struct, frozen=True, kw_only=True):
    """Messages in flight are to be had again. Answer: `Done`."""

    token: RequestToken
    claims: tuple[Claim, ...]
    #: Whether their attempts count as failed.
    is_failed: bool = False
    #: Whether nobody has ever been sent one of them, at this attempt or before.
    is_unsent: bool = False
    to_tail: bool = False
    #: After so long; None: by the policy, where the attempts count.
    delay_ms: int | None = None


class Reject(msgspec.Struct, frozen=True, kw_only=True):
    """Messages are given up: dead letters, whatever their attempts. Answer: `Done`."""

    token: RequestToken
    claims: tuple[Claim, ...]
    #: As `Settle` has it.
    may_be_late: bool = False


class Extend(msgspec.Struct, frozen=True, kw_only=True):
    """Locks end so long from now; 0: when the messages are settled. Answer: `Done`."""

    token: RequestToken
    claims: tuple[Claim, ...]
    lock_ms: int


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction settles messages if it is committed. Answer: `Done`.

    Until `Finish` their locks do not end: that the transaction ends is its coordinator's matter.
    """

    token: RequestToken
    claims: tuple[Claim, ...]
    transaction: int


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction has ended; asked again it does nothing. Answer: `Done`."""

    token: RequestToken
    transaction: int
    is_committed: bool


class Purge(msgspec.Struct, frozen=True, kw_only=True):
    """All that waits now is gone. Answer: `Done`, when all is."""

    token: RequestToken
    #: Whether what consumers have is gone, too; not what a transaction is to settle.
    takes_in_flight: bool = False


class Configure(msgspec.Struct, frozen=True, kw_only=True):
    """The queue has another policy. Answer: `Done`."""

    token: RequestToken
    policy: Policy


class Redrive(msgspec.Struct, frozen=True, kw_only=True):
    """Move what is ready or parked now to another place; an empty one ends that. Answer: `Done`."""

    token: RequestToken
    target: str


class Unpark(msgspec.Struct, frozen=True, kw_only=True):
    """What is parked is ready again. Answer: `Done`."""

    token: RequestToken


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """What a `Move` asked for is done, and committed where it went. Answer: `Done`."""

    token: RequestToken
    offsets: tuple[int, ...]


class NotMoved(msgspec.Struct, frozen=True, kw_only=True):
    """It cannot be done: the target is gone, or the message has gone round too often.

    The messages are parked, or dropped if the policy says so. Answer: `Done`.
    """

    token: RequestToken
    offsets: tuple[int, ...]


class Arrived(msgspec.Struct, frozen=True, kw_only=True):
    """Committed messages of the log that this queue is a cursor over. Answer: `Done`."""

    token: RequestToken
    arrival: Arrival


class Overflowed(msgspec.Struct, frozen=True, kw_only=True):
    """There is no room for the messages from `first` to before `end`: dead letters. Answer: `Done`.

    Others may have come behind them in the same turn.
    """

    token: RequestToken
    first: int
    end: int


class Seek(msgspec.Struct, frozen=True, kw_only=True):
    """A cursor goes on at an offset of its source, and all that lives is gone. Answer: `Done`."""

    token: RequestToken
    offset: int


class Drop(msgspec.Struct, frozen=True, kw_only=True):
    """A cursor's source has nothing before an offset any more. Answer: `Done`."""

    token: RequestToken
    before: int


class NoteUse(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody uses the queue without having messages of it. Answer: `Done`."""

    token: RequestToken


class NoteDisuse(msgspec.Struct, frozen=True, kw_only=True):
    """Write down for how long nobody has used the queue; not if somebody does. Answer: `Done`."""

    token: RequestToken
    unused_ms: int
    #: By the leader's clock.
    wall_ms: int
    step_ms: int


Request = (
    Attach
    | Detach
    | Grant
    | Take
    | Settle
    | GiveBack
    | Reject
    | Extend
    | Stage
    | Finish
    | Purge
    | Configure
    | Redrive
    | Unpark
    | Moved
    | NotMoved
    | Arrived
    | Overflowed
    | Seek
    | Drop
    | NoteUse
    | NoteDisuse
)


# -- answers


class Refusal(Enum):
    """Why something was not done."""

    #: The host's: this broker leads no more, so perhaps it was done.
    NOT_LEADER = auto()
    NO_SESSION = auto()
    #: Another session has the queue for itself.
    EXCLUSIVE = auto()
    #: Only sessions are given messages, and the request is none's.
    NOT_ATTACHED = auto()
    OVER_BOUND = auto()
    #: The policy contradicts itself, or the request the policy.
    INVALID = auto()


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """It is done, but for claims that fit to nothing any more."""

    stale: tuple[Claim, ...] = ()


class Attached(msgspec.Struct, frozen=True, kw_only=True):
    """A session is known, with what it has in flight."""

    is_active: bool
    claims: tuple[Claim, ...] = ()


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """What was given out; none if there was none in time."""

    claims: tuple[Claim, ...] = ()
    #: Offset and number of attempts before this one that do not count as failed, where there are
    #: any. It is of the decision: the state goes on before the answer comes.
    excused: tuple[tuple[int, int], ...] = ()
    #: Nobody was sent a message from this offset on before these.
    unsent_from: int = 0


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing was done."""

    why: Refusal


Answer = Done | Attached | Taken | Refused


# -- effects


class Deliver(msgspec.Struct, frozen=True, kw_only=True):
    """Send messages to a session, which has them in flight."""

    session: bytes
    claims: tuple[Claim, ...]


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """Append a message to another place, once: by this number, of this queue's for the target.

    Report with `Moved` or `NotMoved`. After a change of leader it is asked for again.
    """

    offset: int
    target: str
    sequence: int
    reason: Reason
    attempts: int


class Activate(msgspec.Struct, frozen=True, kw_only=True):
    """A session is the active one now."""

    session: bytes


Effect = Respond[Answer] | Deliver | Move | Activate


# -- what is looked at without deciding


class Browsed(NamedTuple):
    """A message as it stands."""

    offset: int
    place: Place
    attempts: int
    failures: int
    priority: int
    #: When it is ready, or its life ends, by the wall's time; 0: never, or not known.
    not_before_ms: int
    not_after_ms: int


class Verdict(Enum):
    """Whether a message may be appended."""

    ADMITTED = auto()
    DUPLICATE = auto()
    FULL = auto()


class Admission(NamedTuple):
    """What is said of one message that is about to be appended."""

    verdict: Verdict
    #: Where its original is; -1 where it is no duplicate, or its original is in the same batch.
    original: int = -1
    #: Which one of the same batch that is.
    twin: int = -1


#: Of most messages.
ADMITTED: Final = Admission(Verdict.ADMITTED)
