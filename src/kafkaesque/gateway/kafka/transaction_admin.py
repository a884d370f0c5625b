"""DescribeTransactions and ListTransactions: for those who look after them (KIP-664)."""

from collections.abc import Callable

from kafkaesque.broker.doors import Doors
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.errors import code_of_transaction_error
from kafkaesque.gateway.kafka.gathering import Queue
from kafkaesque.gateway.kafka.transactions import error_of
from kafkaesque.model.pattern_errors import reason_of
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.describe_transactions_request import (
    DescribeTransactionsRequest,
)
from kafkaesque.protocols.kafka.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from kafkaesque.protocols.kafka.messages.list_transactions_request import ListTransactionsRequest
from kafkaesque.protocols.kafka.messages.list_transactions_response import (
    ListTransactionsResponse,
)
from kafkaesque.protocols.kafka.messages.list_transactions_response import (
    TransactionState as ListedTransaction,
)
from kafkaesque.transactions import events
from kafkaesque.transactions.errors import TransactionError
from kafkaesque.transactions.results import DescribedTransaction, DescribeResult, ListResult

#: The longest pattern of transactional ids.
PATTERN_LENGTH_MAX = 1_000


# -- DescribeTransactions


def on_describe_transactions(context: Context, call: Call) -> None:
    """Show transactional ids that this broker coordinates."""
    request: DescribeTransactionsRequest = call.read()
    ids = dict.fromkeys(request.transactional_ids)
    pieces = [_Description(context.doors, transactional_id) for transactional_id in ids]

    def answer() -> None:
        states = [_write(piece.found) for piece in pieces]
        call.answer(DescribeTransactionsResponse(transaction_states=states))

    Queue(context.clock, [piece.start for piece in pieces], answer).start()


class _Description:
    """One transactional id; `found` is there when `start` has called back."""

    __slots__ = ("_doors", "found")

    def __init__(self, doors: Doors, transactional_id: str) -> None:
        self._doors = doors
        self.found = DescribedTransaction(
            error=TransactionError.UNKNOWN_SERVER_ERROR, transactional_id=transactional_id
        )

    def start(self, on_done: Callable[[], None]) -> None:
        """Ask the coordinator."""
        transactional_id = self.found.transactional_id

        def on_result(result: object) -> None:
            if isinstance(result, DescribeResult):
                (self.found,) = result.transactions
            else:
                self.found = DescribedTransaction(
                    error=error_of(result), transactional_id=transactional_id
                )
            on_done()

        coordinators = self._doors.transactions
        event = events.DescribeTransactions(
            token=coordinators.next_token(), transactional_ids=(transactional_id,)
        )
        coordinators.step(transactional_id, event, on_result)


def _write(found: DescribedTransaction) -> TransactionState:
    topics: dict[str, list[int]] = {}
    for where in found.partitions:
        topics.setdefault(where.topic, []).append(where.partition)
    return TransactionState(
        error_code=code_of_transaction_error(found.error),
        transactional_id=found.transactional_id,
        transaction_state=found.state,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_wall_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[TopicData(topic, partitions) for topic, partitions in topics.items()],
    )


# -- ListTransactions


def on_list_transactions(context: Context, call: Call) -> None:
    """List the transactional ids that this broker coordinates and that pass the filters."""
    request: ListTransactionsRequest = call.read()
    try:
        is_wanted_id = _matcher(request.transactional_id_pattern)
    except ValueError:
        call.answer(ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION))
        return
    coordinators = context.doors.transactions

    def make_event() -> events.ListTransactions:
        return events.ListTransactions(
            token=coordinators.next_token(),
            states=tuple(request.state_filters),
            producer_ids=tuple(request.producer_id_filters),
            duration_ms=request.duration_filter,
            is_wanted_id=is_wanted_id,
        )

    def on_done(result: ListResult) -> None:
        call.answer(
            ListTransactionsResponse(
                error_code=code_of_transaction_error(result.error),
                unknown_state_filters=list(result.unknown_states),
                transaction_states=[
                    ListedTransaction(each.transactional_id, each.producer_id, each.state)
                    for each in result.transactions
                ],
            )
        )

    coordinators.list_transactions(make_event, on_done)


def _matcher(pattern: str | None) -> Callable[[str], bool] | None:
    """Return what tells whether an id fits a pattern, as a whole (KIP-1152).

    Raises:
        ValueError: it is no regular expression of RE2, or too long.
    """
    if not pattern:
        return None
    if len(pattern) > PATTERN_LENGTH_MAX:
        raise ValueError(f"a pattern of {len(pattern)} characters")
    # Linear in time: a client must not be able to stall the broker with a pattern.
    import re2

    try:
        options = re2.Options()
        options.log_errors = False
        compiled = re2.compile(pattern, options=options)
    except re2.error as error:
        raise ValueError(reason_of(error)) from error
    return lambda transactional_id: compiled.fullmatch(transactional_id) is not None
