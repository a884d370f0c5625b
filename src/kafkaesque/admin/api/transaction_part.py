"""What a coordinator says of transactional ids: the part `transactions`."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.fan_out import OnAnswer, PartServer
from kafkaesque.admin.api.part_pages import (
    TRANSACTIONS,
    TransactionsAnswer,
    TransactionsQuestion,
)
from kafkaesque.admin.api.values import TopicPartitions, Transaction
from kafkaesque.model.errors import InvalidRequest, LeaderNotAvailable
from kafkaesque.model.ids import TopicPartition
from kafkaesque.transactions import events
from kafkaesque.transactions.errors import TransactionError
from kafkaesque.transactions.results import (
    DescribedTransaction,
    DescribeResult,
    ListedTransaction,
    ListResult,
)

#: Ids that one question names.
IDS_MAX: Final = 1_000


def register(context: Context, server: PartServer) -> None:
    """Have this part served."""
    server.register(TRANSACTIONS, lambda question, done: _answer(context, question, done))


def _answer(context: Context, question: TransactionsQuestion, on_done: OnAnswer) -> None:
    if question.ids is None and question.with_cover:
        _list_whole(context, on_done)
    elif question.ids is None:
        _list(context, on_done)
    elif len(question.ids) > IDS_MAX:
        raise InvalidRequest(f"at most {IDS_MAX} transactional ids are described at once")
    else:
        _describe(context, question.ids, on_done)


def _list(context: Context, on_done: OnAnswer) -> None:
    def on_listed(result: ListResult) -> None:
        if result.error is not TransactionError.NONE:
            on_done(LeaderNotAvailable(f"transactions are being loaded: {result.error.name}"))
            return
        told = [_write_state(context, each) for each in result.transactions]
        on_done(TransactionsAnswer(transactions=told))

    context.doors.transactions.list_transactions(lambda: _all_of_them(context), on_listed)


def _list_whole(context: Context, on_done: OnAnswer) -> None:
    def on_listed(listed: list[ListedTransaction], covers: list[int]) -> None:
        told = [_write_state(context, each) for each in listed]
        on_done(TransactionsAnswer(transactions=told, covers=covers))

    context.doors.transactions.list_whole(lambda: _all_of_them(context), on_listed)


def _all_of_them(context: Context) -> events.ListTransactions:
    return events.ListTransactions(
        token=context.doors.transactions.next_token(),
        states=(),
        producer_ids=(),
        duration_ms=-1,
        is_wanted_id=None,
    )


def _write_state(context: Context, found: ListedTransaction) -> Transaction:
    return Transaction(
        transactional_id=found.transactional_id,
        state=found.state,
        producer_id=found.producer_id,
        producer_epoch=-1,
        timeout_ms=0,
        since=None,
        coordinator=context.node,
        partitions=[],
    )


def _describe(context: Context, ids: Sequence[str], on_done: OnAnswer) -> None:
    coordinators = context.doors.transactions
    found: list[Transaction] = []
    covers: set[int] = set()
    left = len(ids) + 1

    def on_one() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            on_done(TransactionsAnswer(transactions=found, covers=sorted(covers)))

    def on_result(transactional_id: str, result: object) -> None:
        if isinstance(result, DescribeResult):
            covers.add(coordinators.find(transactional_id).partition)
            found.extend(
                _write(context, each)
                for each in result.transactions
                if each.error is TransactionError.NONE
            )
        on_one()

    for transactional_id in ids:
        event = events.DescribeTransactions(
            token=coordinators.next_token(), transactional_ids=(transactional_id,)
        )
        coordinators.step(transactional_id, event, partial(on_result, transactional_id))
    on_one()


def _write(context: Context, found: DescribedTransaction) -> Transaction:
    return Transaction(
        transactional_id=found.transactional_id,
        state=found.state,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        timeout_ms=found.timeout_ms,
        since=found.start_wall_ms if found.start_wall_ms >= 0 else None,
        coordinator=context.node,
        partitions=_by_topic(found.partitions),
    )


def _by_topic(partitions: Sequence[TopicPartition]) -> list[TopicPartitions]:
    topics: dict[str, list[int]] = {}
    for where in partitions:
        topics.setdefault(where.topic, []).append(where.partition)
    return [TopicPartitions(topic=name, partitions=found) for name, found in topics.items()]
