"""Appends dead letters, and what is redriven, to the queues or topics they go to: each once.

Theory of operation. The source has numbered what goes to a target, and asks for it again, in order,
whenever it has another leader. Every message travels as a batch of its own, under a producer id
that is made of the source's and the target's logs; so the target's log knows what it has. One
request at a time goes to a log: what it has not taken is sent again before anything after it. In a
queue of several partitions a message goes to that of its group or id, or else to the one that has
the source's number: always to the same. Each of them knows by a producer id of its own what it has;
numbers that went to others are missing there, and are passed over. So are those of messages that a
target does not take: they are parked, and hold up no others. A share group's dead letters have the
headers that Apache Kafka gives them (KIP-1191).

What is promised: each message comes to its target once. A topic that has refused one may get a
later one twice, if the source's leader dies before it has noted that it is there.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from msgspec import UNSET

from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.metadata.cluster_state import PartitionState, QueueState, TopicState
from kafkaesque.broker.metadata.live_options import LiveOptions
from kafkaesque.broker.metadata.queue_names import QueueName, share_group_of
from kafkaesque.broker.metadata.queue_sealing import may_go
from kafkaesque.broker.options.groups import share_settings
from kafkaesque.broker.options.queues import STREAM_TOPIC, exchange_of_target, topic_of_target
from kafkaesque.broker.options.tables import DEAD_LETTERS_ALLOWED
from kafkaesque.broker.partitions.forwarder import Forwarder
from kafkaesque.broker.queues.bodies import Found, size_of
from kafkaesque.broker.queues.calls import QueueCalls
from kafkaesque.broker.queues.exchange_moves import (
    MOVED_BYTES_MAX,
    ExchangeMoves,
    ExchangeWay,
    Letter,
    partition_in,
)
from kafkaesque.broker.queues.host import QueueHost
from kafkaesque.broker.queues.whole_numbers import whole_number
from kafkaesque.broker.requests.commands import ProduceResult
from kafkaesque.broker.requests.queue_requests import MovedResult, MoveMessages
from kafkaesque.env.clock import Clock
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.errors import (
    InvalidTopic,
    MessageTooLarge,
    OutOfOrderSequence,
    RequestRefused,
    UnknownQueue,
)
from kafkaesque.model.ids import TopicId, TopicPartition
from kafkaesque.model.kernel_types import Headers
from kafkaesque.model.message_headers import (
    DEATH,
    DELAY,
    IDENTITY,
    LOG_REFERENCE,
    NOT_AFTER,
    NOT_BEFORE,
    ORIGIN,
    TIME_TO_LIVE,
)
from kafkaesque.model.record_errors import RecordError
from kafkaesque.model.records import Record
from kafkaesque.queues import requests as r
from kafkaesque.queues.arrival import group_of
from kafkaesque.queues.decisions import Reason

#: So often a message may be given up before it stays where it is.
HOPS_MAX: Final = 64
#: Messages that one request has; their bytes are `MOVED_BYTES_MAX`.
MOVED_MAX: Final = 64
TIMEOUT_MS: Final = 10_000
AGAIN_MS: Final = 500
_SHARE_HEADERS: Final = "__dlq.errors."
_SHARE_REASONS: Final = {
    Reason.REJECTED: "Offset rejected by client.",
    Reason.ATTEMPTS: "Offset delivery count exceeded the threshold.",
}
#: Producer ids of queues are from here on: the controllers give out no such ones.
_PRODUCER_IDS: Final = 1 << 61
#: What a message says of its first queue alone. A cursor's may refer to what it likes.
_SAID_ONCE: Final = frozenset((NOT_BEFORE, NOT_AFTER, DELAY, TIME_TO_LIVE, IDENTITY, LOG_REFERENCE))


#: What goes to one partition: which of the moves each is, and its batch; and that by partition.
_Share = list[tuple[int, bytes]]
_Shares = dict[int, _Share]


@dataclass(slots=True)
class _Lane:
    """What goes from one queue to another, in order."""

    host: QueueHost
    target: str
    leadership: int
    moves: deque[r.Move] = field(default_factory=deque)
    is_busy: bool = False
    #: The number before which others are missing, of messages that the target did not take.
    gap: int | None = None
    #: Where the target is an exchange.
    ways: ExchangeMoves | None = None


class Mover:
    """See the module."""

    __slots__ = ("_calls", "_clock", "_forwarder", "_lanes", "_metadata", "_options")

    def __init__(
        self,
        *,
        clock: Clock,
        metadata: MetadataView,
        calls: QueueCalls,
        forwarder: Forwarder,
        options: LiveOptions,
    ) -> None:
        self._options = options
        self._clock = clock
        self._metadata = metadata
        self._calls = calls
        self._forwarder = forwarder
        self._lanes: dict[tuple[QueueHost, str], _Lane] = {}

    def move(self, host: QueueHost, move: r.Move) -> None:
        """Append a message where it goes, after those before it."""
        lane = self._lanes.get((host, move.target))
        if lane is None or lane.leadership != host.leadership:
            lane = _Lane(host, move.target, host.leadership)
            self._lanes[host, move.target] = lane
        lane.moves.append(move)
        if not lane.is_busy:
            lane.is_busy = True
            # More of the same turn may follow.
            self._clock.call_soon(lambda: self._go_on(lane))

    def _go_on(self, lane: _Lane) -> None:
        if lane.leadership != lane.host.leadership or not lane.moves:
            lane.is_busy = False
            if self._lanes.get((lane.host, lane.target)) is lane:
                del self._lanes[lane.host, lane.target]
            return
        source = self._metadata.state.queues_by_log.get(lane.host.state.topic_id)
        if source is None:
            self._later(lane)
            return
        topic = topic_of_target(lane.target)
        if topic is not None:
            self._to_topic(lane, source, topic)
            return
        exchange = exchange_of_target(lane.target)
        if exchange is not None:
            self._to_exchange(lane, source, ExchangeWay(source.queue.vhost, *exchange))
            return
        name = QueueName(source.queue.vhost, lane.target)
        target = self._metadata.state.queues.get(name)
        stream = "" if target is None else target.options.get(STREAM_TOPIC, "")
        if stream:
            # Its own log is nobody's to read.
            self._to_topic(lane, source, stream)
            return
        if target is None or not may_go(self._metadata.state, source, target):
            self._give_up(lane, len(lane.moves))
            return
        self._read(lane, source.queue, target)

    def _read(self, lane: _Lane, source: QueueName, target: QueueState) -> None:
        moves = _rising(lane.moves)
        rate = lane.host.queue.state.policy.redrive_rate
        if rate and moves[0].reason is Reason.REDRIVEN:
            # A tenth of a second's; then it waits for so long.
            moves = moves[: max(1, rate // 10)]
        offsets = [move.offset for move in moves]

        def on_found(found: Found | RequestRefused) -> None:
            if isinstance(found, RequestRefused):
                self._later(lane)
            else:
                self._send(lane, source, target, moves, found)

        lane.host.bodies.read(offsets, MOVED_BYTES_MAX, on_found)

    def _send(
        self,
        lane: _Lane,
        source: QueueName,
        target: QueueState,
        moves: list[r.Move],
        found: Found,
    ) -> None:
        left, size, count = set(found.left), 0, 0
        shares: _Shares = {}
        for move in moves:
            record = _record(lane, move, found)
            if move.offset in left:
                break
            if record is None or _hops(record) >= HOPS_MAX:
                if not count:
                    self._give_up(lane, 1)
                    return
                break
            size += size_of(record)
            if count and size > MOVED_BYTES_MAX:
                break
            where = partition_in(target, record, lane.host.state)
            producer_id = _producer_id(lane.host.state, target.topic_id, where)
            batch = self._batch(record, source, lane.host.state, move, producer_id)
            shares.setdefault(where, []).append((count, batch))
            count += 1
        if not count:
            self._later(lane)
            return
        self._send_shares(lane, target, shares, count)

    def _send_shares(self, lane: _Lane, target: QueueState, shares: _Shares, count: int) -> None:
        """Send each partition its share; of all, those before the first that is not there count."""
        done, waiting = count, len(shares)
        refused: RequestRefused | None = None

        def on_share(share: _Share, outcome: MovedResult | RequestRefused) -> None:
            nonlocal done, waiting, refused
            waiting -= 1
            there = outcome.count if isinstance(outcome, MovedResult) else 0
            if isinstance(outcome, RequestRefused) and share[0][0] == 0:
                # Refusals of others come again when theirs is the first.
                refused = outcome
            if there < len(share):
                # What others have of those behind it is sent again, and passed over.
                done = min(done, share[there][0])
            if not waiting:
                self._on_sent(lane, MovedResult(done) if done or refused is None else refused)

        for where, share in shares.items():
            request = MoveMessages(
                log_id=target.topic_id,
                partition=where,
                batches=[batch for _, batch in share],
                timeout_ms=TIMEOUT_MS,
                may_skip=True if len(target.partitions) > 1 or lane.gap is not None else UNSET,
            )
            self._calls.ask(request, MovedResult, TIMEOUT_MS, partial(on_share, share))

    def _batch(
        self,
        record: Record,
        source: QueueName,
        source_log: PartitionState,
        move: r.Move,
        producer_id: int,
    ) -> bytes:
        now_ms = self._clock.wall_ms()
        headers = _headers(record, source, source_log, move, now_ms)
        moved = Record(0, now_ms, record.key, record.value, headers)
        return _encode(moved, producer_id, move.sequence)

    # -- to an exchange

    def _to_exchange(self, lane: _Lane, source: QueueState, way: ExchangeWay) -> None:
        """Send the first messages that go the same way."""
        if lane.ways is None:
            lane.ways = ExchangeMoves(
                way,
                source,
                lane.host.state,
                self._metadata,
                self._calls,
                self._forwarder,
                self._options,
            )
        moves = _rising(lane.moves)

        def on_found(found: Found | RequestRefused) -> None:
            if isinstance(found, RequestRefused):
                self._later(lane)
            else:
                self._route(lane, source, way, moves, found)

        lane.host.bodies.read([move.offset for move in moves], MOVED_BYTES_MAX, on_found)

    def _route(
        self, lane: _Lane, source: QueueState, way: ExchangeWay, moves: list[r.Move], found: Found
    ) -> None:
        ways, now_ms = lane.ways, self._clock.wall_ms()
        if ways is None or moves[0].offset in found.left:
            self._later(lane)
            return
        letters: list[Letter] = []
        for move in moves:
            record = _record(lane, move, found)
            if move.offset in found.left or record is None or _hops(record) >= HOPS_MAX:
                break
            headers = _headers(record, source.queue, lane.host.state, move, now_ms, way)
            letters.append(
                Letter(move.offset, Record(0, now_ms, record.key, record.value, headers))
            )
        step = ways.first_step(letters)
        if not step:
            self._give_up(lane, 1)
            return
        sequences = {move.offset: move.sequence for move in moves}

        def make(letter: Letter, target: TopicId, partition: int, not_before_ms: int) -> bytes:
            producer_id = _producer_id(lane.host.state, target, partition, lane.target)
            return _encode(
                _waiting(letter.record, not_before_ms), producer_id, sequences[letter.offset]
            )

        def on_sent(is_done: bool) -> None:
            if not is_done:
                self._later(lane)
                return
            for letter in step:
                ways.forget(letter.offset)
            self._report(
                lane,
                len(step),
                lambda offsets: r.Moved(token=lane.host.new_token(), offsets=offsets),
            )

        ways.send(now_ms, make, on_sent)

    # -- to a topic

    def _to_topic(self, lane: _Lane, source: QueueState, name: str) -> None:
        """Append the first message to a topic, in the partition that has its own one's number."""
        state = self._metadata.state
        topic, group = state.topics.get(name), share_group_of(source.queue)
        is_taken = topic is not None and not topic.is_internal
        if topic is None or not is_taken or (group is not None and not _takes(topic)):
            self._give_up(lane, len(lane.moves))
            return
        if self._holds_bodies(group) and not may_go(state, source, topic):
            self._give_up(lane, len(lane.moves))
            return
        move = lane.moves[0]
        where = TopicPartition(name, lane.host.state.partition % len(topic.partitions))
        # Topics pass over no numbers: after a gap another producer goes on.
        gap = "" if lane.gap is None else str(lane.gap)
        producer_id = _producer_id(lane.host.state, topic.topic_id, way=gap)

        def on_found(found: Found | RequestRefused) -> None:
            if isinstance(found, RequestRefused) or move.offset in found.left:
                self._later(lane)
                return
            record = _record(lane, move, found)
            if record is None:
                self._give_up(lane, 1)
                return
            self._forwarder.produce(
                where,
                _encode(self._dead_record(record, source, lane, move), producer_id, move.sequence),
                -1,
                TIMEOUT_MS,
                lambda outcome: self._on_produced(lane, outcome),
                lambda: lane.leadership == lane.host.leadership,
            )

        lane.host.bodies.read([move.offset], MOVED_BYTES_MAX, on_found)

    def _holds_bodies(self, group: str | None) -> bool:
        """Tell whether a dead letter in a topic is the message itself, as but a share group's."""
        if group is None:
            return True
        configs = self._metadata.state.group_configs.get(group, {})
        return share_settings(configs).copies_dead_letters

    def _dead_record(self, record: Record, source: QueueState, lane: _Lane, move: r.Move) -> Record:
        """Return a dead letter as it stands in a topic."""
        state, now_ms = self._metadata.state, self._clock.wall_ms()
        group = share_group_of(source.queue)
        if group is None:
            headers = _headers(record, source.queue, lane.host.state, move, now_ms)
            return Record(0, now_ms, record.key, record.value, headers)
        topic = None if source.source is None else state.topics_by_id.get(source.source)
        said = {
            "topic": "" if topic is None else topic.name,
            "partition": lane.host.state.partition,
            "offset": move.offset,
            "group": group,
            "delivery.count": move.attempts,
            "message": _SHARE_REASONS.get(move.reason, move.reason.name.lower()),
        }
        told = tuple((_SHARE_HEADERS + name, str(value).encode()) for name, value in said.items())
        if self._holds_bodies(group):
            return Record(0, now_ms, record.key, record.value, (*record.headers, *told))
        return Record(0, now_ms, None, None, told)

    def _on_produced(self, lane: _Lane, outcome: ProduceResult | RequestRefused) -> None:
        if isinstance(outcome, ProduceResult):
            self._report(
                lane, 1, lambda offsets: r.Moved(token=lane.host.new_token(), offsets=offsets)
            )
        elif isinstance(outcome, RecordError | MessageTooLarge | InvalidTopic):
            self._give_up(lane, 1)
        else:
            if isinstance(outcome, OutOfOrderSequence):
                # All before it are there, or were given up.
                lane.gap = lane.moves[0].sequence
            self._later(lane)

    def _on_sent(self, lane: _Lane, outcome: MovedResult | RequestRefused) -> None:
        if isinstance(outcome, UnknownQueue | InvalidTopic):
            # The target is gone, or was made again: the next try finds out which.
            self._later(lane)
        elif isinstance(outcome, MessageTooLarge):
            # With what is said of its history, the first is larger than the target takes.
            self._give_up(lane, 1)
        elif isinstance(outcome, OutOfOrderSequence):
            # All before it are there, or were given up.
            lane.gap = lane.moves[0].sequence
            self._later(lane)
        elif isinstance(outcome, RequestRefused) or not outcome.count:
            self._later(lane)
        else:
            self._report(
                lane,
                outcome.count,
                lambda offsets: r.Moved(token=lane.host.new_token(), offsets=offsets),
            )

    def _give_up(self, lane: _Lane, count: int) -> None:
        """There is no way for the first messages: they are parked."""
        self._report(
            lane, count, lambda offsets: r.NotMoved(token=lane.host.new_token(), offsets=offsets)
        )

    def _report(
        self, lane: _Lane, count: int, make: Callable[[tuple[int, ...]], r.Moved | r.NotMoved]
    ) -> None:
        offsets = tuple(lane.moves[number].offset for number in range(count))

        def on_answer(answer: r.Answer) -> None:
            if isinstance(answer, r.Refused):
                self._later(lane)
                return
            last = [lane.moves.popleft() for _ in range(count)][-1]
            rate = lane.host.queue.state.policy.redrive_rate
            if rate and last.reason is Reason.REDRIVEN:
                self._clock.call_later(count * 1000 // rate, lambda: self._go_on(lane))
            else:
                self._go_on(lane)

        try:
            lane.host.ask_engine(make(offsets), on_answer)
        except RequestRefused:
            self._later(lane)

    def _later(self, lane: _Lane) -> None:
        self._clock.call_later(AGAIN_MS, lambda: self._go_on(lane))


def _record(lane: _Lane, move: r.Move, found: Found) -> Record | None:
    """Return a message as it goes; one that could not be changed on its way out says why."""
    record = found.records.get(move.offset)
    if record is None or move.reason is not Reason.REJECTED:
        return record
    way_out = lane.host.way_out()
    return record if way_out is None else way_out.told(record)


def _rising(moves: deque[r.Move]) -> list[r.Move]:
    """Return the first ones, as long as their offsets rise: so they can be read in order."""
    rising: list[r.Move] = []
    for move in moves:
        if len(rising) >= MOVED_MAX or (rising and move.offset <= rising[-1].offset):
            break
        rising.append(move)
    return rising


def _takes(topic: TopicState) -> bool:
    """Whether a topic lets share groups write there (KIP-1191)."""
    return topic.configs.get(DEAD_LETTERS_ALLOWED) == "true"


def _waiting(record: Record, not_before_ms: int) -> Record:
    if not not_before_ms:
        return record
    said = (NOT_BEFORE, b"%d" % not_before_ms)
    return record._replace(headers=(*record.headers, said))


def _encode(record: Record, producer_id: int, sequence: int) -> bytes:
    options = BatchOptions(
        producer_id=producer_id, producer_epoch=0, base_sequence=sequence % 2**31
    )
    return bytes(encode_batch([record], options))


def _producer_id(source: PartitionState, target: TopicId, partition: int = 0, way: str = "") -> int:
    name = source.topic_id + source.partition.to_bytes(4, "big") + target + way.encode()
    if partition:
        # The first one's is as it was when queues had no others.
        name += b"\0" + partition.to_bytes(4, "big")
    return _PRODUCER_IDS | group_of(name) & (_PRODUCER_IDS - 1)


def _hops(record: Record) -> int:
    return sum(name == DEATH for name, _ in record.headers)


def _headers(
    record: Record,
    source: QueueName,
    source_log: PartitionState,
    move: r.Move,
    now_ms: int,
    way: ExchangeWay | None = None,
) -> Headers:
    """Return the headers of a message where it arrives: it waits no more, and its life is over."""
    kept = [each for each in record.headers if each[0] not in _SAID_ONCE]
    if move.reason is not Reason.REDRIVEN:
        kept.append((DEATH, _death(source, source_log.partition, move, now_ms, way)))
    if all(name != ORIGIN for name, _ in kept):
        number = whole_number(source_log.partition, record.offset)
        kept.append((ORIGIN, _origin(source_log.topic_id, number, record)))
    return tuple(kept)


def _origin(log: TopicId, number: int, record: Record) -> bytes:
    said = {"log": log.hex(), "offset": number, "at_ms": record.timestamp_ms}
    return json.dumps(said, separators=(",", ":")).encode()


def _death(
    source: QueueName, partition: int, move: r.Move, now_ms: int, way: ExchangeWay | None
) -> bytes:
    said: dict[str, object] = {
        "queue": source.name,
        "vhost": source.vhost,
        "reason": move.reason.name.lower(),
        "attempts": move.attempts,
        "offset": move.offset,
        "at_ms": now_ms,
    }
    if partition:
        said["partition"] = partition
    if way is not None:
        said["exchange"] = way.exchange
        if way.key is not None:
            said["key"] = way.key
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()
