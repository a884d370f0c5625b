"""AddPartitionsToTxn, AddOffsetsToTxn and EndTxn: a transactional producer and its coordinator."""

from collections.abc import Callable, Sequence

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.topic_names import INTERNAL_TOPICS
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.errors import code_of, code_of_transaction_error
from kafkaesque.gateway.kafka.gathering import Queue
from kafkaesque.model.errors import InvariantBroken, LeaderNotAvailable, RequestRefused
from kafkaesque.model.ids import TopicPartition
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kafkaesque.protocols.kafka.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from kafkaesque.protocols.kafka.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kafkaesque.protocols.kafka.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kafkaesque.protocols.kafka.messages.end_txn_request import EndTxnRequest
from kafkaesque.protocols.kafka.messages.end_txn_response import EndTxnResponse
from kafkaesque.transactions import events
from kafkaesque.transactions.errors import TransactionError
from kafkaesque.transactions.results import AddOffsetsResult, AddPartitionsResult, EndResult

#: From this version of AddPartitionsToTxn on, one request is about many transactions (KIP-890).
_ADD_WITH_TRANSACTIONS = 4
#: From these on, a fenced producer is told so by that name (KIP-588).
_ADD_WITH_FENCED = 2
_ADD_OFFSETS_WITH_FENCED = 2
_END_WITH_FENCED = 2
#: From this version of EndTxn on, the client goes on with the epoch in the answer (KIP-890).
_END_WITH_EPOCH = 5

Errors = dict[TopicPartition, ErrorCode]


def error_of(result: object) -> TransactionError:
    """Return the error that came in place of a result.

    Raises:
        InvariantBroken: the result is another request's.
    """
    if isinstance(result, TransactionError):
        return result
    raise InvariantBroken(f"a transaction's request was answered with {type(result).__name__}")


# -- AddPartitionsToTxn


def on_add_partitions_to_txn(context: Context, call: Call) -> None:
    """Take partitions into transactions, or say whether they take part."""
    request: AddPartitionsToTxnRequest = call.read()
    if call.version >= _ADD_WITH_TRANSACTIONS:
        _add_many(context, call, request)
        return
    adding = _Adding(
        context.doors,
        call,
        events.AddedPartitions(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            _partitions_of(request.v3_and_below_topics),
        ),
    )

    def answer() -> None:
        topics = _topic_results(request.v3_and_below_topics, adding.errors)
        call.answer(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics))

    adding.start(answer)


def _add_many(context: Context, call: Call, request: AddPartitionsToTxnRequest) -> None:
    pieces = [
        _Adding(
            context.doors,
            call,
            events.AddedPartitions(
                each.transactional_id,
                each.producer_id,
                each.producer_epoch,
                _partitions_of(each.topics),
                verify_only=each.verify_only,
            ),
        )
        for each in request.transactions
    ]

    def answer() -> None:
        results = [
            AddPartitionsToTxnResult(
                each.transactional_id, _topic_results(each.topics, piece.errors)
            )
            for each, piece in zip(request.transactions, pieces, strict=True)
        ]
        call.answer(AddPartitionsToTxnResponse(results_by_transaction=results))

    Queue(context.clock, [piece.start for piece in pieces], answer).start()


def _partitions_of(topics: Sequence[AddPartitionsToTxnTopic]) -> tuple[TopicPartition, ...]:
    found = {
        TopicPartition(topic.name, each): None for topic in topics for each in topic.partitions
    }
    return tuple(found)


def _topic_results(
    topics: Sequence[AddPartitionsToTxnTopic], errors: Errors
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [
                AddPartitionsToTxnPartitionResult(each, errors[TopicPartition(topic.name, each)])
                for each in topic.partitions
            ],
        )
        for topic in topics
    ]


class _Adding:
    """One transaction of the request; `errors` are there when `start` has called back."""

    __slots__ = ("_added", "_call", "_doors", "errors")

    def __init__(self, doors: Doors, call: Call, added: events.AddedPartitions) -> None:
        self._doors = doors
        self._call = call
        self._added = added
        self.errors: Errors = {}

    def start(self, on_done: Callable[[], None]) -> None:
        """Ask the coordinator, unless a partition cannot take part: then none is added."""
        added = self._added
        if not added.verify_only and self._refuse_partitions():
            on_done()
            return

        def on_result(result: object) -> None:
            if isinstance(result, AddPartitionsResult):
                ((_, partitions),) = result.transactions
                self.errors.update((each.partition, self._code(each.error)) for each in partitions)
            else:
                self._put_all(self._code(error_of(result)))
            on_done()

        coordinators = self._doors.transactions
        event = events.AddPartitions(
            token=coordinators.next_token(),
            connection=self._call.connection.number,
            transactions=(added,),
        )
        coordinators.step(added.transactional_id, event, on_result)

    def _refuse_partitions(self) -> bool:
        """Tell whether there are partitions that no client may write to, or that do not exist."""
        refused: Errors = {}
        for each in self._added.partitions:
            if each.topic in INTERNAL_TOPICS:
                # What Kafka says.
                refused[each] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif code := self._unwritable(each):
                refused[each] = code
        if refused:
            self._put_all(ErrorCode.OPERATION_NOT_ATTEMPTED)
            self.errors.update(refused)
        return bool(refused)

    def _unwritable(self, where: TopicPartition) -> ErrorCode:
        """Return why nobody can write to a partition: it does not exist, or shows a queue."""
        try:
            self._doors.cluster.state.partition(where)
        except RequestRefused as refusal:
            return code_of(refusal)
        return ErrorCode.NONE

    def _put_all(self, code: ErrorCode) -> None:
        self.errors.update(dict.fromkeys(self._added.partitions, code))

    def _code(self, error: TransactionError) -> ErrorCode:
        is_fenced_known = self._call.version >= _ADD_WITH_FENCED
        return code_of_transaction_error(error, is_fenced_known=is_fenced_known)


# -- AddOffsetsToTxn


def on_add_offsets_to_txn(context: Context, call: Call) -> None:
    """Take a group's offsets into a transaction."""
    request: AddOffsetsToTxnRequest = call.read()
    doors = context.doors

    def answer(error: TransactionError) -> None:
        is_fenced_known = call.version >= _ADD_OFFSETS_WITH_FENCED
        code = code_of_transaction_error(error, is_fenced_known=is_fenced_known)
        call.answer(AddOffsetsToTxnResponse(error_code=code))

    def on_result(result: object) -> None:
        answer(result.error if isinstance(result, AddOffsetsResult) else error_of(result))

    def add() -> None:
        try:
            partition = doors.groups.find(request.group_id)
        except LeaderNotAvailable:
            answer(TransactionError.COORDINATOR_NOT_AVAILABLE)
            return

        event = events.AddOffsets(
            token=doors.transactions.next_token(),
            connection=call.connection.number,
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            partition=partition,
        )
        doors.transactions.step(request.transactional_id, event, on_result)

    doors.groups.when_found((request.group_id,), add)


# -- EndTxn


def on_end_txn(context: Context, call: Call) -> None:
    """Commit or abort; answered when that is decided, while markers are still written."""
    request: EndTxnRequest = call.read()
    coordinators = context.doors.transactions
    event = events.EndTransaction(
        token=coordinators.next_token(),
        connection=call.connection.number,
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        is_commit=request.committed,
        learns_epoch=call.version >= _END_WITH_EPOCH,
    )

    def on_result(result: object) -> None:
        if not isinstance(result, EndResult):
            result = EndResult(error=error_of(result))
        is_fenced_known = call.version >= _END_WITH_FENCED
        call.answer(
            EndTxnResponse(
                error_code=code_of_transaction_error(result.error, is_fenced_known=is_fenced_known),
                producer_id=result.producer_id,
                producer_epoch=result.producer_epoch,
            )
        )

    coordinators.step(request.transactional_id, event, on_result)
