"""The cluster as a whole: overview, brokers, connections, who asks, and whether all is well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from kafkaesque.access.operations import Operation
from kafkaesque.admin.api.connections import tell_closed
from kafkaesque.admin.api.fan_out import Gathered
from kafkaesque.admin.api.part_pages import (
    BROKER,
    CLOSE_CONNECTION,
    CONNECTIONS,
    CloseConnection,
    ConnectionClosed,
    ConnectionsAnswer,
    Nothing,
    QueueRow,
)
from kafkaesque.admin.api.values import BrokerState, Connected, Origin
from kafkaesque.admin.rabbitmq.calls import Call, Route
from kafkaesque.admin.rabbitmq.channels import ask_channels, connection_name, port_of
from kafkaesque.admin.rabbitmq.context import Context, node_name
from kafkaesque.admin.rabbitmq.errors import ApiRefused, not_found
from kafkaesque.admin.rabbitmq.queues import QueuePages, Rows, messages_of
from kafkaesque.admin.rabbitmq.values import (
    AuthShown,
    ClusterName,
    ConnectionShown,
    ExchangeType,
    ListenerShown,
    NodeShown,
    ObjectTotals,
    Overview,
    QueueTotals,
    WhoAmI,
    known,
)
from kafkaesque.broker.listeners import AMQP
from kafkaesque.broker.metadata.queue_names import QueueName
from kafkaesque.chassis.channel_facts import ConnectionFacts
from kafkaesque.model.ids import NodeId
from kafkaesque.routing.exchanges.kinds import Kind

#: What RabbitMQ calls the protocol, where that is another word than ours.
_PROTOCOLS: Final = {AMQP: "AMQP 0-9-1"}
ADMINISTRATOR: Final = "administrator"
MONITORING: Final = "monitoring"
MANAGEMENT: Final = "management"
_Then = Callable[[Sequence[ConnectionShown]], None]


class ClusterPages:
    """See the module."""

    def __init__(self, context: Context, queues: QueuePages) -> None:
        self._context: Final = context
        self._queues: Final = queues

    def routes(self) -> list[Route]:
        """Return the operations."""
        return [
            Route(method="GET", path="/overview", handle=self.show_overview),
            Route(method="GET", path="/cluster-name", handle=self.show_name),
            Route(method="GET", path="/whoami", handle=self.show_who),
            Route(method="GET", path="/auth", handle=lambda call: call.show(AuthShown())),
            Route(method="GET", path="/nodes", handle=self.list_nodes),
            Route(method="GET", path="/nodes/{node}", handle=self.show_node),
            Route(method="GET", path="/connections", handle=self.list_connections),
            Route(method="GET", path="/vhosts/{vhost}/connections", handle=self.list_connections),
            Route(method="GET", path="/connections/{connection}", handle=self.show_connection),
            Route(method="DELETE", path="/connections/{connection}", handle=self.close_connection),
            *(
                Route(method="GET", path=path, handle=self._answer_none_of_vhost)
                for path in ("/parameters/{component}/{vhost}", "/vhost-limits/{vhost}")
            ),
            Route(method="GET", path="/user-limits/{user}", handle=self._answer_none_of_user),
            # What RabbitMQ has and we do not: nothing is there, which is true.
            *(
                Route(method="GET", path=path, handle=_answer_none)
                for path in (
                    "/extensions",
                    "/parameters",
                    "/global-parameters",
                    "/parameters/{component}",
                    "/vhost-limits",
                    "/user-limits",
                    "/feature-flags",
                    "/deprecated-features",
                    "/deprecated-features/used",
                )
            ),
        ]

    def _answer_none_of_vhost(self, call: Call) -> None:
        self._context.vhost(call)
        call.answer([])

    def _answer_none_of_user(self, call: Call) -> None:
        call.need_cluster(Operation.DESCRIBE)
        if call.params["user"] not in self._context.doors.access.state.users:
            raise not_found(f"there is no user {call.params['user']!r}")
        call.answer([])

    # -- the cluster

    def show_overview(self, call: Call) -> None:
        """Show the cluster in few numbers: of queues that the client may see."""
        self._queues.with_rows(call, None, lambda rows: self._show_overview(call, rows))

    def _show_overview(self, call: Call, rows: Rows) -> None:
        def on_brokers(gathered: Gathered[BrokerState]) -> None:
            connections = sum(each.connections for each in gathered.answers.values())
            call.guard(lambda: call.show(self._overview(call, rows, connections)))

        self._context.fan_out.ask_all(BROKER, Nothing(), on_brokers)

    def _overview(self, call: Call, rows: Rows, connections: int) -> Overview:
        doors = self._context.doors
        vhosts = [doors.exchanges.vhost(name) for name in doors.exchanges.vhosts()]
        exchanges = sum(
            call.sees_exchange(vhost.name, name) for vhost in vhosts for name in vhost.exchanges
        )
        seen: list[QueueRow] = [row for name, row in rows.items() if call.sees_queue(name)]
        queues = sum(call.sees_queue(QueueName(*each.queue)) for each in doors.queues.all())
        return Overview(
            product_version=self._context.version,
            exchange_types=[ExchangeType(name=each.value, description="") for each in Kind],
            cluster_name=str(doors.cluster.cluster_id),
            node=node_name(doors.cluster.node),
            object_totals=ObjectTotals(
                connections=connections,
                exchanges=exchanges,
                queues=queues,
                consumers=sum(each.consumers for each in seen),
            ),
            queue_totals=QueueTotals(
                messages=sum(map(messages_of, seen)),
                messages_ready=sum(each.ready for each in seen),
                messages_unacknowledged=sum(each.in_flight for each in seen),
            ),
            listeners=self.listeners(),
        )

    def listeners(self) -> list[ListenerShown]:
        """Return the ports of all brokers."""
        return [
            ListenerShown(
                node=node_name(broker.node),
                protocol=endpoint.protocol,
                ip_address=endpoint.host,
                port=endpoint.port,
            )
            for broker in self._context.doors.cluster.state.brokers.values()
            for endpoint in broker.endpoints.values()
        ]

    def show_name(self, call: Call) -> None:
        """Show what the cluster is called: its id."""
        call.show(ClusterName(name=str(self._context.doors.cluster.cluster_id)))

    def show_who(self, call: Call) -> None:
        """Show who asks, and with which of RabbitMQ's tags."""
        tags = [MANAGEMENT]
        if call.could_cluster(Operation.ALTER):
            tags = [ADMINISTRATOR]
        elif call.could_cluster(Operation.DESCRIBE):
            tags = [MONITORING]
        call.show(WhoAmI(name=call.user, tags=tags))

    # -- brokers

    def list_nodes(self, call: Call) -> None:
        """List the brokers."""
        self._with_nodes(call, self._context.fan_out.all_brokers(), one=False)

    def show_node(self, call: Call) -> None:
        """Show one."""
        name = call.params["node"]
        nodes = [each for each in self._context.fan_out.all_brokers() if node_name(each) == name]
        if not nodes:
            raise not_found(f"there is no node {name!r}")
        self._with_nodes(call, nodes, one=True)

    def _with_nodes(self, call: Call, nodes: Sequence[NodeId], *, one: bool) -> None:
        call.need_cluster(Operation.DESCRIBE)

        def on_told(gathered: Gathered[BrokerState]) -> None:
            shown = [self._node(each, gathered.answers.get(each)) for each in nodes]
            call.guard(lambda: call.show(shown[0]) if one else call.show_list(shown))

        self._context.fan_out.ask_all(BROKER, Nothing(), on_told, nodes)

    def _node(self, node: NodeId, state: BrokerState | None) -> NodeShown:
        cluster = self._context.doors.cluster
        running = node == cluster.node or cluster.is_alive(node)
        if state is None:
            return NodeShown(name=node_name(node), running=running)
        uptime = None if state.started_at is None else max(0, state.clock - state.started_at)
        return NodeShown(
            name=node_name(node),
            running=running,
            mem_used=known(state.resident_bytes),
            disk_free=known(state.disk_free_bytes),
            disk_free_alarm=state.refuses_appends,
            fd_used=known(state.open_files),
            fd_total=state.open_files_max,
            uptime=known(uptime),
        )

    # -- connections

    def list_connections(self, call: Call) -> None:
        """List clients' connections at all brokers, of all protocols; or in a virtual host."""
        if "vhost" in call.params:
            self._context.vhost(call)
        wanted = call.params.get("vhost")
        self._with_connections(
            call,
            lambda found: call.show_list([e for e in found if wanted in (None, e.vhost)]),
        )

    def show_connection(self, call: Call) -> None:
        """Show one."""
        name = call.params["connection"]

        def show(found: Sequence[ConnectionShown]) -> None:
            for each in found:
                if each.name == name:
                    call.show(each)
                    return
            raise not_found(f"there is no connection {name!r}")

        self._with_connections(call, show)

    def close_connection(self, call: Call) -> None:
        """Hang up on a client, which may connect again."""
        call.need_cluster(Operation.ALTER)
        name = call.params["connection"]

        def close(found: Sequence[Connected]) -> None:
            each = next((each for each in found if connection_name(each) == name), None)
            if each is None:
                raise not_found(f"there is no connection {name!r}")
            question = CloseConnection(number=each.number, is_dry_run=False)
            place = f"{each.broker}:{each.number}"
            self._context.fan_out.ask_one(
                CLOSE_CONNECTION,
                NodeId(each.broker),
                question,
                lambda told: call.guard(lambda: on_told(place, told)),
            )

        def on_told(place: str, told: ConnectionClosed | Origin) -> None:
            if isinstance(told, Origin):
                raise ApiRefused(503, told.missing or "")
            if told.peer is None:
                raise not_found(f"there is no connection {name!r}")
            tell_closed(self._context.doors, call.client, place, told.peer)
            call.done()

        self.ask_connections(call, close)

    def _with_connections(self, call: Call, then: _Then) -> None:
        call.need_cluster(Operation.DESCRIBE)

        def on_found(found: Sequence[Connected]) -> None:
            ask_channels(
                self._context,
                call,
                lambda facts: then(
                    [_connection(each, facts.get((each.broker, each.number))) for each in found]
                ),
            )

        self.ask_connections(call, on_found)

    def ask_connections(self, call: Call, then: Callable[[Sequence[Connected]], None]) -> None:
        """Call with the connections of all brokers."""

        def on_told(gathered: Gathered[ConnectionsAnswer]) -> None:
            every = [each for told in gathered.answers.values() for each in told.connections]
            call.guard(lambda: then(every))

        self._context.fan_out.ask_all(CONNECTIONS, Nothing(), on_told)


def _connection(connected: Connected, facts: ConnectionFacts | None) -> ConnectionShown:
    channels: int | msgspec.UnsetType = 0
    if facts is not None:
        channels = facts.channel_count
    elif connected.protocol == AMQP:
        channels = msgspec.UNSET
    return ConnectionShown(
        name=connection_name(connected),
        node=node_name(connected.broker),
        protocol=_PROTOCOLS.get(connected.protocol, connected.protocol),
        user=connected.user,
        user_provided_name=connected.client_id,
        connected_at=known(connected.opened_at),
        peer_host=connected.host,
        peer_port=port_of(connected),
        state="flow" if connected.is_throttled else "running",
        recv_oct=connected.bytes_in,
        send_oct=connected.bytes_out,
        send_pend=connected.unsent_bytes,
        vhost=msgspec.UNSET if facts is None else facts.vhost,
        channels=channels,
    )


def _answer_none(call: Call) -> None:
    call.answer([])
