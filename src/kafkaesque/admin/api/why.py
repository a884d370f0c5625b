"""Why something waits: gathers the facts from those who know them, and has the chain made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from kafkaesque.access.operations import CLUSTER_NAME, Operation, ResourceType
from kafkaesque.access.principals import read_principal
from kafkaesque.admin.api.authorization import exchange_of, refuse_unknown_exchange
from kafkaesque.admin.api.calls import Call, NoQuery
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.exchanges import sees_end
from kafkaesque.admin.api.fan_out import Gathered
from kafkaesque.admin.api.numbers import Int32, Int64
from kafkaesque.admin.api.part_pages import (
    GROUP,
    TRANSACTIONS,
    GroupAnswer,
    GroupQuestion,
    TransactionsAnswer,
    TransactionsQuestion,
)
from kafkaesque.admin.api.values import Origin, Transaction, View
from kafkaesque.admin.api.why_access import Need, access_links
from kafkaesque.admin.api.why_clients import WhyClientsAnswer, refused_links, writer_links
from kafkaesque.admin.api.why_inquiry import Inquiry
from kafkaesque.admin.api.why_links import (
    PASSED,
    Link,
    Placed,
    WhyView,
    is_held_up,
    make_view,
    record_links,
    with_doubt,
)
from kafkaesque.admin.api.why_part import PARTITIONS_MAX
from kafkaesque.admin.api.why_queue import QueueInquiry
from kafkaesque.admin.api.why_queue_links import QueueFacts, queue_links
from kafkaesque.admin.api.why_reader_links import (
    coordinator_link,
    reader_links,
    silent_coordinator_link,
    transaction_links,
    unknown_producer_link,
)
from kafkaesque.admin.api.why_routing import routing_links
from kafkaesque.admin.api.why_tails import Tails
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, QueueName
from kafkaesque.broker.metadata.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kafkaesque.broker.requests.commands import FetchResult
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.errors import InvalidRequest, RequestRefused, UnknownQueue
from kafkaesque.model.ids import NodeId, TopicPartition
from kafkaesque.model.record_errors import RecordError
from kafkaesque.model.records import decode_columns
from kafkaesque.routing.message import RoutedMessage

#: A batch that decompresses to more is not looked into.
DECOMPRESSED_BYTES_MAX: Final = 4 * 1024 * 1024
#: Of the batch that a record is in.
READ_BYTES_MAX: Final = 1

_headers_decoder = msgspec.json.Decoder(dict[str, Any])

#: What a coordinator says of a group, or what is wrong with the coordinator, and who was asked.
OnDescribed = Callable[[GroupAnswer | None, Link | None, Sequence[Origin]], None]


class WhyRecordQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which record, and for which group it is asked."""

    offset: Int64
    group: str | None = None
    #: Who consumes, such as User:app; then it is asked whether that one may.
    principal: str = ""


class WhyGroupQuery(msgspec.Struct, frozen=True, kw_only=True):
    """For whom it is asked."""

    #: Who consumes, such as User:app; then it is asked whether that one may.
    principal: str = ""


class WhyMessageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which message of a queue; its id is its offset."""

    message: Int64
    vhost: str = DEFAULT_VHOST
    #: Of a queue that has several.
    partition: Int32 = 0


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
        where, inquiry = TopicPartition(topic, number), Inquiry(self._context, call)
        if not inquiry.has(where):
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
                about = f"{only.name} offset {query.offset}"
                if is_held_up(links):
                    self._add_writer(inquiry, call, about, topic, links, sources)
                    return
                needs: list[Need] = [(Operation.READ, ResourceType.TOPIC, topic)]
                if query.group is not None:
                    needs.append((Operation.READ, ResourceType.GROUP, query.group))
                if query.principal:
                    links += access_links(self._context.doors.access, query.principal, needs)
                if query.group is None or is_held_up(links):
                    call.answer(self._view(about, links, sources, inquiry))
                    return
                self._add_reader(inquiry, call, query.group, placed, links, sources)

            led = only.led
            if led is None or not led.start_offset <= query.offset < led.stable_offset:
                on_seen("")
            else:
                self._look_at(inquiry, call, where, on_seen)

        inquiry.begin(lambda: inquiry.place([where], on_placed))

    def _add_writer(
        self,
        inquiry: Inquiry,
        call: Call[WhyRecordQuery, None],
        about: str,
        topic: str,
        links: Sequence[Link],
        sources: Sequence[Origin],
    ) -> None:
        """Before that nothing was written, say who may have wanted to write and could not."""
        first = next(each for each in links if each.state != PASSED)
        if first.name != "written":
            call.answer(self._view(about, links, sources, inquiry))
            return

        def on_clients(clients: WhyClientsAnswer) -> None:
            at = links.index(first)
            found = [*links[:at], *writer_links(clients, topic), *links[at:]]
            call.answer(self._view(about, found, sources, inquiry))

        inquiry.clients([(Operation.WRITE, ResourceType.TOPIC, topic)], on_clients)

    def _add_reader(
        self,
        inquiry: Inquiry,
        call: Call[WhyRecordQuery, None],
        group: str,
        placed: Sequence[Placed],
        links: Sequence[Link],
        sources: Sequence[Origin],
    ) -> None:
        offset = call.query.offset
        about = f"{placed[0].name} offset {offset}, for the group {group}"

        def on_described(
            answer: GroupAnswer | None, trouble: Link | None, more: Sequence[Origin]
        ) -> None:
            every = [*sources, *more]
            if trouble is not None:
                call.answer(self._view(about, [*links, trouble], every, inquiry))
                return

            def on_read(read: Sequence[Link]) -> None:
                call.answer(self._view(about, [*links, *read], every, inquiry))

            self._read(inquiry, group, answer, placed, offset, on_read)

        self._describe(inquiry, group, on_described)

    def _read(
        self,
        inquiry: Inquiry,
        group: str,
        answer: GroupAnswer | None,
        placed: Sequence[Placed],
        offset: int | None,
        on_read: Callable[[Sequence[Link]], None],
        *,
        is_whole: bool = True,
    ) -> None:
        """Make the links of a group's way, with clients that are held back or were refused."""
        needs: list[Need] = [(Operation.READ, ResourceType.GROUP, group)]
        needs += [
            (Operation.READ, ResourceType.TOPIC, each) for each in {one.topic for one in placed}
        ]

        def on_clients(clients: WhyClientsAnswer) -> None:
            throttled = frozenset((each.host, each.client_id) for each in clients.throttled)
            now_ms = self._now_ms()
            read = list(
                reader_links(group, answer, placed, offset, now_ms, throttled, is_whole=is_whole)
            )
            # There is no group yet, or nobody is in it: those who were refused may be why.
            is_missing = any(e.name in ("group", "members") and e.state != PASSED for e in read)
            refused = list(refused_links(clients.refused)) if is_missing else []
            on_read([*refused, *read])

        inquiry.clients(needs, on_clients)

    def _look_at(
        self,
        inquiry: Inquiry,
        call: Call[WhyRecordQuery, None],
        where: TopicPartition,
        on_seen: Callable[[str], None],
    ) -> None:
        """Read the batch that the offset is in."""
        offset = call.query.offset

        def on_read(outcome: FetchResult | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                on_seen(str(outcome))
            else:
                on_seen(presence_in(outcome, offset))

        fetch = self._context.doors.reading.fetch
        fetch(where, offset, READ_BYTES_MAX, inquiry.left_ms(), call.later(on_read))

    # -- groups

    def why_group(self, call: Call[WhyGroupQuery, None]) -> None:
        """Say why a group has not read everything."""
        group, principal = call.params["group"], call.query.principal
        if not _may_ask_of(call, principal):
            return
        access, inquiry = self._context.doors.access, Inquiry(self._context, call)
        about = f"the group {group}"

        def on_described(
            answer: GroupAnswer | None, trouble: Link | None, sources: Sequence[Origin]
        ) -> None:
            if trouble is not None:
                call.answer(self._view(about, [trouble], sources, inquiry))
                return
            wheres = {
                TopicPartition(each.topic, each.partition)
                for each in (() if answer is None else answer.offsets)
            } | {
                TopicPartition(each.topic, number)
                for member in (() if answer is None else answer.members)
                for each in member.assignment
                for number in each.partitions
            }
            if answer is not None and not answer.members:
                # Nobody has said which it is to read: all of the topics that it has read in.
                wheres |= {where for each in wheres for where in inquiry.siblings(each.topic)}
            seen = [each for each in wheres if call.sees(ResourceType.TOPIC, each.topic)]

            needs: list[Need] = [(Operation.READ, ResourceType.GROUP, group)]
            needs += [
                (Operation.READ, ResourceType.TOPIC, e) for e in sorted({e.topic for e in seen})
            ]
            allowed = list(access_links(access, principal, needs)) if principal else []

            def on_placed(placed: Sequence[Placed], more: Sequence[Origin]) -> None:
                def on_read(read: Sequence[Link]) -> None:
                    links = [*allowed, *read]
                    call.answer(self._view(about, links, [*sources, *more], inquiry))

                is_whole = len(placed) == len(wheres)

                def on_cut(cut: Sequence[Placed]) -> None:
                    self._read(inquiry, group, answer, cut, None, on_read, is_whole=is_whole)

                if answer is None:
                    on_cut(placed)
                else:
                    Tails(inquiry, call).cut(answer, placed, on_cut)

            inquiry.place(sorted(filter(inquiry.has_readable, seen))[:PARTITIONS_MAX], on_placed)

        inquiry.begin(lambda: self._describe(inquiry, group, on_described))

    def _describe(self, inquiry: Inquiry, group: str, on_done: OnDescribed) -> None:
        """Ask a group's coordinator; say what is wrong with it if there is none."""
        if OFFSETS_TOPIC not in self._context.doors.cluster.state.topics:
            # It is made with the first group.
            on_done(GroupAnswer(state=""), None, [])
            return
        where = inquiry.coordinator(lambda: self._context.doors.groups.find(group))
        if where is None:
            on_done(None, None, [])
            return

        def on_placed(placed: Sequence[Placed], sources: Sequence[Origin]) -> None:
            (only,) = placed
            trouble = coordinator_link(f"the group {group}", only, self._now_ms())
            if only.leader is None or only.led is None:
                on_done(None, trouble or silent_coordinator_link(f"the group {group}"), sources)
                return
            node = NodeId(only.leader)

            def on_described(gathered: Gathered[GroupAnswer]) -> None:
                on_done(gathered.answers.get(node), None, gathered.sources)

            inquiry.ask(GROUP, {node: GroupQuestion(group=group)}, on_described)

        inquiry.place([where], on_placed)

    # -- transactions

    def why_producer(self, call: Call[NoQuery, None]) -> None:
        """Say what a transaction waits for, by its transactional id or its producer's id."""
        name = call.params["producer"]
        inquiry = Inquiry(self._context, call)

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
                self._answer_unknown(inquiry, call, name, gathered.sources)
                return
            node = NodeId(found.coordinator)
            question = TransactionsQuestion(ids=[found.transactional_id])

            def on_described(described: Gathered[TransactionsAnswer]) -> None:
                answer = described.answers.get(node)
                whole = (
                    found if answer is None or not answer.transactions else (answer.transactions[0])
                )
                self._answer_transaction(inquiry, call, name, whole, gathered.sources)

            inquiry.ask(TRANSACTIONS, {node: question}, on_described)

        inquiry.begin(lambda: inquiry.ask_all(TRANSACTIONS, TransactionsQuestion(), on_listed))

    def _answer_unknown(
        self, inquiry: Inquiry, call: Call[NoQuery, None], name: str, sources: Sequence[Origin]
    ) -> None:
        """Say of whom no coordinator has told whether one might, that has not answered."""
        about, now_ms = f"the producer {name}", self._now_ms()
        silent = [each.broker for each in sources if each.missing is not None]

        def on_placed(placed: Sequence[Placed], more: Sequence[Origin]) -> None:
            troubles = (coordinator_link(about, each, now_ms) for each in placed)
            trouble = next(filter(None, troubles), None)
            is_told = all(each.leader not in silent for each in placed) if placed else not silent
            link = trouble or unknown_producer_link(name, [] if is_told else silent)
            call.answer(self._view(about, [link], [*sources, *more], inquiry))

        if TRANSACTIONS_TOPIC not in self._context.doors.cluster.state.topics:
            on_placed([], [])
            return
        where = inquiry.coordinator(lambda: self._context.doors.transactions.find(name))
        # A producer's id says nothing of who coordinates it.
        is_name = where is not None and not name.isdigit()
        inquiry.place([where] if is_name and where is not None else [], on_placed)

    def _answer_transaction(
        self,
        inquiry: Inquiry,
        call: Call[NoQuery, None],
        name: str,
        found: Transaction,
        sources: Sequence[Origin],
    ) -> None:
        seen = [each for each in found.partitions if call.sees(ResourceType.TOPIC, each.topic)]
        found = msgspec.structs.replace(found, partitions=seen)
        wheres = [TopicPartition(each.topic, number) for each in seen for number in each.partitions]

        def on_placed(placed: Sequence[Placed], more: Sequence[Origin]) -> None:
            links = list(transaction_links(found, placed, self._now_ms()))
            call.answer(self._view(f"the producer {name}", links, [*sources, *more], inquiry))

        inquiry.place(list(filter(inquiry.has, wheres))[:PARTITIONS_MAX], on_placed)

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

        inquiry = Inquiry(self._context, call)

        def on_facts(facts: QueueFacts) -> None:
            about = f"message {offset} of the queue {name}"
            links = list(queue_links(facts, self._now_ms()))
            call.answer(self._view(about, links, [], inquiry))

        found = QueueInquiry(inquiry, call, queue, call.query.partition, offset, on_facts)
        inquiry.begin(found.start)

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
        inquiry = Inquiry(self._context, call)
        inquiry.begin(lambda: call.answer(self._view(about, found, [], inquiry)))

    def _now_ms(self) -> int:
        return self._context.now()

    def _view(
        self, about: str, links: Sequence[Link], sources: Sequence[Origin], inquiry: Inquiry
    ) -> WhyView:
        view = View(as_of=self._now_ms(), seen_by=self._context.node, sources=list(sources))
        return make_view(view, about, with_doubt(links, inquiry.doubt))


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
    """Tell whether the client may know what somebody may do; answer that it may not.

    Raises:
        InvalidRequest: that is no principal.
    """
    if not principal:
        return True
    if not call.may(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        call.refuse(403, "Forbidden", "no rule allows Describe on the cluster")
        return False
    read_principal(principal)
    return True


def _headers(text: str) -> dict[str, Any]:
    """Return headers.

    Raises:
        InvalidRequest: they are no JSON object.
    """
    try:
        return _headers_decoder.decode(text) if text else {}
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError) as error:
        raise InvalidRequest(f"headers have to be a JSON object: {error}") from None
