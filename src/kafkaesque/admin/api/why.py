"""Why something waits: gathers the facts from those who know them, and has the chain made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from kafkaesque.access.operations import CLUSTER_NAME, Operation, ResourceType
from kafkaesque.admin.api.authorization import exchange_of, refuse_unknown_exchange
from kafkaesque.admin.api.calls import Call, NoQuery
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.exchanges import sees_end
from kafkaesque.admin.api.fan_out import Gathered
from kafkaesque.admin.api.part_pages import (
    CONNECTIONS,
    GROUP,
    TRANSACTIONS,
    ConnectionsAnswer,
    GroupAnswer,
    GroupQuestion,
    Nothing,
    TransactionsAnswer,
    TransactionsQuestion,
)
from kafkaesque.admin.api.values import Origin, Transaction, View
from kafkaesque.admin.api.why_access import Need, access_links
from kafkaesque.admin.api.why_links import (
    BLOCKING,
    Link,
    Placed,
    WhyPartitionAnswer,
    WhyPartitionQuestion,
    WhyView,
    make_view,
    reader_links,
    record_links,
    transaction_links,
)
from kafkaesque.admin.api.why_part import PARTITIONS_MAX, WHY_PARTITIONS
from kafkaesque.admin.api.why_queue import QueueInquiry
from kafkaesque.admin.api.why_queue_links import QueueFacts, queue_links
from kafkaesque.admin.api.why_routing import routing_links
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, QueueName
from kafkaesque.broker.metadata.topic_names import OFFSETS_TOPIC
from kafkaesque.broker.requests.commands import FetchResult
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.errors import InvalidRequest, RequestRefused, UnknownQueue
from kafkaesque.model.ids import NodeId, TopicPartition
from kafkaesque.model.record_errors import RecordError
from kafkaesque.model.records import decode_columns
from kafkaesque.routing.message import RoutedMessage

READ_MS_MAX: Final = 1_500
#: A batch that decompresses to more is not looked into.
DECOMPRESSED_BYTES_MAX: Final = 4 * 1024 * 1024
#: Of the batch that a record is in.
READ_BYTES_MAX: Final = 1

_headers_decoder = msgspec.json.Decoder(dict[str, Any])

OnPlaced = Callable[[Sequence[Placed], Sequence[Origin]], None]


class WhyRecordQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which record, and for which group it is asked."""

    offset: int
    group: str | None = None
    #: Who consumes, such as User:app; then it is asked whether that one may.
    principal: str = ""


class WhyGroupQuery(msgspec.Struct, frozen=True, kw_only=True):
    """For whom it is asked."""

    #: Who consumes, such as User:app; then it is asked whether that one may.
    principal: str = ""


class WhyMessageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which message of a queue; its id is its offset."""

    message: int
    vhost: str = DEFAULT_VHOST
    #: Of a queue over a topic, which has as many as the topic.
    partition: int = 0


class WhyRouteQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which message, published to an exchange."""

    key: str = ""
    vhost: str = DEFAULT_VHOST
    #: A JSON object of texts and numbers; empty: none.
    headers: str = ""


class WhyPages:
    """Handlers of `/why`."""

    def __init__(self, context: Context) -> None:
        self._context = context

    # -- records

    def why_record(self, call: Call[WhyRecordQuery, None]) -> None:
        """Say what has become of a record, and of a group's way to it."""
        topic, query = call.params["topic"], call.query
        text = call.params["partition"]
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
        where = TopicPartition(topic, number)
        if not self._has(where):
            call.refuse(404, "UnknownTopicOrPartition", f"{where} does not exist")
            return
        if not _may_ask_of(call, query.principal):
            return
        if query.group is not None and not call.sees(ResourceType.GROUP, query.group):
            call.refuse(404, "UnknownGroup", f"there is no group {query.group!r}")
            return

        def on_placed(placed: Sequence[Placed], sources: Sequence[Origin]) -> None:
            (only,) = placed

            def on_seen(presence: str) -> None:
                links = list(record_links(only, query.offset, presence, self._now_ms()))
                blocks = any(each.state == BLOCKING for each in links)
                about = f"{only.name} offset {query.offset}"
                needs: list[Need] = [(Operation.READ, ResourceType.TOPIC, topic)]
                if query.group is not None:
                    needs.append((Operation.READ, ResourceType.GROUP, query.group))
                if not blocks and query.principal:
                    links += access_links(self._context.doors.access, query.principal, needs)
                    blocks = any(each.state == BLOCKING for each in links)
                if query.group is None or blocks:
                    call.answer(self._view(about, links, sources))
                    return
                self._add_reader(call, query.group, placed, links, sources)

            led = only.led
            if led is None or not led.start_offset <= query.offset < led.stable_offset:
                on_seen("")
            else:
                self._look_at(where, query.offset, on_seen)

        self._place([where], on_placed)

    def _add_reader(
        self,
        call: Call[WhyRecordQuery, None],
        group: str,
        placed: Sequence[Placed],
        links: Sequence[Link],
        sources: Sequence[Origin],
    ) -> None:
        offset = call.query.offset

        def on_described(answer: GroupAnswer | None, more: Sequence[Origin]) -> None:
            def on_throttled(hosts: frozenset[str]) -> None:
                read = reader_links(group, answer, placed, offset, self._now_ms(), hosts)
                about = f"{placed[0].name} offset {offset}, for the group {group}"
                call.answer(self._view(about, [*links, *read], [*sources, *more]))

            self._find_throttled(answer, on_throttled)

        self._describe(group, on_described)

    def _find_throttled(
        self, answer: GroupAnswer | None, on_found: Callable[[frozenset[str]], None]
    ) -> None:
        """Find the members' addresses from which quotas hold back a connection."""
        hosts = {each.host.lstrip("/") for each in (() if answer is None else answer.members)}
        if not hosts:
            on_found(frozenset())
            return

        def on_listed(gathered: Gathered[ConnectionsAnswer]) -> None:
            told = [each for one in gathered.answers.values() for each in one.connections]
            on_found(frozenset(e.host for e in told if e.is_throttled and e.host in hosts))

        self._context.fan_out.ask_all(CONNECTIONS, Nothing(), on_listed)

    def _look_at(self, where: TopicPartition, offset: int, on_seen: Callable[[str], None]) -> None:
        """Read the batch that an offset is in."""

        def on_read(outcome: FetchResult | RequestRefused) -> None:
            on_seen("" if isinstance(outcome, RequestRefused) else presence_in(outcome, offset))

        self._context.doors.reading.fetch(where, offset, READ_BYTES_MAX, READ_MS_MAX, on_read)

    # -- groups

    def why_group(self, call: Call[WhyGroupQuery, None]) -> None:
        """Say why a group has not read everything."""
        group, principal = call.params["group"], call.query.principal
        if not _may_ask_of(call, principal):
            return
        access = self._context.doors.access

        def on_described(answer: GroupAnswer | None, sources: Sequence[Origin]) -> None:
            wheres = {
                TopicPartition(each.topic, each.partition)
                for each in (() if answer is None else answer.offsets)
            } | {
                TopicPartition(each.topic, number)
                for member in (() if answer is None else answer.members)
                for each in member.assignment
                for number in each.partitions
            }
            seen = [each for each in wheres if call.sees(ResourceType.TOPIC, each.topic)]

            needs: list[Need] = [(Operation.READ, ResourceType.GROUP, group)]
            needs += [
                (Operation.READ, ResourceType.TOPIC, e) for e in sorted({e.topic for e in seen})
            ]
            allowed = list(access_links(access, principal, needs)) if principal else []

            def on_placed(placed: Sequence[Placed], more: Sequence[Origin]) -> None:
                def on_throttled(hosts: frozenset[str]) -> None:
                    read = reader_links(group, answer, placed, None, self._now_ms(), hosts)
                    links = [*allowed, *read]
                    call.answer(self._view(f"the group {group}", links, [*sources, *more]))

                self._find_throttled(answer, on_throttled)

            self._place(sorted(filter(self._has, seen))[:PARTITIONS_MAX], on_placed)

        self._describe(group, on_described)

    def _describe(
        self, group: str, on_done: Callable[[GroupAnswer | None, Sequence[Origin]], None]
    ) -> None:
        if OFFSETS_TOPIC not in self._context.doors.cluster.state.topics:
            # It is made with the first group.
            on_done(GroupAnswer(state=""), [])
            return
        try:
            node = self._context.leader(self._context.doors.groups.find(group))
        except RequestRefused:
            on_done(None, [])
            return

        def on_described(gathered: Gathered[GroupAnswer]) -> None:
            on_done(gathered.answers.get(node), gathered.sources)

        self._context.fan_out.ask(GROUP, {node: GroupQuestion(group=group)}, on_described)

    # -- transactions

    def why_producer(self, call: Call[NoQuery, None]) -> None:
        """Say what a transaction waits for, by its transactional id or its producer's id."""
        name = call.params["producer"]
        fan_out = self._context.fan_out

        def on_listed(gathered: Gathered[TransactionsAnswer]) -> None:
            told = [each for answer in gathered.answers.values() for each in answer.transactions]
            found = next(
                (
                    each
                    for each in told
                    if name in (each.transactional_id, str(each.producer_id))
                    and call.sees(ResourceType.TRANSACTIONAL_ID, each.transactional_id)
                ),
                None,
            )
            if found is None:
                self._answer_transaction(call, name, None, gathered.sources)
                return
            node = NodeId(found.coordinator)
            question = TransactionsQuestion(ids=[found.transactional_id])

            def on_described(described: Gathered[TransactionsAnswer]) -> None:
                answer = described.answers.get(node)
                whole = (
                    found if answer is None or not answer.transactions else (answer.transactions[0])
                )
                self._answer_transaction(call, name, whole, gathered.sources)

            fan_out.ask(TRANSACTIONS, {node: question}, on_described)

        fan_out.ask_all(TRANSACTIONS, TransactionsQuestion(), on_listed)

    def _answer_transaction(
        self,
        call: Call[NoQuery, None],
        name: str,
        found: Transaction | None,
        sources: Sequence[Origin],
    ) -> None:
        wheres = [
            TopicPartition(each.topic, number)
            for each in (() if found is None else found.partitions)
            for number in each.partitions
            if call.sees(ResourceType.TOPIC, each.topic)
        ]

        def on_placed(placed: Sequence[Placed], more: Sequence[Origin]) -> None:
            links = list(transaction_links(found, name, placed, self._now_ms()))
            call.answer(self._view(f"the producer {name}", links, [*sources, *more]))

        self._place(list(filter(self._has, wheres))[:PARTITIONS_MAX], on_placed)

    # -- queues

    def why_message(self, call: Call[WhyMessageQuery, None]) -> None:
        """Say where a message of a queue is."""
        name, offset = QueueName(call.query.vhost, call.params["queue"]), call.query.message
        try:
            queue = self._context.doors.queues.find(name)
        except UnknownQueue as unknown:
            call.refuse(404, "UnknownQueue", str(unknown))
            return

        if not 0 <= call.query.partition < len(queue.partitions):
            call.refuse(404, "UnknownQueue", f"queue {name} has no such partition")
            return

        def on_facts(facts: QueueFacts) -> None:
            about = f"message {offset} of the queue {name}"
            call.answer(self._view(about, list(queue_links(facts)), []))

        QueueInquiry(self._context, call, queue, call.query.partition, offset, on_facts).start()

    # -- exchanges

    def why_routed(self, call: Call[WhyRouteQuery, None]) -> None:
        """Say where a message goes that is published to an exchange, or why nowhere."""
        query, word = call.query, call.params["exchange"]
        message = RoutedMessage(key=query.key, headers=_headers(query.headers))
        links = routing_links(
            self._context.doors.exchanges,
            query.vhost,
            exchange_of(call),
            word,
            message,
            lambda to: sees_end(call, query.vhost, to),
        )
        try:
            found = list(links)
        except RequestRefused:
            refuse_unknown_exchange(call)
            return
        about = f"a message with the key {query.key!r} at the exchange {word}"
        call.answer(self._view(about, found, []))

    # -- partitions

    def _has(self, where: TopicPartition) -> bool:
        topic = self._context.doors.cluster.state.topics.get(where.topic)
        return topic is not None and 0 <= where.partition < len(topic.partitions)

    def _place(self, wheres: Iterable[TopicPartition], on_placed: OnPlaced) -> None:
        cluster = self._context.doors.cluster
        asked = list(wheres)
        leaders = {
            where: cluster.leaders.leader(cluster.state.partition(where).group) for where in asked
        }
        questions: dict[NodeId, dict[str, list[int]]] = {}
        for where, leader in leaders.items():
            if leader is not None:
                topics = questions.setdefault(leader, {})
                topics.setdefault(where.topic, []).append(where.partition)

        def on_gathered(gathered: Gathered[WhyPartitionAnswer]) -> None:
            led = {
                TopicPartition(each.topic, each.partition): each
                for answer in gathered.answers.values()
                for each in answer.partitions
            }
            placed = []
            for where in asked:
                state = cluster.state.partition(where)
                recovery = cluster.state.recoveries.get(state.group)
                lost = [node for node in state.replicas if not cluster.is_alive(node)]
                placed.append(
                    Placed(
                        topic=where.topic,
                        partition=where.partition,
                        replicas=state.replicas,
                        lost={int(node): cluster.lost_ms(node) for node in lost},
                        leader=leaders[where],
                        is_recovering=recovery is not None and recovery.is_open,
                        led=led.get(where),
                    )
                )
            on_placed(placed, gathered.sources)

        self._context.fan_out.ask(
            WHY_PARTITIONS,
            {node: WhyPartitionQuestion(partitions=each) for node, each in questions.items()},
            on_gathered,
        )

    def _now_ms(self) -> int:
        return self._context.now()

    def _view(self, about: str, links: Sequence[Link], sources: Sequence[Origin]) -> WhyView:
        view = View(as_of=self._now_ms(), seen_by=self._context.node, sources=list(sources))
        return make_view(view, about, links)


def presence_in(result: FetchResult, offset: int) -> str:
    """Return what is at an offset, by the batches from there on; see `record_links`."""
    view = memoryview(result.records)
    batches = scan_batches(view).batches
    if not batches or batches[0].base_offset > offset:
        return "compacted"
    batch = batches[0]
    if batch.is_control:
        return "marker"
    for producer_id, first_offset in result.aborted:
        if batch.is_transactional and producer_id == batch.producer_id and offset >= first_offset:
            return "aborted"
    try:
        offsets = decode_columns(view, DECOMPRESSED_BYTES_MAX, at=batch.at).offsets
    except RecordError:
        return ""
    return "there" if offset in offsets else "compacted"


def _may_ask_of(call: Call[Any, None], principal: str) -> bool:
    """Tell whether the client may know what somebody may do; answer that it may not."""
    if not principal or call.may(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return True
    call.refuse(403, "Forbidden", "no rule allows Describe on the cluster")
    return False


def _headers(text: str) -> dict[str, Any]:
    """Return headers.

    Raises:
        InvalidRequest: they are no JSON object.
    """
    try:
        return _headers_decoder.decode(text) if text else {}
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError) as error:
        raise InvalidRequest(f"headers have to be a JSON object: {error}") from None
