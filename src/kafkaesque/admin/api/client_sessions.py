"""`/sessions`: what the cluster holds for clients of MQTT, STOMP and NATS, and how that is ended.

Theory of operation. A session that outlives its connection is a queue, which every broker knows;
the leader of the queue says what waits. Everything else of a client is in the memory of the broker
that it is connected with: its subscriptions that are live, and its will.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.admin.api.calls import Call, Route
from kafkaesque.admin.api.changes import CHANGE_MS_MAX, Change, answer_change
from kafkaesque.admin.api.client_session_part import CLIENTS, SUBSCRIPTIONS_MAX, plain
from kafkaesque.admin.api.client_session_values import (
    ClientsAnswer,
    ClientSession,
    ClientSessionList,
    ClientSessionQuery,
    ClientSessionsQuery,
    ClientSessionView,
    ClientsQuestion,
    EndClientSession,
    LiveClient,
    SubscriptionView,
    WillView,
)
from kafkaesque.admin.api.connections import tell_closed
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.fan_out import Gathered
from kafkaesque.admin.api.paging import PageOf, sort_field, take_page, wants
from kafkaesque.admin.api.part_pages import (
    CLOSE_CONNECTION,
    QUEUES,
    CloseConnection,
    ConnectionClosed,
    QueueRow,
    QueuesAnswer,
    QueuesQuestion,
)
from kafkaesque.admin.api.values import Origin
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.queue_names import STOMP_DURABLE_PREFIX, QueueName
from kafkaesque.broker.options.mqtt_sessions import (
    FILTER_ARGUMENT,
    QOS_ARGUMENT,
    SessionRecord,
    read_session,
)
from kafkaesque.broker.requests.commands import ControllerResult
from kafkaesque.broker.requests.queue_commands import DeleteQueue
from kafkaesque.broker.requests.queue_requests import AskQueue, QueueCounts
from kafkaesque.model.counted import counted
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import NodeId
from kafkaesque.routing.exchanges.records import Destination

ASK_MS_MAX: Final = 2_000
#: Queues that a sentence lists.
NAMES_MAX: Final = 5
#: No broker counts so far.
_NUMBER_DIGITS_MAX: Final = 18

_OF_QUEUES: Final = ("waiting", "in_flight", "oldest_at")
_KEYS: Final[dict[str, Callable[[ClientSession], Any]]] = {
    "client_id": lambda each: f"{each.client_id}\0{each.protocol}\0{each.vhost}\0{each.id}",
    "protocol": lambda each: each.protocol,
    "user": lambda each: each.user,
    "subscriptions": lambda each: each.subscriptions,
    "since": lambda each: each.since,
    "broker": lambda each: each.broker,
    "waiting": lambda each: each.waiting,
    "in_flight": lambda each: each.in_flight,
    "oldest_at": lambda each: each.oldest_at,
}

Holder = tuple[int, LiveClient]


class ClientSessionPages:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context

    # -- /sessions

    def list_sessions(self, call: Call[ClientSessionsQuery, None]) -> None:
        """List sessions; leaders are asked for what waits on the page, unless it is sorted by."""
        query = call.query
        by_queue = sort_field(query, _KEYS, "client_id") in _OF_QUEUES

        def on_clients(gathered: Gathered[ClientsAnswer]) -> None:
            found = [
                each
                for each in self._all(gathered)
                if query.protocol in ("", each.protocol)
                and (each.is_kept or not query.kept)
                and wants(query, f"{each.client_id} {each.user} {each.peer or ''}")
            ]
            unlisted = sum(e.total - len(e.clients) for e in gathered.answers.values())
            if by_queue:
                self._ask_rows(
                    None,
                    lambda told: call.guard(
                        lambda: self._answer(
                            call,
                            take_page(_filled(found, told), query, _KEYS, "client_id"),
                            told.sources,
                            unlisted,
                        )
                    ),
                )
                return
            page = take_page(found, query, _KEYS, "client_id")
            names = [(each.vhost, each.id) for each in page.items if each.is_kept]
            if not names:
                self._answer(call, page, gathered.sources, unlisted)
                return
            self._ask_rows(
                names,
                lambda told: self._answer(
                    call, page._replace(items=_filled(page.items, told)), told.sources, unlisted
                ),
            )

        self._context.fan_out.ask_all(
            CLIENTS, ClientsQuestion(), lambda told: call.guard(lambda: on_clients(told))
        )

    def _ask_rows(
        self,
        names: list[tuple[str, str]] | None,
        on_done: Callable[[Gathered[QueuesAnswer]], None],
    ) -> None:
        self._context.fan_out.ask_all(QUEUES, QueuesQuestion(names=names), on_done)

    def _answer(
        self,
        call: Call[ClientSessionsQuery, None],
        page: PageOf,
        sources: list[Origin],
        unlisted: int,
    ) -> None:
        call.answer(
            ClientSessionList(
                as_of=self._context.now(),
                seen_by=self._context.node,
                sources=sources,
                total=page.total,
                next=page.next,
                items=page.items,
                unlisted=unlisted,
            )
        )

    def _all(self, gathered: Gathered[ClientsAnswer]) -> Iterable[ClientSession]:
        """Return the sessions that are kept, and the clients that have none of these."""
        holders: dict[tuple[str, str], Holder] = {}
        for node, answer in gathered.answers.items():
            for client in answer.clients:
                for name in client.queues:
                    holders[client.vhost, name] = (node, client)
        for queue in self._context.doors.queues.all():
            if _protocol_of(queue):
                yield self._kept(queue, holders.get(queue.queue))
        for node, answer in gathered.answers.items():
            for client in answer.clients:
                # One of MQTT is its session; one of STOMP may have more than what is durable.
                if not (client.queues and client.protocol == "mqtt"):
                    yield _live(node, client)

    def _kept(self, queue: QueueState, holder: Holder | None) -> ClientSession:
        name = queue.queue
        record = read_session(queue.options)
        client = None if holder is None else holder[1]
        if record is None:
            # A durable subscription of STOMP does not say whose it is.
            words = name.name.removeprefix(STOMP_DURABLE_PREFIX)
            record = SessionRecord(
                client_id=unquote(words), user="" if client is None else client.user
            )
        known = len(self._bindings(queue)) + len(record.shared)
        return ClientSession(
            id=name.name,
            vhost=name.vhost,
            protocol=_protocol_of(queue),
            client_id=record.client_id,
            user=record.user,
            is_kept=True,
            broker=None if holder is None else holder[0],
            connection=None if client is None else client.number,
            peer=None if client is None else client.peer,
            subscriptions=known,
            has_will=None if client is None else client.has_will,
            since=queue.created_ms or None,
            kept_for_ms=1_000 * record.expiry_s or None,
        )

    def _bindings(self, queue: QueueState) -> list[SubscriptionView]:
        exchanges = self._context.doors.exchanges
        name = queue.queue
        if not exchanges.has_vhost(name.vhost):
            return []
        found = []
        for each in exchanges.vhost(name.vhost).bindings_to(Destination(name.name)):
            said, qos = each.arguments.get(FILTER_ARGUMENT), each.arguments.get(QOS_ARGUMENT)
            found.append(
                SubscriptionView(
                    name=plain(said if isinstance(said, str) else each.key),
                    qos=qos if isinstance(qos, int) else None,
                    queue=name.name,
                    exchange=each.source,
                )
            )
        return found

    # -- /sessions/{session}

    def show_session(self, call: Call[ClientSessionQuery, None]) -> None:
        """Show one session, with its subscriptions."""
        place = _place_of(call.params["session"])
        if place is not None:
            self._show_live(call, *place)
            return
        queue = self._find(call)
        if queue is None:
            return
        question = ClientsQuestion(queue=(queue.queue.vhost, queue.queue.name))

        def on_clients(gathered: Gathered[ClientsAnswer]) -> None:
            has = [(node, e) for node, told in gathered.answers.items() for e in told.clients]
            request = AskQueue(log_id=queue.topic_id)
            self._context.doors.queues.ask(
                request,
                QueueCounts,
                ASK_MS_MAX,
                call.later(
                    lambda counts: self._answer_kept(
                        call, queue, has[0] if has else None, gathered.sources, counts
                    )
                ),
            )

        self._context.fan_out.ask_all(CLIENTS, question, on_clients)

    def _answer_kept(
        self,
        call: Call[ClientSessionQuery, None],
        queue: QueueState,
        holder: Holder | None,
        sources: list[Origin],
        counts: QueueCounts | RequestRefused,
    ) -> None:
        session = self._kept(queue, holder)
        is_known = isinstance(counts, QueueCounts)
        if isinstance(counts, QueueCounts):
            session = msgspec.structs.replace(
                session,
                waiting=counts.ready + counts.delayed,
                in_flight=counts.in_flight,
                oldest_at=counts.oldest_ms or None,
            )
        record = read_session(queue.options)
        shared = {} if record is None else record.shared
        found = self._bindings(queue)
        found += [SubscriptionView(name=name, qos=qos) for name, (qos, _) in shared.items()]
        call.answer(
            ClientSessionView(
                as_of=self._context.now(),
                seen_by=self._context.node,
                sources=sources,
                session=session,
                subscriptions=found[:SUBSCRIPTIONS_MAX],
                will=None if holder is None else _seen_will(call, holder[1]),
                unwanted_ms=counts.unwanted_ms if isinstance(counts, QueueCounts) else None,
                missing=None if is_known else str(counts),
            )
        )

    def _show_live(self, call: Call[ClientSessionQuery, None], node: int, number: int) -> None:
        if not self._knows(node):
            _refuse_unknown(call)
            return

        def on_told(outcome: ClientsAnswer | Origin) -> None:
            if isinstance(outcome, Origin):
                call.refuse(503, "BrokerNotAvailable", outcome.missing or "")
            elif not outcome.clients:
                _refuse_unknown(call)
            else:
                (client,) = outcome.clients
                call.answer(
                    ClientSessionView(
                        as_of=self._context.now(),
                        seen_by=self._context.node,
                        sources=[Origin(broker=node, as_of=self._context.now())],
                        session=_live(node, client),
                        subscriptions=client.named,
                        will=_seen_will(call, client),
                    )
                )

        question = ClientsQuestion(number=number)
        self._context.fan_out.ask_one(CLIENTS, NodeId(node), question, on_told)

    def _knows(self, node: int) -> bool:
        return NodeId(node) in self._context.fan_out.all_brokers()

    def _find(self, call: Call[Any, Any]) -> QueueState | None:
        """Return the queue of a session; None, and the call is answered, if there is none."""
        name = QueueName(call.query.vhost, call.params["session"])
        queue = self._context.doors.cluster.state.queues.get(name)
        if queue is None or not _protocol_of(queue):
            _refuse_unknown(call)
            return None
        return queue

    # -- how it is ended

    def end_session(self, call: Call[EndClientSession, None]) -> None:
        """Hang up on a client, and forget what was kept for it."""
        place = _place_of(call.params["session"])
        if place is not None:
            self._end_live(call, *place)
            return
        queue = self._find(call)
        if queue is None:
            return
        name = queue.queue
        who = self._kept(queue, None).client_id
        vhost = [] if name.vhost == "/" else ["--vhost", name.vhost]
        words = ["kafkaesque", "queue", "delete", name.name, *vhost, "--yes"]
        if call.query.dry_run:

            def tell(counts: QueueCounts | RequestRefused) -> None:
                held = "what waits for it"
                if isinstance(counts, QueueCounts):
                    count = counts.ready + counts.delayed + counts.in_flight
                    held = counted(count, "message")
                what = f"the session of {who} would be ended, with its subscriptions and {held}"
                answer_change(self._context, call, what, words)

            request = AskQueue(log_id=queue.topic_id)
            self._context.doors.queues.ask(request, QueueCounts, ASK_MS_MAX, call.later(tell))
            return

        def on_done(outcome: ControllerResult | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                call.refuse_with(outcome)
            else:
                answer_change(self._context, call, f"the session of {who} is ended", words)

        # Whoever has it is hung up on: its queue is gone.
        command = call.sign(DeleteQueue(vhost=name.vhost, name=name.name))
        self._context.doors.cluster.submit(command, CHANGE_MS_MAX, on_done)

    def _end_live(self, call: Call[EndClientSession, None], node: int, number: int) -> None:
        if not self._knows(node):
            _refuse_unknown(call)
            return

        def on_client(outcome: ClientsAnswer | Origin) -> None:
            if isinstance(outcome, Origin):
                call.refuse(503, "BrokerNotAvailable", outcome.missing or "")
            elif not outcome.clients:
                # Whatever else has this number is no session, such as a client of Kafka.
                _refuse_unknown(call)
            else:
                self._close(call, node, outcome.clients[0])

        # A broker gives a number to one connection only.
        self._context.fan_out.ask_one(
            CLIENTS, NodeId(node), ClientsQuestion(number=number), on_client
        )

    def _close(self, call: Call[EndClientSession, None], node: int, client: LiveClient) -> None:
        place, is_dry = f"{node}:{client.number}", call.query.dry_run

        def on_told(outcome: ConnectionClosed | Origin) -> None:
            if isinstance(outcome, Origin):
                call.refuse(503, "BrokerNotAvailable", outcome.missing or "")
                return
            if outcome.peer is None:
                _refuse_unknown(call)
                return
            if not is_dry:
                tell_closed(self._context.doors, call.client, place, outcome.peer)
            what = f"the session of {outcome.peer} with broker {node} is ended"
            if is_dry or client.queues:
                done = "would be" if is_dry else "is"
                what = f"the connection of {outcome.peer} with broker {node} {done} closed"
            if client.queues:
                names = ", ".join(client.queues[:NAMES_MAX])
                what += f"; what is kept for the client stays: {names}"
            words = ["kafkaesque", "connection", "close", place]
            answer_change(self._context, call, what, words)

        question = CloseConnection(number=client.number, is_dry_run=is_dry)
        self._context.fan_out.ask_one(CLOSE_CONNECTION, NodeId(node), question, on_told)


def _protocol_of(queue: QueueState) -> str:
    """Return whose session a queue is; empty: nobody's."""
    if read_session(queue.options) is not None:
        return "mqtt"
    return "stomp" if queue.queue.name.startswith(STOMP_DURABLE_PREFIX) else ""


def _seen_will(call: Call[Any, Any], client: LiveClient) -> WillView | None:
    """Return a client's will, without what may not be seen of its topic."""
    will = client.will
    if will is None or will.name is None:
        return will
    topic = will.name
    if not call.sees(ResourceType.TOPIC, topic):
        return msgspec.structs.replace(will, name=None, value=None)
    if not call.could(Operation.READ, ResourceType.TOPIC, topic):
        return msgspec.structs.replace(will, value=None)
    return will


def _live(node: int, client: LiveClient) -> ClientSession:
    return ClientSession(
        id=f"{node}:{client.number}",
        protocol=client.protocol,
        client_id=client.client_id,
        user=client.user,
        is_kept=False,
        vhost=client.vhost or "/",
        broker=node,
        connection=client.number,
        peer=client.peer,
        subscriptions=client.subscriptions,
        has_will=client.has_will,
        since=client.opened_ms,
    )


def _filled(
    found: Iterable[ClientSession], gathered: Gathered[QueuesAnswer]
) -> list[ClientSession]:
    """Return sessions with what their queues' leaders say."""
    rows: Mapping[tuple[str, str], QueueRow] = {
        (e.vhost, e.name): e for answer in gathered.answers.values() for e in answer.queues
    }
    filled = []
    for each in found:
        row = rows.get((each.vhost, each.id)) if each.is_kept else None
        if row is not None:
            each = msgspec.structs.replace(
                each,
                waiting=row.ready + row.delayed,
                in_flight=row.in_flight,
                oldest_at=row.oldest_ms or None,
            )
        filled.append(each)
    return filled


def _place_of(word: str) -> tuple[int, int] | None:
    """Return broker and connection; None: it is a queue's name."""
    parts = word.split(":")
    is_place = len(parts) == 2 and all(
        each.isascii() and each.isdecimal() and len(each) <= _NUMBER_DIGITS_MAX for each in parts
    )
    return (int(parts[0]), int(parts[1])) if is_place else None


def _refuse_unknown(call: Call[Any, Any]) -> None:
    call.refuse(404, "UnknownSession", f"there is no session {call.params['session']!r}")


def client_session_routes(pages: ClientSessionPages) -> list[Route]:
    """Return the operations on sessions of clients."""
    return [
        Route(
            method="GET",
            path="/sessions",
            name="listClientSessions",
            summary="Clients of MQTT, STOMP and NATS, connected or not, and what waits for them",
            handle=pages.list_sessions,
            query=ClientSessionsQuery,
            result=ClientSessionList,
        ),
        Route(
            method="GET",
            path="/sessions/{session}",
            name="showClientSession",
            summary="A session of a client: its subscriptions, its will, what waits",
            handle=pages.show_session,
            query=ClientSessionQuery,
            result=ClientSessionView,
        ),
        Route(
            method="DELETE",
            path="/sessions/{session}",
            name="endClientSession",
            summary="End a client's session: hang up, and forget what was kept for the client",
            handle=pages.end_session,
            query=EndClientSession,
            result=Change,
        ),
    ]
