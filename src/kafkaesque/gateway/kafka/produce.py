"""Produce: batches into partitions, acknowledged as the client asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.partitions.batch_checks import RECORDS_NAMED_MAX, LongCheck
from kafkaesque.broker.requests.commands import ProduceResult
from kafkaesque.chassis.rights import Rights
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.confirmation import PASSING, Confirmation
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.errors import code_of, code_of_transaction_error, message_of
from kafkaesque.gateway.kafka.topics import TopicForbidden, leader_hint, resolve_topic
from kafkaesque.gateway.kafka.turns import Turn
from kafkaesque.model.batch import read_batch_header
from kafkaesque.model.errors import (
    InvariantBroken,
    NotLeader,
    OutOfOrderSequence,
    RequestRefused,
    TransactionUnverified,
)
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.record_errors import InvalidRecord
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.produce_path import (
    PartitionProduced,
    ProduceCall,
    TopicKey,
    read_produce_request,
    write_one_produced,
    write_produce_response,
)
from kafkaesque.transactions.errors import TransactionError

_ACKS = (-1, 0, 1)

#: From this version of Produce on, a client can be told that aborting is the way on.
_WITH_ABORTABLE = 11
#: From this one on, the leader adds the partition to the transaction, and clients repeat a batch
#: that meets the end of the transaction before (KIP-890 part 2).
_WITH_ADDING = 12

#: A batch that is answered so is sent again.
_FOR_THE_MOMENT = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS)


#: What may have to be waited for before a batch can be appended.
_Wait = LongCheck | Confirmation

OnProduced = Callable[[ProduceResult | RequestRefused], None]


def on_produce(context: Context, call: Call) -> None:
    """Append what a client sends; the answer follows when all partitions have theirs."""
    header = call.header
    request = read_produce_request(call.frame, header.body_offset, header.api_version)
    topics = request.topics
    rights = call.connection.rights
    if rights is not None and not _may_name_itself(rights, request):
        _refuse_all(context.doors, call, request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    elif request.acks not in _ACKS:
        _refuse_all(context.doors, call, request, ErrorCode.INVALID_REQUIRED_ACKS)
    elif len(topics) == 1 and len(topics[0][1]) == 1:
        topic, ((index, records),) = topics[0]
        one = _ProduceOne(context.doors, call, request, topic, index)
        one.start(records, request.timeout_ms)
    else:
        _Produce(context.doors, call, request).start()


def _may_name_itself(rights: Rights, request: ProduceCall) -> bool:
    """Tell whether a producer may use the transactional id that it names, if it does."""
    name = request.transactional_id
    return name is None or rights.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name)


def _writable_topic(doors: Doors, call: Call, topic: TopicKey) -> str:
    """Return the name of a topic that the client may write to, and note that it does.

    Raises:
        TopicForbidden: it may not; whether there is such a name is not looked at.
        UnknownTopicId: no topic has this id.
    """
    name = resolve_topic(doors, topic)
    rights = call.connection.rights
    if rights is not None and not rights.may(Operation.WRITE, ResourceType.TOPIC, name):
        raise TopicForbidden
    if call.meter is not None:
        call.connection.published_to = name
    return name


def _refuse_all(doors: Doors, call: Call, request: ProduceCall, code: ErrorCode) -> None:
    topics = [
        (topic, [PartitionProduced(index, code, -1) for index, _ in partitions])
        for topic, partitions in request.topics
    ]
    _count_errors(doors, topics)
    frame = write_produce_response(call.version, call.header.correlation_id, topics)
    call.answer_parts((frame,))


def _count_errors(
    doors: Doors, topics: Sequence[tuple[TopicKey, Sequence[PartitionProduced]]]
) -> None:
    for _, partitions in topics:
        for produced in partitions:
            if produced.error_code:
                doors.activity.note_produce_error(produced.error_code)


def _answer_nothing(call: Call, *, has_failed: bool) -> None:
    """End a request with `acks` 0."""
    call.answer_nothing()
    if has_failed:
        # As Kafka does: that way the client looks again who leads.
        call.connection.refuse_unanswered()


def _refused(
    doors: Doors, where: TopicPartition, refusal: RequestRefused, named_max: int
) -> PartitionProduced:
    """Return the answer for a batch that was refused; at most `named_max` records are named."""
    errors: list[tuple[int, str]] = []
    if isinstance(refusal, InvalidRecord):
        errors = [(place, refusal.fault) for place in refusal.places[:named_max]]
    return PartitionProduced(
        where.partition,
        code_of(refusal),
        -1,
        error_message=message_of(refusal),
        record_errors=errors,
        leader=leader_hint(doors, where) if isinstance(refusal, NotLeader) else None,
    )


def _check_of(waited: _Wait | None) -> LongCheck | None:
    """Return the check that was done, if there is one."""
    return waited.checked if isinstance(waited, Confirmation) else waited


def _code_of(waited: _Wait, version: int) -> int:
    """Return why the batch cannot be appended after all; 0 if it may be."""
    error = waited.error if isinstance(waited, Confirmation) else TransactionError.NONE
    if error is TransactionError.NONE:
        return 0
    if error is TransactionError.CONCURRENT_TRANSACTIONS and version >= _WITH_ADDING:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if error in PASSING:
        # What older clients repeat.
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if error is TransactionError.TRANSACTION_ABORTABLE and version < _WITH_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    return code_of_transaction_error(error, is_fenced_known=False)


def _note_refusal(doors: Doors, where: TopicPartition, records: memoryview, code: int) -> None:
    """Let what was sent after a batch wait for it, if it will come again."""
    if code in _FOR_THE_MOMENT:
        with suppress(RequestRefused):
            doors.publishing.note_refusal(where, records)


def _append(
    doors: Doors,
    where: TopicPartition,
    records: memoryview,
    *,
    acks: int,
    timeout_ms: int,
    on_done: OnProduced,
    transactional_id: str | None,
    version: int,
    waited: _Wait | None,
) -> _Wait | None:
    """Append to one partition; if that has to wait, return for what and do nothing.

    Raises:
        RequestRefused: the batch is not appended; `on_done` will not be called.
    """
    try:
        return doors.publishing.append(
            where,
            records,
            acks=acks,
            timeout_ms=timeout_ms,
            on_done=on_done,
            checked=_check_of(waited),
            transactional_id=transactional_id,
        )
    except TransactionUnverified as unverified:
        if version >= _WITH_ADDING and read_batch_header(records).base_sequence > 0:
            # Each transaction of such a client begins with 0. Another batch, sent before this one,
            # has been refused and will come again.
            raise OutOfOrderSequence(
                f"{where} has not received the transaction's first batch"
            ) from unverified
        return _confirmation(doors, where, transactional_id, version, unverified, waited)


def _confirmation(
    doors: Doors,
    where: TopicPartition,
    transactional_id: str | None,
    version: int,
    unverified: TransactionUnverified,
    waited: _Wait | None,
) -> Confirmation:
    if transactional_id is None:
        raise InvariantBroken(f"{where} took a batch for part of a transaction that has no name")
    before = waited if isinstance(waited, Confirmation) else None
    return Confirmation(
        doors,
        where,
        transactional_id,
        unverified,
        is_adding=version >= _WITH_ADDING,
        checked=_check_of(waited),
        before=before,
    )


def _run(doors: Doors, wait: _Wait, on_done: Callable[[], None]) -> None:
    if isinstance(wait, Confirmation):
        wait.run(on_done)
    else:
        doors.publishing.run(wait, on_done)


class _ProduceOne:
    """A request with one partition, as most are; it answers as `_Produce` would."""

    __slots__ = ("_acks", "_call", "_doors", "_index", "_name", "_topic", "_transactional_id")

    def __init__(
        self, doors: Doors, call: Call, request: ProduceCall, topic: TopicKey, index: int
    ) -> None:
        self._doors = doors
        self._call = call
        self._acks = request.acks
        self._transactional_id = request.transactional_id
        self._topic = topic
        self._index = index
        self._name = ""

    def start(
        self, records: memoryview | None, timeout_ms: int, waited: _Wait | None = None
    ) -> None:
        """Append; the answer follows. It is called again with what was waited for."""
        doors, index = self._doors, self._index
        try:
            self._name = _writable_topic(doors, self._call, self._topic)
        except RequestRefused as refusal:
            self._answer_refusal(PartitionProduced(index, code_of(refusal), -1))
            return
        if records is None:
            self._answer_refusal(PartitionProduced(index, ErrorCode.INVALID_RECORD, -1))
            return
        where = TopicPartition(self._name, index)
        try:
            wait = _append(
                doors,
                where,
                records,
                acks=self._acks,
                timeout_ms=timeout_ms,
                on_done=self._on_done,
                transactional_id=self._transactional_id,
                version=self._call.version,
                waited=waited,
            )
        except RequestRefused as refusal:
            self._on_done(refusal)
            return
        if wait is not None:
            self._wait(wait, records, timeout_ms)

    def _wait(self, wait: _Wait, records: memoryview, timeout_ms: int) -> None:
        """Go on afterwards; no other request of the connection comes before that."""
        connection = self._call.connection

        def go_on() -> None:
            if not connection.is_open:
                return
            connection.release()
            code = _code_of(wait, self._call.version)
            if code:
                where = TopicPartition(self._name, self._index)
                _note_refusal(self._doors, where, records, code)
                self._answer_refusal(PartitionProduced(self._index, code, -1))
            else:
                self.start(records, timeout_ms, wait)

        connection.hold()
        _run(self._doors, wait, go_on)

    def _on_done(self, outcome: ProduceResult | RequestRefused) -> None:
        call = self._call
        if isinstance(outcome, RequestRefused):
            where = TopicPartition(self._name, self._index)
            self._answer_refusal(_refused(self._doors, where, outcome, RECORDS_NAMED_MAX))
        elif self._acks == 0:
            _answer_nothing(call, has_failed=False)
        else:
            frame = write_one_produced(
                call.header.api_version,
                call.header.correlation_id,
                self._topic,
                self._index,
                outcome.base_offset,
                outcome.append_time_ms,
                outcome.log_start_offset,
            )
            call.answer_parts((frame,))

    def _answer_refusal(self, produced: PartitionProduced) -> None:
        call = self._call
        self._doors.activity.note_produce_error(produced.error_code)
        if self._acks == 0:
            _answer_nothing(call, has_failed=True)
            return
        topics = [(self._topic, [produced])]
        frame = write_produce_response(call.version, call.header.correlation_id, topics)
        call.answer_parts((frame,))


class _Produce:
    """A request whose partitions are under way.

    Batches may take long to check. A request that has taken a whole turn goes on in the next one,
    one with a batch that is checked off the loop when that is done, and its connection waits, as
    the order of batches is the order of requests.
    """

    __slots__ = (
        "_call",
        "_doors",
        "_has_failed",
        "_left",
        "_named_left",
        "_request",
        "_steps",
        "_topics",
        "_wait",
    )

    def __init__(self, doors: Doors, call: Call, request: ProduceCall) -> None:
        self._doors = doors
        self._call = call
        self._request = request
        self._topics: list[tuple[TopicKey, list[PartitionProduced]]] = []
        self._left = 1
        self._has_failed = False
        #: Records at fault that the answer has room for.
        self._named_left = RECORDS_NAMED_MAX
        self._steps: Iterator[_Wait | None] = iter(())
        #: What has to be waited for before the next step.
        self._wait: _Wait | None = None

    def start(self) -> None:
        """Append to every partition; each reports by itself."""
        self._steps = self._append_all()
        if not self._advance(None):
            self._call.connection.hold()
            self._go_on_later()

    def _go_on_later(self) -> None:
        wait, self._wait = self._wait, None
        if wait is None:
            self._doors.clock.call_soon(self._go_on)
        else:
            _run(self._doors, wait, self._go_on)

    def _go_on(self) -> None:
        if not self._call.connection.is_open:
            return
        if self._advance(Turn(self._doors.clock)):
            self._call.connection.release()
        else:
            self._go_on_later()

    def _advance(self, turn: Turn | None) -> bool:
        """Append for at most one turn, which begins here if none is given; tell if that is all."""
        for wait in self._steps:
            if wait is not None:
                self._wait = wait
                return False
            if turn is None:
                turn = Turn(self._doors.clock)
            elif turn.is_over():
                return False
        # What is appended is the log's from here on.
        self._request.topics = []
        self._on_one_done()
        return True

    def _append_all(self) -> Iterator[_Wait | None]:
        """Append to every partition, and stop before each but the first, and where it waits."""
        is_first = True
        for topic, partitions in self._request.topics:
            outcomes: list[PartitionProduced] = []
            self._topics.append((topic, outcomes))
            try:
                name = _writable_topic(self._doors, self._call, topic)
            except RequestRefused as refusal:
                self._has_failed = True
                code = code_of(refusal)
                outcomes.extend(PartitionProduced(index, code, -1) for index, _ in partitions)
                continue
            for index, records in partitions:
                if not is_first:
                    yield None
                is_first = False
                where = TopicPartition(name, index)
                wait = self._append(where, records, outcomes)
                while wait is not None:
                    yield wait
                    wait = self._append(where, records, outcomes, wait)

    def _append(
        self,
        where: TopicPartition,
        records: memoryview | None,
        outcomes: list[PartitionProduced],
        waited: _Wait | None = None,
    ) -> _Wait | None:
        """Append to one partition; if that has to wait, return for what and do nothing."""
        place = len(outcomes)
        index = where.partition
        code = 0 if waited is None else _code_of(waited, self._call.version)
        if code and records is not None:
            self._has_failed = True
            _note_refusal(self._doors, where, records, code)
            outcomes.append(PartitionProduced(index, code, -1))
            return None
        outcomes.append(PartitionProduced(index, ErrorCode.UNKNOWN_SERVER_ERROR, -1))
        if records is None:
            self._has_failed = True
            outcomes[place] = PartitionProduced(index, ErrorCode.INVALID_RECORD, -1)
            return None
        request = self._request
        self._left += 1
        try:
            wait = _append(
                self._doors,
                where,
                records,
                acks=request.acks,
                timeout_ms=request.timeout_ms,
                on_done=self._receiver(where, place, outcomes),
                transactional_id=request.transactional_id,
                version=self._call.version,
                waited=waited,
            )
        except RequestRefused as refusal:
            outcomes[place] = self._refused(where, refusal)
            self._left -= 1
            return None
        if wait is not None:
            outcomes.pop()
            self._left -= 1
        return wait

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
        produced = _refused(self._doors, where, refusal, self._named_left)
        self._named_left -= len(produced.record_errors)
        return produced

    def _on_one_done(self) -> None:
        self._left -= 1
        if self._left:
            return
        if self._has_failed:
            _count_errors(self._doors, self._topics)
        if self._request.acks == 0:
            _answer_nothing(self._call, has_failed=self._has_failed)
            return
        frame = write_produce_response(
            self._call.version, self._call.header.correlation_id, self._topics
        )
        self._call.answer_parts((frame,))
