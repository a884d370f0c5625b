"""`/groups` and `/transactions`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kafkaesque.access.operations import ResourceType
from kafkaesque.admin.api.calls import Call, NoQuery
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.fan_out import Gathered
from kafkaesque.admin.api.paging import ListQuery, PageOf, sort_field, take_page, wants
from kafkaesque.admin.api.part_list import Keys, answer_list
from kafkaesque.admin.api.part_pages import (
    GROUP,
    GROUPS,
    PARTITIONS,
    TRANSACTIONS,
    GroupAnswer,
    GroupQuestion,
    PartitionsAnswer,
    PartitionsQuestion,
    TransactionsAnswer,
    TransactionsQuestion,
)
from kafkaesque.admin.api.values import (
    GroupList,
    GroupOffset,
    GroupView,
    Origin,
    Transaction,
    TransactionList,
)
from kafkaesque.admin.lag import lag_of
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import NodeId, TopicPartition

_GROUP_KEYS: Keys = {
    "group": lambda each: each.group,
    "lag": lambda each: each.lag,
    "state": lambda each: each.state,
}
_TRANSACTION_KEYS: Keys = {
    "transactional_id": lambda each: each.transactional_id,
    "state": lambda each: each.state,
}


class GroupPages:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context

    # -- lists

    def list_groups(self, call: Call[ListQuery, None]) -> None:
        """List groups of all coordinators."""
        answer_list(
            self._context,
            call,
            GROUPS,
            "groups",
            _GROUP_KEYS,
            GroupList,
            lambda each: str(each.group),
            lambda each: call.sees(ResourceType.GROUP, each.group),
        )

    # -- /transactions

    def list_transactions(self, call: Call[ListQuery, None]) -> None:
        """List transactional ids; those of the page are described by their coordinators."""
        query, fan_out = call.query, self._context.fan_out
        sort_field(query, _TRANSACTION_KEYS, "transactional_id")

        def on_listed(gathered: Gathered[TransactionsAnswer]) -> None:
            call.guard(lambda: describe(gathered))

        def describe(gathered: Gathered[TransactionsAnswer]) -> None:
            told = [each for answer in gathered.answers.values() for each in answer.transactions]
            found = [
                each
                for each in told
                if wants(query, each.transactional_id)
                and call.sees(ResourceType.TRANSACTIONAL_ID, each.transactional_id)
            ]
            page = take_page(found, query, _TRANSACTION_KEYS, "transactional_id")
            by_node: dict[NodeId, list[str]] = {}
            for each in page.items:
                by_node.setdefault(NodeId(each.coordinator), []).append(each.transactional_id)
            questions = {node: TransactionsQuestion(ids=ids) for node, ids in by_node.items()}

            def on_described(described: Gathered[TransactionsAnswer]) -> None:
                known = {
                    each.transactional_id: each
                    for answer in described.answers.values()
                    for each in answer.transactions
                }
                items = [
                    _seen_transaction(call, known.get(each.transactional_id, each))
                    for each in page.items
                ]
                whole = PageOf(items, page.total, page.next)
                call.answer(self._context.page_view(TransactionList, whole, gathered.sources))

            fan_out.ask(TRANSACTIONS, questions, on_described)

        fan_out.ask_all(TRANSACTIONS, TransactionsQuestion(), on_listed)

    # -- /groups/{group}

    def show_group(self, call: Call[NoQuery, None]) -> None:
        """Show a group as its coordinator knows it, and its lag as leaders do."""
        group = call.params["group"]
        try:
            node = self._context.leader(self._context.doors.groups.find(group))
        except RequestRefused as refusal:
            call.refuse(503, "CoordinatorNotAvailable", f"it has no coordinator now: {refusal}")
            return

        def on_described(gathered: Gathered[GroupAnswer]) -> None:
            answer = gathered.answers.get(node)
            if answer is None:
                (source,) = gathered.sources
                call.refuse(503, "CoordinatorNotAvailable", source.missing or "")
            elif not answer.state:
                call.refuse(404, "UnknownGroup", f"there is no group {group!r}")
            else:
                self._ask_ends(call, node, _seen_group(call, answer), gathered.sources)

        question = GroupQuestion(group=group)
        self._context.fan_out.ask(GROUP, {node: question}, on_described)

    def _ask_ends(
        self,
        call: Call[NoQuery, None],
        coordinator: NodeId,
        answer: GroupAnswer,
        sources: Sequence[Origin],
    ) -> None:
        by_leader: dict[NodeId, dict[str, list[int]]] = {}
        for each in answer.offsets:
            try:
                leader = self._context.leader(TopicPartition(each.topic, each.partition))
            except RequestRefused:
                continue
            by_leader.setdefault(leader, {}).setdefault(each.topic, []).append(each.partition)
        questions = {node: PartitionsQuestion(partitions=e) for node, e in by_leader.items()}

        def on_gathered(gathered: Gathered[PartitionsAnswer]) -> None:
            ends = {
                (each.topic, each.partition): each.end_offset
                for found in gathered.answers.values()
                for each in found.partitions
            }
            offsets = _offsets(answer, ends)
            call.answer(
                GroupView(
                    as_of=self._context.now(),
                    seen_by=self._context.node,
                    sources=[
                        *sources,
                        *(each for each in gathered.sources if each.broker != coordinator),
                    ],
                    group=call.params["group"],
                    state=answer.state,
                    kind=answer.kind,
                    protocol_type=answer.protocol_type,
                    protocol=answer.protocol,
                    coordinator=coordinator,
                    members=answer.members,
                    offsets=offsets,
                    lag=sum(each.lag or 0 for each in offsets),
                    unknown=sum(each.lag is None for each in offsets),
                )
            )

        self._context.fan_out.ask(PARTITIONS, questions, on_gathered)


def _seen_transaction(call: Call[ListQuery, None], told: Transaction) -> Transaction:
    """Return what the client may see of a transaction."""
    partitions = [e for e in told.partitions if call.sees(ResourceType.TOPIC, e.topic)]
    return msgspec.structs.replace(told, partitions=partitions)


def _seen_group(call: Call[NoQuery, None], told: GroupAnswer) -> GroupAnswer:
    """Return what the client may see of a group: not the topics that are hidden from it."""
    members = [
        msgspec.structs.replace(
            each,
            assignment=[e for e in each.assignment if call.sees(ResourceType.TOPIC, e.topic)],
        )
        for each in told.members
    ]
    offsets = [each for each in told.offsets if call.sees(ResourceType.TOPIC, each.topic)]
    return msgspec.structs.replace(told, members=members, offsets=offsets)


def _offsets(answer: GroupAnswer, ends: dict[tuple[str, int], int]) -> list[GroupOffset]:
    owners = {
        (part.topic, number): member.member
        for member in answer.members
        for part in member.assignment
        for number in part.partitions
    }
    found = []
    for each in answer.offsets:
        where = (each.topic, each.partition)
        end = ends.get(where)
        found.append(
            GroupOffset(
                topic=each.topic,
                partition=each.partition,
                committed=each.offset,
                metadata=each.metadata,
                committed_at=each.at_ms or None,
                end_offset=end,
                lag=None if end is None else lag_of(end, each.offset),
                member=owners.get(where),
            )
        )
    return sorted(found, key=lambda each: (each.topic, each.partition))
