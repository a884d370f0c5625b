"""Produce: batches into partitions, acknowledged as the client asks."""

from collections.abc import Callable, Iterator

from kafkaesque.broker.broker import Broker
from kafkaesque.broker.commands import ProduceResult
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.errors import code_of, message_of
from kafkaesque.gateway.kafka.topics import leader_hint, resolve_topic
from kafkaesque.gateway.kafka.turns import Turn
from kafkaesque.model.errors import NotLeader, RequestRefused
from kafkaesque.model.ids import TopicPartition
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.produce_path import (
    PartitionProduced,
    ProduceCall,
    TopicKey,
    read_produce_request,
    write_produce_response,
)

_ACKS = (-1, 0, 1)


def on_produce(broker: Broker, call: Call) -> None:
    """Append what a client sends; the answer follows when all partitions have theirs."""
    request = read_produce_request(call.frame, call.header.body_offset, call.version)
    if request.acks not in _ACKS:
        _refuse_all(call, request, ErrorCode.INVALID_REQUIRED_ACKS)
    elif request.transactional_id is not None:
        _refuse_all(call, request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    else:
        _Produce(broker, call, request).start()


def _refuse_all(call: Call, request: ProduceCall, code: ErrorCode) -> None:
    topics = [
        (topic, [PartitionProduced(index, code, -1) for index, _ in partitions])
        for topic, partitions in request.topics
    ]
    frame = write_produce_response(call.version, call.header.correlation_id, topics)
    call.answer_parts((frame,))


class _Produce:
    """A request whose partitions are under way.

    Batches may take long to check. A request that has taken a whole turn goes on in the next one,
    and its connection waits, as the order of batches is the order of requests.
    """

    __slots__ = ("_broker", "_call", "_has_failed", "_left", "_request", "_steps", "_topics")

    def __init__(self, broker: Broker, call: Call, request: ProduceCall) -> None:
        self._broker = broker
        self._call = call
        self._request = request
        self._topics: list[tuple[TopicKey, list[PartitionProduced]]] = []
        self._left = 1
        self._has_failed = False
        self._steps: Iterator[None] = iter(())

    def start(self) -> None:
        """Append to every partition; each reports by itself."""
        self._steps = self._append_all()
        if not self._advance(None):
            self._call.connection.hold()
            self._broker.env.clock.call_soon(self._go_on)

    def _go_on(self) -> None:
        clock = self._broker.env.clock
        if not self._call.connection.is_open:
            return
        if self._advance(Turn(clock)):
            self._call.connection.release()
        else:
            clock.call_soon(self._go_on)

    def _advance(self, turn: Turn | None) -> bool:
        """Append for at most one turn, which begins here if none is given; False if more is left.

        Most requests have one partition: those do not even look at the clock.
        """
        for _ in self._steps:
            if turn is None:
                turn = Turn(self._broker.env.clock)
            elif turn.is_over():
                return False
        # What is appended is the log's from here on.
        self._request.topics = []
        self._on_one_done()
        return True

    def _append_all(self) -> Iterator[None]:
        """Append to every partition, and stop before each but the first."""
        is_first = True
        for topic, partitions in self._request.topics:
            outcomes: list[PartitionProduced] = []
            self._topics.append((topic, outcomes))
            try:
                name = resolve_topic(self._broker, topic)
            except RequestRefused as refusal:
                self._has_failed = True
                code = code_of(refusal)
                outcomes.extend(PartitionProduced(index, code, -1) for index, _ in partitions)
                continue
            for index, records in partitions:
                if not is_first:
                    yield
                is_first = False
                self._append(TopicPartition(name, index), records, outcomes)

    def _append(
        self,
        where: TopicPartition,
        records: memoryview | None,
        outcomes: list[PartitionProduced],
    ) -> None:
        place = len(outcomes)
        index = where.partition
        outcomes.append(PartitionProduced(index, ErrorCode.UNKNOWN_SERVER_ERROR, -1))
        if records is None:
            self._has_failed = True
            outcomes[place] = PartitionProduced(index, ErrorCode.INVALID_RECORD, -1)
            return
        request = self._request
        self._left += 1
        try:
            self._broker.partition(where).produce(
                records,
                acks=request.acks,
                timeout_ms=request.timeout_ms,
                on_done=self._receiver(where, place, outcomes),
            )
        except RequestRefused as refusal:
            outcomes[place] = self._refused(where, refusal)
            self._left -= 1

    def _receiver(
        self, where: TopicPartition, place: int, outcomes: list[PartitionProduced]
    ) -> Callable[[ProduceResult | RequestRefused], None]:
        def receive(outcome: ProduceResult | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                outcomes[place] = self._refused(where, outcome)
            else:
                outcomes[place] = PartitionProduced(
                    where.partition,
                    0,
                    outcome.base_offset,
                    outcome.append_time_ms,
                    outcome.log_start_offset,
                )
            self._on_one_done()

        return receive

    def _refused(self, where: TopicPartition, refusal: RequestRefused) -> PartitionProduced:
        self._has_failed = True
        return PartitionProduced(
            where.partition,
            code_of(refusal),
            -1,
            error_message=message_of(refusal),
            leader=leader_hint(self._broker, where) if isinstance(refusal, NotLeader) else None,
        )

    def _on_one_done(self) -> None:
        self._left -= 1
        if self._left:
            return
        if self._request.acks == 0:
            self._call.answer_nothing()
            if self._has_failed:
                # As Kafka does: that way the client looks again who leads.
                self._call.connection.refuse_unanswered()
            return
        frame = write_produce_response(
            self._call.version, self._call.header.correlation_id, self._topics
        )
        self._call.answer_parts((frame,))
