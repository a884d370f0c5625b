"""What brokers ask the leader of a queue's log, and what it answers.

A claim names messages that were taken together: the first offset, the offset after the last one,
and which attempt it is. A consumer is named by `ConsumerName`: without one, nobody's end ends the
locks.
"""

from typing import NamedTuple

import msgspec

from kafkaesque.broker.peers.messages import PeerRequest
from kafkaesque.queues.requests import UNBOUNDED, Claim
from kafkaesque.queues.sent_before import may_have_been_sent

#: The longest wait for a message at the leader. Who wants to wait for longer asks again.
WAIT_MS_MAX = 30_000
#: So much longer is a wait that can be made longer: who waits may ask again meanwhile.
LINGER_MS = 2_000


class ConsumerName(NamedTuple):
    """A consumer of a queue: no other one ever has the name."""

    #: The broker that it is connected with, and which process of it that is.
    node: int
    incarnation: int
    number: int


class QueueRequest(PeerRequest, frozen=True, kw_only=True):
    """Asked of the leader of a queue's log."""

    #: The log's id: a queue that is made again has another one.
    log_id: bytes
    #: A queue of its own has as many as its option says; a cursor as many as its topic.
    partition: int = 0


class PutMessages(QueueRequest, frozen=True, tag="put-messages", kw_only=True):
    """Append messages. Answer: `PutResult`, at the commit."""

    #: One batch, not compressed, whose records are the messages.
    records: bytes
    timeout_ms: int
    #: Whether it is refused if a message asks for what the queue has no option for.
    is_strict: bool | msgspec.UnsetType = msgspec.UNSET
    #: Whether a broker has put it together, and bodies may stand in topics.
    has_references: bool | msgspec.UnsetType = msgspec.UNSET


class MoveMessages(QueueRequest, frozen=True, tag="move-messages", kw_only=True):
    """Append messages of another queue, each once. Answer: `MovedResult`, at the commit."""

    #: Batches of one record each, with the producer id of the two queues and rising sequences.
    batches: list[bytes]
    timeout_ms: int
    #: Whether numbers may be missing, because those messages went to other queues.
    may_skip: bool | msgspec.UnsetType = msgspec.UNSET


class TakeMessages(QueueRequest, frozen=True, tag="take-messages", kw_only=True):
    """Lock messages, and return them. Answer: `TakenMessages`, at the commit."""

    consumer: ConsumerName | None = None
    messages_max: int = 1
    #: At least one is returned if there is any.
    bytes_max: int
    #: None: as the queue has it; 0: until it is settled, or the consumer is gone.
    lock_ms: int | None = None
    #: How long to wait for the first; at most `WAIT_MS_MAX`.
    wait_ms: int = 0
    #: Whether several messages of one group may come together, in order; else one of each.
    has_groups: bool | msgspec.UnsetType = msgspec.UNSET
    #: Names the wait, so that it can be made longer; no other one ever has the name.
    wait_name: ConsumerName | msgspec.UnsetType = msgspec.UNSET


class LongerWait(NamedTuple):
    """A wait for messages of a queue of one partition, and how long it lasts from now."""

    log_id: bytes
    wait_name: ConsumerName
    wait_ms: int


class ExtendWaits(PeerRequest, frozen=True, tag="extend-waits", kw_only=True):
    """Let waits at this leader last longer. Answer: `Done`.

    A wait that has ended is passed over: its own answer has said so.
    """

    waits: list[LongerWait]


class TakeOverConsumer(PeerRequest, frozen=True, tag="take-over-consumer", kw_only=True):
    """Tell a consumer of this broker's that another one takes its place. Answer: `Done`.

    One that is not here any more is passed over.
    """

    consumer: ConsumerName


class SettleMessages(QueueRequest, frozen=True, tag="settle-messages", kw_only=True):
    """Messages are done with. Answer: `ClaimsResult`."""

    claims: list[Claim]
    #: Whether to settle a message whose lock has ended and that nobody has taken since.
    may_be_late: bool = False
    #: Whether nobody waits for it, so that it may be written with what the queue has to write next.
    is_patient: bool = False


class ReleaseMessages(QueueRequest, frozen=True, tag="release-messages", kw_only=True):
    """Messages are ready again. Answer: `ClaimsResult`."""

    claims: list[Claim]
    #: Whether the attempt has failed, and counts.
    is_failed: bool = False
    #: Whether no client has ever been sent one of them: `TakenMessages` tells that of those before.
    is_unsent: bool = False
    #: Whether they go behind all that wait; else to their old places.
    to_tail: bool = False
    #: None: as the queue has it for attempts that failed.
    delay_ms: int | None = None


class RejectMessages(QueueRequest, frozen=True, tag="reject-messages", kw_only=True):
    """Messages are dead letters, whatever their attempts. Answer: `ClaimsResult`."""

    claims: list[Claim]


class ExtendLocks(QueueRequest, frozen=True, tag="extend-locks", kw_only=True):
    """Locks end so long from now; 0: not until settled. Answer: `ClaimsResult`."""

    claims: list[Claim]
    lock_ms: int


class AttachConsumer(QueueRequest, frozen=True, tag="attach-consumer", kw_only=True):
    """A consumer is there, or there again. Answer: `AttachedConsumer`.

    Refused with `QueueInUse` if another one has the queue for itself, or this one is to.
    """

    consumer: ConsumerName
    #: Messages go to consumers of the highest priority, as long as one of them takes some.
    priority: int | msgspec.UnsetType = msgspec.UNSET
    #: Whether it is to be alone.
    is_exclusive: bool | msgspec.UnsetType = msgspec.UNSET
    #: Whether it wants no more, and is there for what it has.
    is_leaving: bool | msgspec.UnsetType = msgspec.UNSET
    #: Whether nothing that it has asked for counts any more: the answers would reach nobody.
    is_anew: bool | msgspec.UnsetType = msgspec.UNSET


class DetachConsumer(QueueRequest, frozen=True, tag="detach-consumer", kw_only=True):
    """A consumer is gone: what it has is ready again. Answer: `Done`."""

    consumer: ConsumerName
    #: Whether what it has counts as failed.
    is_failed: bool = True


class PurgeQueue(QueueRequest, frozen=True, tag="purge-queue", kw_only=True):
    """Remove all messages that wait. Answer: `Done`, when they are gone."""

    #: Whether messages that consumers have are removed, too.
    takes_in_flight: bool | msgspec.UnsetType = msgspec.UNSET


class RedriveQueue(QueueRequest, frozen=True, tag="redrive-queue", kw_only=True):
    """Move all messages that wait now or are parked to another queue. Answer: `Done`, at once."""

    #: A queue of the same virtual host; empty: do not move any more.
    target: str


class UnparkMessages(QueueRequest, frozen=True, tag="unpark-messages", kw_only=True):
    """What is parked is ready again. Answer: `Done`."""


class PeekMessages(QueueRequest, frozen=True, tag="peek-messages", kw_only=True):
    """Return messages without taking them, with where they are. Answer: `PeekedMessages`."""

    start: int = 0
    messages_max: int = 10
    bytes_max: int = 1024 * 1024


class SeekCursor(QueueRequest, frozen=True, tag="seek-cursor", kw_only=True):
    """Let a cursor over a topic go on at an offset; what was taken is forgotten. Answer: `Done`."""

    offset: int


class AskQueue(QueueRequest, frozen=True, tag="ask-queue", kw_only=True):
    """Return how many messages there are. Answer: `QueueCounts`."""

    #: Whether it is answered when all that the counts say is committed.
    is_committed: bool | msgspec.UnsetType = msgspec.UNSET
    #: Whether a cursor is to read on, so that who asks again hears how far nothing is wanted.
    reads_on: bool | msgspec.UnsetType = msgspec.UNSET
    #: Whether to ask is to use the queue. It is answered when the next leader knows that, too.
    is_use: bool | msgspec.UnsetType = msgspec.UNSET
    #: The queue goes when nobody has used it for so long; see `QueueCounts.is_disused`.
    expiry_ms: int | msgspec.UnsetType = msgspec.UNSET


AnyQueueRequest = (
    PutMessages
    | MoveMessages
    | TakeMessages
    | SettleMessages
    | ReleaseMessages
    | RejectMessages
    | ExtendLocks
    | AttachConsumer
    | DetachConsumer
    | PurgeQueue
    | RedriveQueue
    | UnparkMessages
    | PeekMessages
    | SeekCursor
    | AskQueue
)


class QueueMessage(msgspec.Struct, frozen=True, array_like=True):
    """A message with where it stands."""

    offset: int
    #: Which time it was given out; with the offset it is the claim.
    attempt: int
    #: How many attempts have failed before.
    failures: int
    #: When it was appended, by the leader's clock: Unix time in milliseconds.
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def claim(self) -> Claim:
        """What settles it."""
        return Claim(self.offset, self.offset + 1, self.attempt)


class PutResult(msgspec.Struct, frozen=True, array_like=True):
    """What has become of messages, in order."""

    #: Where each is; of a duplicate, where its original is; -1: the queue is full.
    offsets: list[int]


class MovedResult(msgspec.Struct, frozen=True, array_like=True):
    """So many of the first messages are there now; the next one was refused."""

    count: int


class TakenMessages(msgspec.Struct, frozen=True, array_like=True):
    """Messages that are locked now, by offset; none if none came in time."""

    messages: list[QueueMessage]
    #: No client was sent a message from this offset on before these.
    unsent_from: int = UNBOUNDED

    def was_sent(self, message: QueueMessage) -> bool:
        """Tell whether a client may have been sent one of these before, or ones behind it."""
        return may_have_been_sent(message.offset, message.attempt, self.unsent_from)

    def told(self, message: QueueMessage) -> QueueMessage:
        """Return one of these as a client hears of it: attempts that nobody saw were none."""
        if message.attempt == 1 or self.was_sent(message):
            return message
        return msgspec.structs.replace(message, attempt=1)


class ClaimsResult(msgspec.Struct, frozen=True, array_like=True):
    """It is done, but for these claims: some of their messages were with somebody else by then."""

    stale: list[Claim]


class AttachedConsumer(msgspec.Struct, frozen=True, array_like=True):
    """A consumer is known."""

    #: Whether it is given messages: of a queue for one consumer at a time, only one is.
    is_active: bool
    #: What it has taken and not settled.
    claims: list[Claim]


class PeekedMessage(msgspec.Struct, frozen=True, array_like=True):
    """A message, and where it is: `ready`, `delayed`, `in-flight`, `parked` or `moving`."""

    place: str
    #: Unix time from which on it is ready, or at which its life ends; 0: not known, or never.
    not_before_ms: int
    not_after_ms: int
    message: QueueMessage


class PeekedMessages(msgspec.Struct, frozen=True, array_like=True):
    """Messages from an offset on."""

    messages: list[PeekedMessage]


class QueueCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many messages a queue has, by where they are."""

    ready: int
    delayed: int
    in_flight: int
    parked: int
    moving: int
    #: Consumers that are attached.
    consumers: int
    #: When the oldest that lives came: Unix time in milliseconds; 0: there is none.
    oldest_ms: int
    #: The first that lives, or where the next one will be; and after the last that is known. Of a
    #: cursor these are the topic's offsets; it has begun when it knows where it is.
    floor: int
    end: int
    has_begun: bool
    #: Since the queue was made: how many came, and how many are gone, by why.
    arrived: int
    removed: dict[str, int]
    #: Where its log begins and ends, and how many bytes that is.
    log_start: int
    log_end: int
    log_bytes: int
    #: The queue that messages are being moved to on request; empty: none.
    redriving_to: str = ""
    #: When the newest came that the queue knows; 0: none has come.
    newest_ms: int = 0
    #: Of the oldest that lives: where it is, as `PeekedMessage` has it, and its failed attempts.
    head_place: str = ""
    head_failures: int = 0
    #: What the log's start waits for: `message`, `snapshot`, or `nothing`.
    held_by: str = "nothing"
    #: The limit on what is in flight; 0: none.
    in_flight_max: int = 0
    #: For how long nobody has asked for messages, as far as this leader knows.
    unwanted_ms: int = 0
    #: Of a cursor: up to where its topic was read. From `end` on there is no message before it.
    read_to: int | msgspec.UnsetType = msgspec.UNSET
    #: When this was so, by the clock that says when messages came; where `is_committed` is asked.
    asked_ms: int | msgspec.UnsetType = msgspec.UNSET
    #: Whether nobody has used the queue for as long as was asked, under this leader and others.
    is_disused: bool | msgspec.UnsetType = msgspec.UNSET
    #: When that may be so, if nobody uses it until then.
    disused_in_ms: int | msgspec.UnsetType = msgspec.UNSET
