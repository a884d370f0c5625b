"""What each method needs: one table. One without a row stops the start.

RabbitMQ's three rights are six operations here: configure is Create, Delete and Alter, write is
Write, read is Read. What is published to the default exchange needs Write on the queue, as with the
other protocols.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.broker.metadata.queue_names import exchange_resource
from kafkaesque.chassis.routing_keys import refusal_of_keys
from kafkaesque.gateway.amqp.errors import failed
from kafkaesque.gateway.amqp.ports import ChannelPort
from kafkaesque.gateway.queueing.needs import Need, has, refusal_of
from kafkaesque.gateway.queueing.own_queues import GENERATED, REPLY_PREFIX, REPLY_TO, is_for_answers
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.errors import AmqpError, ReplyCode
from kafkaesque.protocols.amqp.methods import Method
from kafkaesque.routing.exchanges.topology import DEFAULT_EXCHANGE

#: What a method on a channel needs.
Row = Callable[[Any, str], Iterator[Need]]
_O, _QUEUE, _EXCHANGE = Operation, ResourceType.QUEUE, ResourceType.EXCHANGE


def _nothing(_: Any, __: str) -> Iterator[Need]:
    """Is about the channel, or about what the client was given before."""
    yield from ()


def _of_declare(method: m.QueueDeclare, _: str) -> Iterator[Need]:
    operation = _O.DESCRIBE if method.passive else _O.CREATE
    if not is_for_answers(method.queue):
        yield Need(operation, _QUEUE, method.queue or GENERATED)


def _of_queue(operation: Operation) -> Row:
    def needs(method: Any, last_queue: str) -> Iterator[Need]:
        if method.queue != REPLY_TO:
            yield Need(operation, _QUEUE, method.queue or last_queue)

    return needs


def _of_queue_binding(method: m.QueueBind | m.QueueUnbind, last_queue: str) -> Iterator[Need]:
    yield Need(_O.WRITE, _QUEUE, method.queue or last_queue)
    yield Need(_O.READ, _EXCHANGE, method.exchange)


def _of_exchange(method: m.ExchangeDeclare, _: str) -> Iterator[Need]:
    yield Need(_O.DESCRIBE if method.passive else _O.CREATE, _EXCHANGE, method.exchange)
    alternate = method.arguments.get("alternate-exchange")
    if isinstance(alternate, str):
        yield Need(_O.READ, _EXCHANGE, method.exchange)
        yield Need(_O.WRITE, _EXCHANGE, alternate)


def _of_exchange_delete(method: m.ExchangeDelete, _: str) -> Iterator[Need]:
    yield Need(_O.DELETE, _EXCHANGE, method.exchange)


def _of_exchange_binding(method: m.ExchangeBind | m.ExchangeUnbind, _: str) -> Iterator[Need]:
    yield Need(_O.WRITE, _EXCHANGE, method.destination)
    yield Need(_O.READ, _EXCHANGE, method.source)


#: basic.publish is asked for by `check_publish`: its keys are known later.
ROWS: Final[Mapping[type[Method], Row]] = {
    m.AccessRequest: _nothing,
    m.BasicAck: _nothing,
    m.BasicCancel: _nothing,
    m.BasicCancelOk: _nothing,
    m.BasicConsume: _of_queue(_O.READ),
    m.BasicGet: _of_queue(_O.READ),
    m.BasicNack: _nothing,
    m.BasicPublish: _nothing,
    m.BasicQos: _nothing,
    m.BasicRecover: _nothing,
    m.BasicRecoverAsync: _nothing,
    m.BasicReject: _nothing,
    m.ChannelClose: _nothing,
    m.ChannelFlow: _nothing,
    m.ChannelFlowOk: _nothing,
    m.ConfirmSelect: _nothing,
    m.ExchangeBind: _of_exchange_binding,
    m.ExchangeDeclare: _of_exchange,
    m.ExchangeDelete: _of_exchange_delete,
    m.ExchangeUnbind: _of_exchange_binding,
    m.QueueBind: _of_queue_binding,
    m.QueueDeclare: _of_declare,
    m.QueueDelete: _of_queue(_O.DELETE),
    m.QueuePurge: _of_queue(_O.READ),
    m.QueueUnbind: _of_queue_binding,
    m.TxCommit: _nothing,
    m.TxRollback: _nothing,
    m.TxSelect: _nothing,
}


def check_rights(channel: ChannelPort, method: Method) -> None:
    """Check that a client may have a method carried out; without rights it may.

    Raises:
        AmqpError: no rule allows it.
    """
    rights = channel.connection.rights
    if rights is None:
        return
    for need in ROWS[type(method)](method, channel.last_queue):
        _check(channel, need, type(method))
    match method:
        case m.QueueBind() | m.QueueUnbind():
            key = channel.bound_key(method)
            _check_keys(channel, _O.READ, method.exchange, (key,), type(method))
        case m.ExchangeBind() | m.ExchangeUnbind():
            _check_keys(channel, _O.READ, method.source, (method.routing_key,), type(method))


def check_delivery(channel: ChannelPort, queue: str) -> None:
    """Check that a client may still have what it consumes; without rights it may.

    Raises:
        AmqpError: no rule allows it any more.
    """
    rights = channel.connection.rights
    # A name for answers needs no rule.
    if rights is not None and not queue.startswith(REPLY_PREFIX):
        _check(channel, Need(_O.READ, _QUEUE, queue), m.BasicConsume)


def check_publish(channel: ChannelPort, exchange: str, keys: Sequence[str]) -> None:
    """Check that a client may publish; without rights it may.

    Raises:
        AmqpError: no rule allows it.
    """
    rights = channel.connection.rights
    if rights is None:
        return
    if exchange != DEFAULT_EXCHANGE:
        # Asked for each message: what a refusal says is put together where there is one.
        name = exchange_resource(channel.connection.vhost, exchange)
        if not rights.may(_O.WRITE, _EXCHANGE, name):
            raise _refused(channel, Need(_O.WRITE, _EXCHANGE, exchange), m.BasicPublish)
        if rights.limits_keys:
            _check_keys(channel, _O.WRITE, exchange, keys, m.BasicPublish)
        return
    for key in keys:
        # Who knows a name for answers was given it.
        if not key.startswith(REPLY_PREFIX):
            _check(channel, Need(_O.WRITE, _QUEUE, key), m.BasicPublish)


def _check(channel: ChannelPort, need: Need, method: type[Method]) -> None:
    if not has(channel.connection, need):
        raise _refused(channel, need, method)


def _refused(channel: ChannelPort, need: Need, method: type[Method]) -> AmqpError:
    link = channel.connection
    what = refusal_of(link.user, link.vhost, need)
    return failed(ReplyCode.ACCESS_REFUSED, what, method)


def _check_keys(
    channel: ChannelPort,
    operation: Operation,
    exchange: str,
    keys: Sequence[str],
    method: type[Method],
) -> None:
    link = channel.connection
    doors = link.desk.doors
    what = refusal_of_keys(link.rights, doors.exchanges, operation, link.vhost, exchange, keys)
    if what is not None:
        raise failed(ReplyCode.ACCESS_REFUSED, what, method)
