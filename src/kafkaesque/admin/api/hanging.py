"""What is open in partitions, and whether it hangs: whether no coordinator knows of it.

Theory of operation. Nobody ends what hangs, so an operator may abort it. To abort what its producer
still writes to would tear a transaction: a part of it would be committed. So it takes a proof:

1. The partition's leader says what is open, and where the producer's last batch ends.
2. After that the coordinators are asked. A coordinator has a partition in its log before a producer
   may write there, so all that was told by the leader is of transactions that it knows by now, or
   that none knows. A coordinator names the partitions of the transaction log that its answer covers
   (see `list_whole`). All partitions have to be covered: those that are not are asked for once more
   where they are led now, since leadership may have moved between the questions.
3. The leader is asked again: what has ended meanwhile does not hang, and of what was written
   meanwhile a coordinator may know by now.

Whoever then aborts has the leader compare the end of the last batch once more, in the same turn in
which the marker is appended. So nothing is aborted that was written after the coordinators' words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.coordinator_action_part import (
    OPEN,
    OPEN_MAX,
    OpenAnswer,
    OpenQuestion,
    OpenRow,
)
from kafkaesque.admin.api.fan_out import PART_MS_MAX, Gathered
from kafkaesque.admin.api.part_pages import (
    TRANSACTIONS,
    TransactionsAnswer,
    TransactionsQuestion,
)
from kafkaesque.admin.api.transaction_part import IDS_MAX
from kafkaesque.admin.api.values import Origin, Transaction
from kafkaesque.broker.metadata.topic_names import TRANSACTIONS_TOPIC
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import NodeId, TopicPartition

#: States in which a transactional id has nothing open.
ENDED: Final = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")
#: Times that coordinators are asked, while some of them are missing.
ASKS_MAX: Final = 3

_Key = tuple[str, int, int, int]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a look has found."""

    items: list[tuple[OpenRow, OpenTransaction]]
    #: The leaders. The part of one that has left something out is missing.
    sources: list[Origin]


class Look:
    """One look, at all partitions or at one."""

    def __init__(
        self,
        context: Context,
        on_done: Callable[[Found], None],
        where: TopicPartition | None = None,
    ) -> None:
        self._context = context
        self._on_done = on_done
        self._where = where
        self._rows: dict[_Key, OpenRow] = {}
        self._sources: list[Origin] = []
        #: Partitions of the transaction log that no answer has covered; None: it is not known
        #: which there are.
        self._uncovered: set[int] | None = None
        self._asked = 0
        #: Brokers that were asked and have not answered: they are not waited for once more.
        self._silent: set[NodeId] = set()
        #: Who coordinates the ids that have something open, by what was said last.
        self._holders: dict[str, NodeId] = {}

    def start(self) -> None:
        """Ask leaders.

        Raises:
            LeaderNotAvailable: the partition has none now.
        """
        context, where = self._context, self._where
        if where is None:
            context.fan_out.ask_all(OPEN, OpenQuestion(), self._on_open)
        else:
            question = OpenQuestion(partitions={where.topic: [where.partition]})
            context.fan_out.ask(OPEN, {context.leader(where): question}, self._on_open)

    # -- 1. what is open

    def _on_open(self, gathered: Gathered[OpenAnswer]) -> None:
        for answer in gathered.answers.values():
            for row in answer.rows:
                if self._where in (None, row.where):
                    self._rows[_key(row)] = row
        self._sources = [self._read_source(each, gathered) for each in gathered.sources]
        if self._rows:
            # How many partitions the transaction log has, nobody may miss.
            self._context.doors.cluster.when_current(PART_MS_MAX, self._on_current)
        else:
            self._finish([])

    def _read_source(self, origin: Origin, gathered: Gathered[OpenAnswer]) -> Origin:
        answer = gathered.answers.get(NodeId(origin.broker))
        if answer is None:
            return origin
        if self._where is not None and tuple(self._where) not in answer.led:
            missing = f"broker {origin.broker} does not lead {self._where} any more"
        elif not answer.is_whole:
            missing = f"broker {origin.broker} knows of more than {OPEN_MAX} open transactions"
        else:
            return origin
        return Origin(broker=origin.broker, missing=missing)

    # -- 2. what coordinators know

    def _on_current(self, is_current: bool) -> None:
        topic = self._context.doors.cluster.state.topics.get(TRANSACTIONS_TOPIC)
        if is_current:
            self._uncovered = set(range(0 if topic is None else len(topic.partitions)))
        self._ask_coordinators(self._context.fan_out.all_brokers())

    def _ask_coordinators(self, nodes: Iterable[NodeId]) -> None:
        self._asked += 1
        question = TransactionsQuestion(with_cover=True)
        self._context.fan_out.ask_all(TRANSACTIONS, question, self._on_listed, nodes)

    def _on_listed(self, gathered: Gathered[TransactionsAnswer]) -> None:
        producers = {row.producer_id for row in self._rows.values()}
        for node, answer in gathered.answers.items():
            for each in answer.transactions:
                if each.producer_id in producers and each.state not in ENDED:
                    self._holders[each.transactional_id] = node
            if self._uncovered is not None:
                self._uncovered.difference_update(answer.covers)
        self._silent.update(
            NodeId(each.broker) for each in gathered.sources if each.missing is not None
        )
        again = self._leaders_of_uncovered() - self._silent
        if again and self._asked < ASKS_MAX:
            self._ask_coordinators(sorted(again))
        else:
            self._describe()

    def _leaders_of_uncovered(self) -> set[NodeId]:
        found: set[NodeId] = set()
        for number in self._uncovered or ():
            try:
                found.add(self._context.leader(TopicPartition(TRANSACTIONS_TOPIC, number)))
            except RequestRefused:
                continue
        return found

    def _describe(self) -> None:
        by_node: dict[NodeId, list[str]] = {}
        for transactional_id, node in self._holders.items():
            by_node.setdefault(node, []).append(transactional_id)
        questions = {n: TransactionsQuestion(ids=ids[:IDS_MAX]) for n, ids in by_node.items()}
        self._context.fan_out.ask(TRANSACTIONS, questions, self._on_described)

    def _on_described(self, described: Gathered[TransactionsAnswer]) -> None:
        known = [each for answer in described.answers.values() for each in answer.transactions]
        is_whole = self._uncovered is not None and not self._uncovered
        is_whole = is_whole and {e.transactional_id for e in known}.issuperset(self._holders)
        owned = _owners(known)
        found: list[tuple[OpenRow, OpenTransaction]] = []
        unowned: list[OpenRow] = []
        for row in self._rows.values():
            owner = owned.get((row.producer_id, *row.where))
            if owner is not None or not is_whole or row.last_offset < 0:
                found.append((row, _write(row, owner, None if owner is None else False)))
            else:
                unowned.append(row)
        if unowned:
            self._look_again(unowned, found)
        else:
            self._finish(found)

    # -- 3. what is open still

    def _look_again(
        self, unowned: list[OpenRow], found: list[tuple[OpenRow, OpenTransaction]]
    ) -> None:
        questions: dict[NodeId, dict[str, list[int]]] = {}
        for where in dict.fromkeys(row.where for row in unowned):
            try:
                leader = self._context.leader(where)
            except RequestRefused:
                continue
            questions.setdefault(leader, {}).setdefault(where.topic, []).append(where.partition)

        def on_open(gathered: Gathered[OpenAnswer]) -> None:
            answers = list(gathered.answers.values())
            now = {_key(row): row for answer in answers for row in answer.rows}
            whole = {each for answer in answers if answer.is_whole for each in answer.led}
            for row in unowned:
                still = now.get(_key(row))
                if still is not None:
                    is_hanging = True if still.last_offset == row.last_offset else None
                    found.append((still, _write(still, None, is_hanging)))
                elif tuple(row.where) not in whole:
                    found.append((row, _write(row, None, None)))
                # Else it has ended meanwhile.
            self._finish(found)

        asked = {node: OpenQuestion(partitions=each) for node, each in questions.items()}
        self._context.fan_out.ask(OPEN, asked, on_open)

    def _finish(self, found: list[tuple[OpenRow, OpenTransaction]]) -> None:
        self._on_done(Found(items=found, sources=self._sources))


def _key(row: OpenRow) -> _Key:
    return row.topic, row.partition, row.producer_id, row.start_offset


def _owners(known: Iterable[Transaction]) -> dict[tuple[int, str, int], str]:
    return {
        (each.producer_id, topic.topic, number): each.transactional_id
        for each in known
        for topic in each.partitions
        for number in topic.partitions
    }


def _write(row: OpenRow, owner: str | None, is_hanging: bool | None) -> OpenTransaction:
    return OpenTransaction(
        topic=row.topic,
        partition=row.partition,
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        start_offset=row.start_offset,
        written_at=row.written_ms if row.written_ms > 0 else None,
        transactional_id=owner,
        is_hanging=is_hanging,
    )
