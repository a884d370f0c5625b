"""Queues that brokers make for a connection, and that go with it: their names are made up here."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.options.queues import DECLARATION, TRANSIENT
from kafkaesque.broker.requests.queue_commands import CreateQueue
from kafkaesque.chassis.amqp.arguments import Declaration
from kafkaesque.env.dice import Dice
from kafkaesque.gateway.queueing.link import QueueingLink
from kafkaesque.model.errors import RequestRefused

REPLY_TO: Final = "amq.rabbitmq.reply-to"
#: What the names of queues for answers begin with. Who knows such a name was given it.
REPLY_PREFIX: Final = REPLY_TO + "."
#: What the names of other queues begin with that nobody has named.
GENERATED: Final = "amq.gen-"
NAME_BYTES: Final = 16

OnMade = Callable[[QueueState | RequestRefused], None]


def is_for_answers(name: str) -> bool:
    """Tell whether a name is one for answers; who knows it was given it."""
    return name == REPLY_TO or name.startswith(REPLY_PREFIX)


def generated_name(dice: Dice) -> str:
    """Return a name that no other queue has."""
    return GENERATED + base64.urlsafe_b64encode(dice.unique_bytes(NAME_BYTES)).decode().rstrip("=")


def make_reply_queue(link: QueueingLink, then: OnMade) -> None:
    """Make a queue for answers to this connection, in this broker's memory."""
    raw = link.desk.doors.dice.unique_bytes(NAME_BYTES)
    make_own_queue(link, REPLY_PREFIX + raw.hex(), {TRANSIENT: "true"}, then)


def make_own_queue(link: QueueingLink, name: str, options: Mapping[str, str], then: OnMade) -> None:
    """Make a queue that goes with this connection, or with its last consumer.

    It is the broker's own: it needs no rule, as the client has nothing to do with its name.
    """
    said = Declaration(owner=link.owner, auto_delete=True)
    declared = {**options, DECLARATION: msgspec.json.encode(said).decode()}
    link.desk.make_queue(CreateQueue(vhost=link.vhost, name=name, options=declared), then)
