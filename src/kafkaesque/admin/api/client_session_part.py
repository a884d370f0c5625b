"""Clients of MQTT, STOMP and NATS that are connected with this broker: the part `clients`."""

from collections.abc import Iterator
from typing import Final

from kafkaesque.admin.api.client_session_values import (
    ClientsAnswer,
    ClientsQuestion,
    LiveClient,
    SubscriptionView,
    WillView,
)
from kafkaesque.admin.api.connection_part import CLIENT_ID_LENGTH_MAX
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.fan_out import OnAnswer, PartPage, PartServer
from kafkaesque.admin.api.messages import LISTED_BYTES_MAX, Form, show
from kafkaesque.admin.turns import walk
from kafkaesque.chassis.client_facts import ClientFacts, WillFact
from kafkaesque.chassis.meter import Counted

CLIENTS: Final = PartPage(name="clients", question=ClientsQuestion, answer=ClientsAnswer)
#: Clients that a broker describes; the others are counted.
CLIENTS_MAX: Final = 5_000
#: Subscriptions of one client that are told.
SUBSCRIPTIONS_MAX: Final = 1_000
#: Queues that are told of one client in a list.
QUEUES_MAX: Final = 100
PROTOCOLS: Final = ("mqtt", "stomp", "nats")


def register(context: Context, server: PartServer) -> None:
    """Have this part served."""
    server.register(CLIENTS, lambda question, done: _answer(context, question, done))


def _answer(context: Context, question: ClientsQuestion, on_done: OnAnswer) -> None:
    found: list[LiveClient] = []
    seen = _Seen()
    steps = _walk(context, question, found, seen)
    walk(
        context.doors.clock,
        steps,
        lambda: on_done(ClientsAnswer(clients=found, total=seen.total)),
    )


class _Seen:
    """How many fit."""

    def __init__(self) -> None:
        self.total = 0


def _walk(
    context: Context, question: ClientsQuestion, found: list[LiveClient], seen: _Seen
) -> Iterator[None]:
    wants_all = question.number is None and question.queue is None
    for (protocol, _), meter in list(context.chassis.meters.items()):
        if protocol not in PROTOCOLS:
            continue
        for each in meter.connections:
            yield
            if question.number not in (None, each.number):
                continue
            facts = each.describe(QUEUES_MAX if wants_all else SUBSCRIPTIONS_MAX)
            if facts is None or not _has(facts, question.queue):
                continue
            client = _client(context, protocol, each, facts, is_short=wants_all)
            if client is None:
                continue
            seen.total += 1
            if len(found) < CLIENTS_MAX:
                found.append(client)


def _has(facts: ClientFacts, queue: tuple[str, str] | None) -> bool:
    return queue is None or (facts.vhost == queue[0] and queue[1] in facts.queues)


def _client(
    context: Context, protocol: str, each: Counted, facts: ClientFacts, *, is_short: bool
) -> LiveClient | None:
    link, identity = each.connection, each.identity
    if link is None or identity is None:
        return None
    clock = context.doors.clock
    named = (
        []
        if is_short
        else [
            SubscriptionView(
                name=plain(name.name),
                qos=name.qos,
                group=plain(name.group),
                queue=plain(name.queue) or None,
            )
            for name in facts.subscriptions
        ]
    )
    return LiveClient(
        number=each.number,
        protocol=protocol,
        client_id=plain(each.client_id[:CLIENT_ID_LENGTH_MAX]),
        user=plain(identity.user),
        peer=link.peer,
        opened_ms=clock.wall_ms() - max(0, clock.now_ms() - each.opened_ms),
        subscriptions=facts.total,
        has_will=facts.will is not None,
        vhost=facts.vhost,
        queues=[plain(name) for name in facts.queues],
        named=named,
        will=None if is_short or facts.will is None else _will(facts.will),
    )


def _will(will: WillFact) -> WillView:
    return WillView(
        name=plain(will.name),
        qos=will.qos,
        is_retained=will.is_retained,
        delay_ms=1_000 * will.delay_s,
        value=show(will.body, Form(bytes_max=LISTED_BYTES_MAX)),
    )


def plain(text: str) -> str:
    """Return a text that JSON can hold: clients may have sent bytes that are no UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
