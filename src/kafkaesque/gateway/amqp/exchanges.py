"""exchange.declare, delete, bind and unbind; queue.bind and unbind.

What the controller has done is answered once this broker has heard of it: the client will publish
at once.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from kafkaesque.broker.metadata.queue_names import QueueName
from kafkaesque.broker.requests.exchange_commands import (
    BindDestination,
    DeclareExchange,
    DeleteExchange,
    ExchangeCommand,
    UnbindDestination,
)
from kafkaesque.gateway.amqp.consuming import check_owner
from kafkaesque.gateway.amqp.errors import error_of, failed
from kafkaesque.gateway.amqp.ports import ChannelPort
from kafkaesque.gateway.amqp.publishing import Publishing
from kafkaesque.model.errors import RequestRefused
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.errors import AmqpError, ReplyCode
from kafkaesque.protocols.amqp.wire import Table
from kafkaesque.routing.exchanges.headers_matcher import comparable
from kafkaesque.routing.exchanges.records import Destination
from kafkaesque.routing.exchanges.topology import DEFAULT_EXCHANGE

_NOT_PERMITTED: Final = "operation not permitted on the default exchange"


class Exchanges:
    """One channel's."""

    __slots__ = ("_channel", "_publishing")

    def __init__(self, channel: ChannelPort, publishing: Publishing) -> None:
        self._channel = channel
        self._publishing = publishing

    def take(self, method: m.Method) -> None:
        """Carry out a method.

        Raises:
            AmqpError: it is not allowed, or not as things are.
        """
        match method:
            case m.ExchangeDeclare():
                self._declare(method)
            case m.ExchangeDelete():
                self._delete(method)
            case m.ExchangeBind():
                ends = method.source, Destination(method.destination, True)
                command = self._bound(BindDestination, ends, method.routing_key, method)
                self._submit(method, command, None if method.nowait else m.ExchangeBindOk())
            case m.ExchangeUnbind():
                ends = method.source, Destination(method.destination, True)
                command = self._bound(UnbindDestination, ends, method.routing_key, method)
                self._submit(method, command, None if method.nowait else m.ExchangeUnbindOk())
            case m.QueueBind():
                ends = method.exchange, Destination(self._queue(method.queue, method))
                key = self._channel.bound_key(method)
                command = self._bound(BindDestination, ends, key, method)
                self._submit(method, command, None if method.nowait else m.QueueBindOk())
            case m.QueueUnbind():
                ends = method.exchange, Destination(self._queue(method.queue, method))
                key = self._channel.bound_key(method)
                command = self._bound(UnbindDestination, ends, key, method)
                self._submit(method, command, m.QueueUnbindOk())

    def _declare(self, method: m.ExchangeDeclare) -> None:
        channel = self._channel
        if method.passive:
            self._look(method)
            return
        wanted = DeclareExchange(
            vhost=channel.connection.vhost,
            name=method.exchange,
            type=method.type,
            is_durable=method.durable,
            is_auto_delete=method.auto_delete,
            is_internal=method.internal,
            arguments=_plain(method.arguments, method),
        )
        self._submit(method, wanted, None if method.nowait else m.ExchangeDeclareOk())

    def _look(self, method: m.ExchangeDeclare) -> None:
        """See whether an exchange is there; one that is not heard of may be new."""
        channel = self._channel
        vhost, name = channel.connection.vhost, method.exchange
        exchanges = channel.connection.desk.doors.exchanges
        if name == DEFAULT_EXCHANGE:
            raise failed(ReplyCode.ACCESS_REFUSED, _NOT_PERMITTED, method)

        def answer() -> None:
            if not exchanges.exists(vhost, name):
                what = f"no exchange '{name}' in vhost '{vhost}'"
                raise failed(ReplyCode.NOT_FOUND, what, method)
            if not method.nowait:
                channel.send(m.ExchangeDeclareOk())

        if exchanges.exists(vhost, name):
            answer()
        else:
            self._publishing.find_out(answer)

    def _delete(self, method: m.ExchangeDelete) -> None:
        channel = self._channel
        command = DeleteExchange(
            vhost=channel.connection.vhost, name=method.exchange, if_unused=method.if_unused
        )
        ok = None if method.nowait else m.ExchangeDeleteOk()
        # What was published before is routed before.
        channel.begin()
        channel.when_published(lambda: self._submit(method, command, ok))

    def _queue(self, name: str, method: m.Method) -> str:
        """Return the name of a queue that this connection may bind.

        Raises:
            AmqpError: it is another connection's.
        """
        channel = self._channel
        name = channel.queue_name(name, method)
        found = channel.connection.desk.look(QueueName(channel.connection.vhost, name))
        if found is not None:
            check_owner(channel, found, method)
        return name

    def _bound(
        self,
        kind: type[BindDestination | UnbindDestination],
        ends: tuple[str, Destination],
        key: str,
        method: m.QueueBind | m.QueueUnbind | m.ExchangeBind | m.ExchangeUnbind,
    ) -> BindDestination | UnbindDestination:
        source, destination = ends
        if DEFAULT_EXCHANGE in (source, destination.name):
            raise failed(ReplyCode.ACCESS_REFUSED, _NOT_PERMITTED, method)
        return kind(
            vhost=self._channel.connection.vhost,
            source=source,
            destination=destination,
            key=key,
            arguments=_plain(method.arguments, method),
        )

    def _submit(self, method: m.Method, command: ExchangeCommand, ok: m.Method | None) -> None:
        """Have the controller do something, and answer when this broker has heard of it."""
        channel = self._channel
        desk, rights = channel.connection.desk, channel.connection.rights

        def on_done(refusal: RequestRefused | None) -> None:
            if refusal is not None:
                channel.go_on_with(partial(_raise, error_of(refusal, method)))
            else:
                channel.go_on_with(answer)

        def answer() -> None:
            if ok is not None:
                channel.send(ok)

        channel.begin()
        signed = command if rights is None else rights.sign(command)
        desk.change_routing(signed, on_done)


def _raise(error: AmqpError) -> None:
    raise error


def _plain(arguments: Table, method: m.Method) -> dict[str, object]:
    """Return arguments as the metadata can have them.

    Raises:
        AmqpError: one has a value of another type.
    """
    plain = {name: comparable(value) for name, value in arguments.items()}
    for name, value in plain.items():
        if not _is_plain(value):
            what = f"invalid arg '{name}': brokers keep texts, numbers, lists and tables"
            raise failed(ReplyCode.PRECONDITION_FAILED, what, method)
    return plain


def _is_plain(value: object) -> bool:
    match value:
        case list():
            return all(map(_is_plain, value))
        case dict():
            return all(map(_is_plain, value.values()))
        case _:
            return value is None or isinstance(value, bool | int | float | str | bytes)
