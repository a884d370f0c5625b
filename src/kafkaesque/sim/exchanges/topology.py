"""The exchanges and queues of a run: all kinds of ways by which a message comes to its queues."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.methods import Method

#: Queues, and how many consumers each has at a time.
QUEUES: Final[Mapping[str, int]] = {"a": 1, "b": 1, "all": 2, "copies": 1, "spare": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a message is published, and the queues that it has to come to."""

    exchange: str
    key: str
    colour: str = ""
    queues: frozenset[str] = field(default_factory=frozenset)


WAYS: Final[Sequence[Way]] = (
    Way(exchange="logs", key="a.x", queues=frozenset({"a", "all", "copies"})),
    Way(exchange="logs", key="b.x", queues=frozenset({"b", "all"})),
    Way(exchange="logs", key="c.x", queues=frozenset({"all"})),
    # By the alternate exchange.
    Way(exchange="logs", key="none", queues=frozenset({"spare"})),
    Way(exchange="heads", key="any", colour="red", queues=frozenset({"b"})),
    Way(exchange="heads", key="any", colour="blue"),
    Way(exchange="", key="a", queues=frozenset({"a"})),
    Way(exchange="", key="absent"),
)

#: What makes them, in order; each may be sent again.
DECLARATIONS: Final[Sequence[Method]] = (
    *(m.QueueDeclare(queue=name, durable=True) for name in QUEUES),
    m.ExchangeDeclare(exchange="others", type="fanout", durable=True),
    m.ExchangeDeclare(
        exchange="logs", type="topic", durable=True, arguments={"alternate-exchange": "others"}
    ),
    m.ExchangeDeclare(exchange="copied", type="fanout", durable=True),
    m.ExchangeDeclare(exchange="heads", type="headers", durable=True),
    m.QueueBind(queue="a", exchange="logs", routing_key="a.*"),
    m.QueueBind(queue="b", exchange="logs", routing_key="b.*"),
    # By two bindings, and once all the same.
    m.QueueBind(queue="all", exchange="logs", routing_key="*.x"),
    m.QueueBind(queue="all", exchange="logs", routing_key="a.#"),
    m.ExchangeBind(destination="copied", source="logs", routing_key="a.#"),
    m.QueueBind(queue="copies", exchange="copied"),
    m.QueueBind(queue="spare", exchange="others"),
    m.QueueBind(queue="b", exchange="heads", arguments={"x-match": "all", "colour": "red"}),
)
