"""How groups are deleted and transactions aborted; each has a dry run, and names its command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import msgspec

from kafkaesque.access.audit import DataChange, Outcome
from kafkaesque.access.operations import ResourceType
from kafkaesque.admin.api.authorization import refuse_unknown_group, refuse_unknown_topic
from kafkaesque.admin.api.calls import Call, Route
from kafkaesque.admin.api.changes import CHANGE_MS_MAX, Change, DryRun, answer_change
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.coordinator_action_part import (
    ABORT_ID,
    ABORT_OPEN,
    DELETE_GROUP,
    OPEN,
    AbortOpen,
    ById,
    Ended,
    OpenAnswer,
    OpenRow,
)
from kafkaesque.admin.api.fan_out import Gathered, PartPage, QuestionT, Undone
from kafkaesque.admin.api.paging import ListQuery, sort_field, take_page, wants
from kafkaesque.admin.api.part_list import Keys, page_view
from kafkaesque.admin.api.part_pages import (
    GROUP,
    TRANSACTIONS,
    GroupAnswer,
    GroupQuestion,
    Nothing,
    TransactionsAnswer,
    TransactionsQuestion,
)
from kafkaesque.admin.api.values import Listing, Origin, Transaction
from kafkaesque.broker.metadata.topic_names import TRANSACTIONS_TOPIC
from kafkaesque.model.errors import InvalidRequest, LeaderNotAvailable, RequestTimedOut
from kafkaesque.model.ids import NodeId, TopicPartition
from kafkaesque.model.sink_markers import keeps_sink_marker

_ENDED: Final = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")
_ERRORS: Final = {
    "NON_EMPTY_GROUP": (409, "GroupNotEmpty", "it has members: stop them first"),
    "GROUP_ID_NOT_FOUND": (404, "UnknownGroup", "there is no such group"),
    "TRANSACTIONAL_ID_NOT_FOUND": (404, "UnknownTransaction", "there is no such id"),
    "INVALID_TXN_STATE": (409, "NoTransaction", "it has no transaction open"),
    "CONCURRENT_TRANSACTIONS": (409, "Busy", "its transaction is about to end: try again"),
}


class OpenTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction that is open in a partition: readers of what is committed wait for it."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    #: Its first offset in the partition.
    start_offset: int
    #: When its producer has written there last.
    written_at: int | None
    #: Of the coordinator that knows of it; null: none does, or it may not be seen.
    transactional_id: str | None
    #: Whether no coordinator knows of it, so that nobody will end it; null where not all answer.
    is_hanging: bool | None


class OpenTransactionList(Listing, frozen=True, kw_only=True):
    """Transactions that are open in partitions."""

    items: list[OpenTransaction]


class HangingTransaction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which transaction of a partition is to be aborted."""

    #: Its first offset.
    start_offset: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


_KEYS: Final[Keys] = {
    "topic": lambda each: (each.topic, each.partition, each.start_offset),
    "written_at": lambda each: each.written_at,
    "is_hanging": lambda each: each.is_hanging,
}
Found = list[tuple[OpenRow, OpenTransaction]]


class CoordinatorActionPages:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def _end(
        self,
        call: Call[DryRun, Any],
        ask: tuple[PartPage[QuestionT, Ended], NodeId, QuestionT],
        about: str,
        note: Callable[[Outcome], None],
        answer: Callable[[], None],
    ) -> None:
        """Ask a broker to end something; tell the audit log, and answer how it went."""

        def on_ended(outcome: Ended | Undone) -> None:
            if outcome.is_unsure:
                note(Outcome.UNKNOWN)
                why = f"{about}: {outcome.because}; it may be done all the same"
                call.refuse_with(RequestTimedOut(why))
            elif _is_done(call, outcome, about):
                note(Outcome.DONE)
                answer()

        self._context.fan_out.ask_change(*ask, on_ended, CHANGE_MS_MAX)

    def _note(
        self,
        call: Call[DryRun, Any],
        change: DataChange,
        resource_type: ResourceType,
        name: str,
        detail: Mapping[str, str],
        outcome: Outcome,
    ) -> None:
        self._context.doors.access.audit.change_of_data(
            call.client, change, resource_type, name, detail, outcome=outcome
        )

    # -- groups

    def delete_group(self, call: Call[DryRun, None]) -> None:
        """Delete a group without members, with what it has committed."""
        group = call.params["group"]
        if keeps_sink_marker(group):
            raise InvalidRequest(
                f"{group!r} keeps the marker of an exactly-once Spark sink: "
                "`kafkaesque group delete --allow-duplicates`, if the query is gone for good"
            )
        context, words = self._context, ["kafkaesque", "group", "delete", group]
        node = context.leader(context.doors.groups.find(group))

        def on_described(answer: GroupAnswer | Origin) -> None:
            if isinstance(answer, Origin):
                call.refuse(503, "CoordinatorNotAvailable", answer.missing or "")
            elif not answer.state:
                refuse_unknown_group(call, group)
            else:
                what = f"group {group} would be deleted, with {len(answer.offsets)} offsets"
                if answer.members:
                    what += f"; but it has {len(answer.members)} members, to be stopped first"
                answer_change(context, call, what, words)

        if call.query.dry_run:
            context.fan_out.ask_one(GROUP, node, GroupQuestion(group=group), on_described)
            return

        def note(outcome: Outcome) -> None:
            self._note(call, DataChange.DELETE_GROUP, ResourceType.GROUP, group, {}, outcome)

        def answer() -> None:
            answer_change(context, call, f"group {group} is deleted", words)

        ask = DELETE_GROUP, node, ById(id=group)
        self._end(call, ask, f"group {group}", note, answer)

    # -- transactions

    def abort_id(self, call: Call[DryRun, None]) -> None:
        """Abort what a transactional id has open, and fence its producer."""
        name, context = call.params["transaction"], self._context
        node = context.leader(context.doors.transactions.find(name))
        about = f"transactional id {name}"
        words = ["kafkaesque", "txn", "abort", name]

        def on_described(answer: TransactionsAnswer | Origin) -> None:
            if isinstance(answer, Origin):
                call.refuse(503, "CoordinatorNotAvailable", answer.missing or "")
                return
            found = next(iter(answer.transactions), None)
            error = "NONE"
            if found is None:
                error = "TRANSACTIONAL_ID_NOT_FOUND"
            elif found.state in _ENDED:
                error = "INVALID_TXN_STATE"
            if _is_done(call, Ended(error=error), about):
                count = sum(len(each.partitions) for each in found.partitions) if found else 0
                what = f"the transaction of {name} in {count} partitions would be aborted"
                answer_change(context, call, f"{what}, and its producer fenced", words)

        if call.query.dry_run:
            question = TransactionsQuestion(ids=[name])
            context.fan_out.ask_one(TRANSACTIONS, node, question, on_described)
            return

        def note(outcome: Outcome) -> None:
            change, kind = DataChange.ABORT_TRANSACTION, ResourceType.TRANSACTIONAL_ID
            self._note(call, change, kind, name, {}, outcome)

        def answer() -> None:
            what = f"the transaction of {name} is aborted, and its producer fenced"
            answer_change(context, call, what, words)

        self._end(call, (ABORT_ID, node, ById(id=name)), about, note, answer)

    def list_open(self, call: Call[ListQuery, None]) -> None:
        """List what is open in partitions, and whether any coordinator knows of it."""
        query = call.query
        sort_field(query, _KEYS, "topic")

        def on_found(found: Found, sources: list[Origin]) -> None:
            seen = [
                _seen(call, each)
                for _, each in found
                if wants(query, f"{each.topic} {each.transactional_id or ''}")
                and call.sees(ResourceType.TOPIC, each.topic)
            ]
            page = take_page(seen, query, _KEYS, "topic")
            call.answer(page_view(self._context, OpenTransactionList, page, sources))

        _Looking(self._context, lambda *found: call.guard(lambda: on_found(*found))).start()

    def abort_hanging(self, call: Call[DryRun, HangingTransaction]) -> None:
        """Abort what is open in a partition, and no coordinator knows of."""
        topic, word = call.params["topic"], call.params["partition"]
        known = self._context.doors.cluster.state.topics.get(topic)
        is_number = word.isascii() and word.isdecimal() and len(word) < 10
        if known is None or not is_number or int(word) >= len(known.partitions):
            refuse_unknown_topic(call, topic)
            return
        wanted = (topic, int(word), call.body.start_offset)

        def on_found(found: Found, _: list[Origin]) -> None:
            chosen = next(
                (e for e in found if (e[0].topic, e[0].partition, e[0].start_offset) == wanted),
                None,
            )
            place = f"{topic}-{word}"
            if chosen is None:
                what = f"nothing that began at offset {wanted[2]} is open in {place}"
                call.refuse(404, "UnknownTransaction", what)
            elif chosen[1].is_hanging is None:
                raise LeaderNotAvailable("not all coordinators say whether they know of it")
            elif not chosen[1].is_hanging:
                name = chosen[1].transactional_id
                what = f"it does not hang: it is of {name}, which `txn abort` takes"
                call.refuse(409, "NotHanging", what)
            else:
                self._abort(call, chosen[0])

        _Looking(self._context, lambda *found: call.guard(lambda: on_found(*found))).start()

    def _abort(self, call: Call[DryRun, HangingTransaction], row: OpenRow) -> None:
        where = TopicPartition(row.topic, row.partition)
        words = ["kafkaesque", "txn", "abort", "--topic", row.topic]
        words += ["--partition", str(row.partition), "--start-offset", str(row.start_offset)]
        what = f"the transaction of producer {row.producer_id} in {where}"
        if call.query.dry_run:
            answer_change(self._context, call, f"{what} would be aborted", words)
            return

        def note(outcome: Outcome) -> None:
            told = f"{row.partition}: producer {row.producer_id}, from {row.start_offset}"
            change, kind = DataChange.ABORT_TRANSACTION, ResourceType.TOPIC
            self._note(call, change, kind, row.topic, {"1": told}, outcome)

        def answer() -> None:
            answer_change(self._context, call, f"{what} is aborted", words)

        ask = ABORT_OPEN, self._context.leader(where), AbortOpen(row=row)
        self._end(call, ask, str(where), note, answer)


class _Looking:
    """What is open in partitions is joined with what coordinators know, asked after that."""

    def __init__(self, context: Context, on_done: Callable[[Found, list[Origin]], None]) -> None:
        self._context = context
        self._on_done = on_done
        self._rows: list[OpenRow] = []
        self._sources: list[Origin] = []

    def start(self) -> None:
        """Ask leaders."""
        self._context.fan_out.ask_all(OPEN, Nothing(), self._on_open)

    def _on_open(self, gathered: Gathered[OpenAnswer]) -> None:
        self._rows = [row for answer in gathered.answers.values() for row in answer.rows]
        self._sources = gathered.sources
        if not self._rows:
            self._on_done([], self._sources)
            return
        self._context.fan_out.ask_all(TRANSACTIONS, TransactionsQuestion(), self._on_listed)

    def _on_listed(self, gathered: Gathered[TransactionsAnswer]) -> None:
        producers = {row.producer_id for row in self._rows}
        by_node: dict[NodeId, list[str]] = {}
        for node, answer in gathered.answers.items():
            for each in answer.transactions:
                if each.producer_id in producers and each.state not in _ENDED:
                    by_node.setdefault(node, []).append(each.transactional_id)
        is_whole = self._has_all(set(gathered.answers))
        questions = {node: TransactionsQuestion(ids=ids[:1_000]) for node, ids in by_node.items()}

        def on_described(described: Gathered[TransactionsAnswer]) -> None:
            known = [e for answer in described.answers.values() for e in answer.transactions]
            has_all = is_whole and len(known) == sum(map(len, by_node.values()))
            self._on_done([(row, _open(row, known, has_all)) for row in self._rows], self._sources)

        self._context.fan_out.ask(TRANSACTIONS, questions, on_described)

    def _has_all(self, answered: set[NodeId]) -> bool:
        """Tell whether all coordinators have said what they know."""
        cluster = self._context.doors.cluster
        topic = cluster.state.topics.get(TRANSACTIONS_TOPIC)
        leaders = [cluster.leaders.leader(e.group) for e in topic.partitions] if topic else []
        return all(leader in answered for leader in leaders)


def _open(row: OpenRow, known: list[Transaction], has_all: bool) -> OpenTransaction:
    owner = next((each for each in known if _has(each, row)), None)
    return OpenTransaction(
        topic=row.topic,
        partition=row.partition,
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        start_offset=row.start_offset,
        written_at=row.written_ms if row.written_ms > 0 else None,
        transactional_id=None if owner is None else owner.transactional_id,
        is_hanging=False if owner is not None else True if has_all else None,
    )


def _has(transaction: Transaction, row: OpenRow) -> bool:
    return transaction.producer_id == row.producer_id and any(
        each.topic == row.topic and row.partition in each.partitions
        for each in transaction.partitions
    )


def _seen(call: Call[ListQuery, None], told: OpenTransaction) -> OpenTransaction:
    name = told.transactional_id
    if name is None or call.sees(ResourceType.TRANSACTIONAL_ID, name):
        return told
    return msgspec.structs.replace(told, transactional_id=None)


def _is_done(call: Call[DryRun, Any], outcome: Ended | Undone, what: str) -> bool:
    """Tell whether it went well; the call is answered if it did not."""
    if isinstance(outcome, Ended) and outcome.error == "NONE":
        return True
    error = outcome.error if isinstance(outcome, Ended) else ""
    unavailable = 503, "CoordinatorNotAvailable", outcome.because
    status, kind, words = _ERRORS.get(error, unavailable)
    call.refuse(status, kind, f"{what}: {words}")
    return False


def coordinator_action_routes(pages: CoordinatorActionPages) -> list[Route]:
    """Return the operations that end groups and transactions."""
    return [
        Route(
            method="DELETE",
            path="/groups/{group}",
            name="deleteGroup",
            summary="Delete a group without members, with its committed offsets",
            handle=pages.delete_group,
            query=DryRun,
            result=Change,
        ),
        Route(
            method="POST",
            path="/transactions/{transaction}/abort",
            name="abortTransaction",
            summary="Abort what a transactional id has open, and fence its producer",
            handle=pages.abort_id,
            query=DryRun,
            result=Change,
        ),
        Route(
            method="GET",
            path="/open-transactions",
            name="listOpenTransactions",
            summary="Transactions that are open in partitions, and which of them hang",
            handle=pages.list_open,
            query=ListQuery,
            result=OpenTransactionList,
        ),
        Route(
            method="POST",
            path="/topics/{topic}/partitions/{partition}/abort",
            name="abortHanging",
            summary="Abort a transaction that is open in a partition and that no coordinator knows",
            handle=pages.abort_hanging,
            query=DryRun,
            body=HangingTransaction,
            result=Change,
        ),
    ]
