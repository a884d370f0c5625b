"""Channels and consumers of AMQP's connections, with all brokers or in one virtual host."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from kafkaesque.access.operations import Operation
from kafkaesque.admin.api.fan_out import Gathered
from kafkaesque.admin.api.part_pages import CHANNELS, ChannelsAnswer, Nothing
from kafkaesque.admin.api.values import Connected
from kafkaesque.admin.rabbitmq.calls import Call, Route
from kafkaesque.admin.rabbitmq.context import Context, node_name
from kafkaesque.admin.rabbitmq.errors import not_found
from kafkaesque.admin.rabbitmq.values import (
    ChannelConnection,
    ChannelDetails,
    ChannelShown,
    ConsumerQueue,
    ConsumerShown,
    MaybeInt,
)
from kafkaesque.chassis.channel_facts import ChannelFacts, ConnectionFacts, ConsumerFacts

Facts = Mapping[tuple[int, int], ConnectionFacts]


class _Open(NamedTuple):
    """A connection of AMQP."""

    name: str
    connected: Connected
    facts: ConnectionFacts

    def name_of(self, channel: ChannelFacts) -> str:
        """Return what one of its channels is called."""
        return f"{self.name} ({channel.number})"


def connection_name(connected: Connected) -> str:
    """Return what a connection is called here."""
    return f"{connected.peer} -> {node_name(connected.broker)}:{connected.listener}"


def port_of(connected: Connected) -> MaybeInt:
    """Return the client's port, if it has one."""
    _, _, port = connected.peer.rpartition(":")
    return int(port) if port.isdecimal() else msgspec.UNSET


def ask_channels(context: Context, call: Call, then: Callable[[Facts], None]) -> None:
    """Call with what connections of AMQP have open, by broker and number."""

    def on_told(gathered: Gathered[ChannelsAnswer]) -> None:
        found = {
            (int(node), number): facts
            for node, told in gathered.answers.items()
            for number, facts in told.connections.items()
        }
        call.guard(lambda: then(found))

    context.fan_out.ask_all(CHANNELS, Nothing(), on_told)


class ChannelPages:
    """See the module."""

    def __init__(
        self,
        context: Context,
        ask_connections: Callable[[Call, Callable[[Sequence[Connected]], None]], None],
    ) -> None:
        """`ask_connections` calls with the connections of all brokers."""
        self._context: Final = context
        self._ask_connections: Final = ask_connections

    def routes(self) -> list[Route]:
        """Return the operations."""
        of_connection = "/connections/{connection}/channels"
        return [
            Route(method="GET", path="/channels", handle=self.list_channels),
            Route(method="GET", path="/channels/{channel}", handle=self.show_channel),
            Route(method="GET", path="/vhosts/{vhost}/channels", handle=self.list_channels),
            Route(method="GET", path=of_connection, handle=self.list_channels_of_one),
            Route(method="GET", path="/consumers", handle=self.list_consumers),
            Route(method="GET", path="/consumers/{vhost}", handle=self.list_consumers),
        ]

    def list_channels(self, call: Call) -> None:
        """List channels, perhaps those of one virtual host."""
        self._with_open(call, lambda found: call.show_list(list(_channels(found))))

    def show_channel(self, call: Call) -> None:
        """Show one."""
        name = call.params["channel"]

        def show(found: Sequence[_Open]) -> None:
            for each in _channels(found):
                if each.name == name:
                    call.show(each)
                    return
            raise not_found(f"there is no channel {name!r}")

        self._with_open(call, show)

    def list_channels_of_one(self, call: Call) -> None:
        """List the channels of a connection; one of another protocol has none."""
        name = call.params["connection"]
        call.need_cluster(Operation.DESCRIBE)

        def on_connections(connected: Sequence[Connected]) -> None:
            if all(connection_name(each) != name for each in connected):
                raise not_found(f"there is no connection {name!r}")
            self._join(
                call,
                connected,
                lambda found: call.show_list(
                    list(_channels([each for each in found if each.name == name]))
                ),
            )

        self._ask_connections(call, on_connections)

    def list_consumers(self, call: Call) -> None:
        """List consumers, perhaps those of one virtual host."""
        self._with_open(call, lambda found: call.show_list(list(_consumers(found))))

    def _with_open(self, call: Call, then: Callable[[Sequence[_Open]], None]) -> None:
        call.need_cluster(Operation.DESCRIBE)
        if "vhost" in call.params:
            self._context.vhost(call)
        wanted = call.params.get("vhost")

        def on_found(found: Sequence[_Open]) -> None:
            then([each for each in found if wanted in (None, each.facts.vhost)])

        self._ask_connections(call, lambda connected: self._join(call, connected, on_found))

    def _join(
        self,
        call: Call,
        connected: Sequence[Connected],
        then: Callable[[Sequence[_Open]], None],
    ) -> None:
        def on_facts(facts: Facts) -> None:
            then(
                [
                    _Open(connection_name(each), each, facts[each.broker, each.number])
                    for each in connected
                    if (each.broker, each.number) in facts
                ]
            )

        ask_channels(self._context, call, on_facts)


def _channels(found: Sequence[_Open]) -> Iterator[ChannelShown]:
    for each in found:
        for channel in each.facts.channels:
            yield _channel(each, channel)


def _consumers(found: Sequence[_Open]) -> Iterator[ConsumerShown]:
    for each in found:
        for channel in each.facts.channels:
            for consumer in channel.consumers:
                yield _consumer(each, channel, consumer)


def _channel(of: _Open, channel: ChannelFacts) -> ChannelShown:
    connected = of.connected
    return ChannelShown(
        name=of.name_of(channel),
        number=channel.number,
        node=node_name(connected.broker),
        vhost=of.facts.vhost,
        user=connected.user,
        connection_details=ChannelConnection(
            name=of.name, peer_host=connected.host, peer_port=port_of(connected)
        ),
        confirm=channel.is_confirming,
        transactional=channel.is_transactional,
        prefetch_count=channel.prefetch,
        global_prefetch_count=channel.prefetch_together,
        messages_unacknowledged=channel.unacknowledged,
        messages_unconfirmed=channel.unconfirmed,
        messages_uncommitted=channel.publishes_uncommitted,
        acks_uncommitted=channel.acks_uncommitted,
        consumer_count=channel.consumer_count,
    )


def _consumer(of: _Open, channel: ChannelFacts, consumer: ConsumerFacts) -> ConsumerShown:
    connected = of.connected
    return ConsumerShown(
        consumer_tag=consumer.tag,
        queue=ConsumerQueue(name=consumer.queue, vhost=of.facts.vhost),
        channel_details=ChannelDetails(
            name=of.name_of(channel),
            number=channel.number,
            node=node_name(connected.broker),
            user=connected.user,
            connection_name=of.name,
            peer_host=connected.host,
            peer_port=port_of(connected),
        ),
        ack_required=consumer.needs_ack,
        exclusive=consumer.is_exclusive,
        prefetch_count=consumer.prefetch,
        arguments={"x-priority": consumer.priority} if consumer.priority else {},
    )
