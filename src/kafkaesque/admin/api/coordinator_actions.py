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
    WRITTEN_MEANWHILE,
    AbortOpen,
    ById,
    Ended,
    OpenRow,
)
from kafkaesque.admin.api.fan_out import PartPage, QuestionT, Undone
from kafkaesque.admin.api.hanging import ENDED, Found, Look, OpenTransaction
from kafkaesque.admin.api.paging import ListQuery, sort_field, take_page, wants
from kafkaesque.admin.api.part_list import Keys
from kafkaesque.admin.api.part_pages import (
    GROUP,
    TRANSACTIONS,
    GroupAnswer,
    GroupQuestion,
    TransactionsAnswer,
    TransactionsQuestion,
)
from kafkaesque.admin.api.values import Listing, Origin
from kafkaesque.model.counted import counted
from kafkaesque.model.errors import InvalidRequest, LeaderNotAvailable, RequestTimedOut
from kafkaesque.model.ids import NodeId, TopicPartition
from kafkaesque.model.sink_markers import keeps_sink_marker

_ONGOING: Final = "Ongoing"
_ERRORS: Final = {
    "NON_EMPTY_GROUP": (409, "GroupNotEmpty", "it has members: stop them first"),
    "GROUP_ID_NOT_FOUND": (404, "UnknownGroup", "there is no such group"),
    "TRANSACTIONAL_ID_NOT_FOUND": (404, "UnknownTransaction", "there is no such id"),
    "INVALID_TXN_STATE": (409, "NoTransaction", "it has no transaction open"),
    "CONCURRENT_TRANSACTIONS": (409, "Busy", "its transaction is about to end: try again"),
    WRITTEN_MEANWHILE: (409, "Busy", "its producer has written there meanwhile: look again"),
}


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
                kept = f"cursors of {counted(answer.cursors, 'topic')}" if answer.cursors else ""
                kept = kept or counted(len(answer.offsets), "offset")
                what = f"group {group} would be deleted, with {kept}"
                if answer.members:
                    members = counted(len(answer.members), "member")
                    what += f"; but it has {members}, to be stopped first"
                answer_change(context, call, what, words)

        if call.query.dry_run:
            question = GroupQuestion(group=group, with_share=True)
            context.fan_out.ask_one(GROUP, node, question, on_described)
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
        where = context.doors.transactions.find(name)
        node, about = context.leader(where), f"transactional id {name}"
        words = ["kafkaesque", "txn", "abort", name]

        def on_described(answer: TransactionsAnswer | Origin) -> None:
            if isinstance(answer, Origin):
                call.refuse(503, "CoordinatorNotAvailable", answer.missing or "")
                return
            found = next(iter(answer.transactions), None)
            if found is None and where.partition not in answer.covers:
                why = f"the coordinator of {name} is another one by now, or is loading: try again"
                call.refuse(503, "CoordinatorNotAvailable", why)
                return
            error = "TRANSACTIONAL_ID_NOT_FOUND" if found is None else _obstacle(found.state)
            if _is_done(call, Ended(error=error), about):
                count = sum(len(each.partitions) for each in found.partitions) if found else 0
                where_open = counted(count, "partition")
                what = f"the transaction of {name} in {where_open} would be aborted"
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

        def on_found(found: Found) -> None:
            seen = [
                each
                for each in (_seen(call, told) for _, told in found.items)
                if wants(query, f"{each.topic} {each.transactional_id or ''}")
                and call.sees(ResourceType.TOPIC, each.topic)
            ]
            page = take_page(seen, query, _KEYS, "topic")
            call.answer(self._context.page_view(OpenTransactionList, page, found.sources))

        Look(self._context, lambda found: call.guard(lambda: on_found(found))).start()

    def abort_hanging(self, call: Call[DryRun, HangingTransaction]) -> None:
        """Abort what is open in a partition, and no coordinator knows of."""
        topic, word = call.params["topic"], call.params["partition"]
        known = self._context.doors.cluster.state.topics.get(topic)
        is_number = word.isascii() and word.isdecimal() and len(word) < 10
        if known is None or not is_number or int(word) >= len(known.partitions):
            refuse_unknown_topic(call, topic)
            return
        where, start_offset = TopicPartition(topic, int(word)), call.body.start_offset

        def on_found(found: Found) -> None:
            chosen = next((e for e in found.items if e[0].start_offset == start_offset), None)
            missing = next((e.missing for e in found.sources if e.missing is not None), None)
            if chosen is None and missing is not None:
                raise LeaderNotAvailable(missing)
            if chosen is None:
                what = f"nothing that began at offset {start_offset} is open in {where}"
                call.refuse(404, "UnknownTransaction", what)
            elif chosen[1].is_hanging is None:
                raise LeaderNotAvailable("not all coordinators say whether they know of it")
            elif not chosen[1].is_hanging:
                name = _seen(call, chosen[1]).transactional_id
                whose = "a coordinator knows of it, and will end it"
                if name is not None:
                    whose = f"it is of {name}, which `txn abort` takes"
                call.refuse(409, "NotHanging", f"it does not hang: {whose}")
            else:
                self._abort(call, chosen[0])

        # What an earlier look has found, proves nothing by now.
        Look(self._context, lambda found: call.guard(lambda: on_found(found)), where).start()

    def _abort(self, call: Call[DryRun, HangingTransaction], row: OpenRow) -> None:
        where = row.where
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


def _obstacle(state: str) -> str:
    """Return why a transaction in a state is not aborted; what has begun to end ends so."""
    if state == _ONGOING:
        return "NONE"
    return "INVALID_TXN_STATE" if state in ENDED else "CONCURRENT_TRANSACTIONS"


def _seen(call: Call[Any, Any], told: OpenTransaction) -> OpenTransaction:
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
