"""`/connections` and `/listeners`: who is connected with which broker, and how one is ended."""

from typing import Final

from kafkaesque.access.audit import DataChange
from kafkaesque.access.operations import CLUSTER_NAME, ResourceType
from kafkaesque.admin.api.calls import Call, Route
from kafkaesque.admin.api.changes import Change, DryRun, answer_change
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.numbers import Int32
from kafkaesque.admin.api.paging import ListQuery
from kafkaesque.admin.api.part_list import Keys, answer_list
from kafkaesque.admin.api.part_pages import (
    CLOSE_CONNECTION,
    CONNECTIONS,
    LISTENERS,
    CloseConnection,
    ConnectionClosed,
)
from kafkaesque.admin.api.values import Connected, ConnectionList, ListenerList, Origin
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.requests.client_command import OnBehalfOf
from kafkaesque.model.ids import NodeId

_CONNECTION_KEYS: Final[Keys] = {
    "number": lambda each: (each.broker, each.number),
    "peer": lambda each: each.peer,
    "protocol": lambda each: each.protocol,
    "user": lambda each: each.user,
    "client_id": lambda each: each.client_id,
    "opened_at": lambda each: each.opened_at,
    "bytes_in": lambda each: each.bytes_in,
    "bytes_out": lambda each: each.bytes_out,
    "rate_in": lambda each: each.rate_in,
    "rate_out": lambda each: each.rate_out,
    "idle_ms": lambda each: each.idle_ms,
}
_LISTENER_KEYS: Final[Keys] = {
    "broker": lambda each: (each.broker, each.protocol, each.name),
    "name": lambda each: each.name,
    "connections": lambda each: each.connections,
}
#: No broker counts so far.
_NUMBER_DIGITS_MAX: Final = 18


class ConnectionsQuery(ListQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which page of which connections."""

    #: Only those of one protocol, such as kafka.
    protocol: str = ""
    #: Only those of one user.
    user: str = ""
    #: Only those at one broker.
    broker: Int32 | None = None

    def fits(self, each: Connected) -> bool:
        """Tell whether a connection is one of those that are asked for."""
        return (
            self.protocol in ("", each.protocol)
            and self.user in ("", each.user)
            and self.broker in (None, each.broker)
        )


class ConnectionPages:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def list_connections(self, call: Call[ConnectionsQuery, None]) -> None:
        """List connections at all brokers."""
        answer_list(
            self._context,
            call,
            CONNECTIONS,
            "connections",
            _CONNECTION_KEYS,
            ConnectionList,
            lambda each: (
                f"{each.peer} {each.user} {each.client_id} {each.protocol} {each.listener}"
            ),
            call.query.fits,
        )

    def list_listeners(self, call: Call[ListQuery, None]) -> None:
        """List listeners of all brokers."""
        answer_list(
            self._context,
            call,
            LISTENERS,
            "listeners",
            _LISTENER_KEYS,
            ListenerList,
            lambda each: f"{each.name} {each.protocol} {each.address}",
        )

    def close_connection(self, call: Call[DryRun, None]) -> None:
        """Have a broker hang up on a client, which may connect again."""
        words = (call.params["broker"], call.params["connection"])
        numbers = [_number(each) for each in words]
        broker, number = numbers
        is_known = broker is not None and NodeId(broker) in self._context.fan_out.all_brokers()
        if broker is None or number is None or not is_known:
            _refuse_unknown(call, *words)
            return
        node, is_dry = NodeId(broker), call.query.dry_run

        def on_told(outcome: ConnectionClosed | Origin) -> None:
            if isinstance(outcome, Origin):
                call.refuse(503, "BrokerNotAvailable", outcome.missing or "")
            elif outcome.peer is None:
                _refuse_unknown(call, *words)
            else:
                if not is_dry:
                    place = f"{broker}:{number}"
                    tell_closed(self._context.doors, call.client, place, outcome.peer)
                would = "would be" if is_dry else "is"
                what = f"the connection of {outcome.peer} with broker {broker} {would} closed"
                answer_change(
                    self._context,
                    call,
                    what,
                    ["kafkaesque", "connection", "close", f"{broker}:{number}"],
                )

        question = CloseConnection(number=number, is_dry_run=is_dry)
        self._context.fan_out.ask_one(CLOSE_CONNECTION, node, question, on_told)


def tell_closed(doors: Doors, client: OnBehalfOf | None, place: str, peer: str) -> None:
    """Tell the audit log that somebody has closed a connection; `place` is BROKER:NUMBER."""
    change, detail = DataChange.CLOSE_CONNECTION, {"connection": place, "peer": peer}
    doors.access.audit.change_of_data(client, change, ResourceType.CLUSTER, CLUSTER_NAME, detail)


def _number(word: str) -> int | None:
    is_number = word.isascii() and word.isdecimal() and len(word) <= _NUMBER_DIGITS_MAX
    return int(word) if is_number else None


def _refuse_unknown(call: Call[DryRun, None], broker: str, number: str) -> None:
    call.refuse(404, "UnknownConnection", f"broker {broker!r} has no connection {number!r}")


def connection_routes(pages: ConnectionPages) -> list[Route]:
    """Return the operations on connections and listeners."""
    return [
        Route(
            method="GET",
            path="/connections",
            name="listConnections",
            summary="Clients' connections with all brokers, of all protocols",
            handle=pages.list_connections,
            query=ConnectionsQuery,
            result=ConnectionList,
        ),
        Route(
            method="DELETE",
            path="/connections/{broker}/{connection}",
            name="closeConnection",
            summary="Close a client's connection; the client may connect again",
            handle=pages.close_connection,
            query=DryRun,
            result=Change,
        ),
        Route(
            method="GET",
            path="/listeners",
            name="listListeners",
            summary="Listeners of all brokers",
            handle=pages.list_listeners,
            query=ListQuery,
            result=ListenerList,
        ),
    ]
