"""Health checks: one status of HTTP, and a sentence."""

from typing import Final

from kafkaesque.access.operations import Operation
from kafkaesque.admin.api.fan_out import Gathered
from kafkaesque.admin.api.part_pages import BROKER, Nothing
from kafkaesque.admin.api.values import BrokerState, Origin
from kafkaesque.admin.health import reasons_against
from kafkaesque.admin.rabbitmq.calls import Call, Route
from kafkaesque.admin.rabbitmq.context import Context, node_name
from kafkaesque.admin.rabbitmq.errors import not_found
from kafkaesque.admin.rabbitmq.values import Status
from kafkaesque.broker.listeners import AMQP

#: What RabbitMQ's checks call protocols, and what they are here.
_PROTOCOLS: Final = {"amqp": AMQP, "amqp091": AMQP, "amqp/ssl": AMQP, "amqps": AMQP}
_OK: Final = Status(status="ok")


class HealthPages:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context: Final = context

    def routes(self) -> list[Route]:
        """Return the operations."""
        checks = "/health/checks"
        return [
            Route(method="GET", path="/aliveness-test/{vhost}", handle=self.is_alive),
            Route(method="GET", path="/healthchecks/node", handle=self.is_node_well),
            Route(method="GET", path="/healthchecks/node/{node}", handle=self.is_other_well),
            Route(method="GET", path=f"{checks}/alarms", handle=self.has_no_alarm_anywhere),
            Route(method="GET", path=f"{checks}/local-alarms", handle=self.has_no_alarm),
            Route(method="GET", path=f"{checks}/virtual-hosts", handle=self.is_node_well),
            Route(method="GET", path=f"{checks}/is-in-service", handle=self.is_node_well),
            Route(method="GET", path=f"{checks}/ready-to-serve-clients", handle=self.is_node_well),
            Route(
                method="GET",
                path=f"{checks}/node-is-quorum-critical",
                handle=self.may_stop,
            ),
            Route(
                method="GET",
                path=f"{checks}/node-is-mirror-sync-critical",
                handle=self.may_stop,
            ),
            Route(
                method="GET",
                path=f"{checks}/port-listener/{{port}}",
                handle=self.listens_at,
            ),
            Route(
                method="GET",
                path=f"{checks}/protocol-listener/{{protocol}}",
                handle=self.speaks,
            ),
        ]

    def is_alive(self, call: Call) -> None:
        """Tell whether this broker serves a virtual host: nothing is declared or published."""
        self._context.vhost(call)
        self.is_node_well(call)

    def is_node_well(self, call: Call) -> None:
        """Tell whether the broker that is asked serves clients."""
        self._answer(call, reasons_against(self._context.doors))

    def is_other_well(self, call: Call) -> None:
        """Tell whether the broker that the path names serves clients."""
        name = call.params["node"]
        fan_out = self._context.fan_out
        node = next((each for each in fan_out.all_brokers() if node_name(each) == name), None)
        if node is None:
            raise not_found(f"there is no broker {name!r}")

        def on_told(told: BrokerState | Origin) -> None:
            if isinstance(told, Origin):
                reasons = [told.missing or f"broker {node} does not answer"]
            else:
                reasons = told.reasons
            call.guard(lambda: self._answer(call, reasons))

        fan_out.ask_one(BROKER, node, Nothing(), on_told)

    def has_no_alarm(self, call: Call) -> None:
        """Tell whether this broker has room for messages."""
        reason = self._context.doors.condition.space.reason
        self._answer(call, [] if reason is None else [reason])

    def has_no_alarm_anywhere(self, call: Call) -> None:
        """Tell whether all brokers that answer have room for messages."""

        def on_told(gathered: Gathered[BrokerState]) -> None:
            self._answer(
                call,
                [
                    f"broker {node} refuses messages: its disk is full"
                    for node, state in gathered.answers.items()
                    if state.refuses_appends
                ],
            )

        self._context.fan_out.ask_all(BROKER, Nothing(), on_told)

    def may_stop(self, call: Call) -> None:
        """Tell whether this broker may be stopped: all brokers are up and have what is theirs."""
        cluster = self._context.doors.cluster
        reasons = [
            f"broker {node} is not heard of"
            for node in cluster.state.brokers
            if node != cluster.node and not cluster.is_alive(node)
        ]
        self._answer(call, [*reasons, *reasons_against(self._context.doors)])

    def listens_at(self, call: Call) -> None:
        """Tell whether this broker listens at a port."""
        port = call.params["port"]
        is_there = any(str(each) == port for _, each in self._listeners())
        self._answer(call, [] if is_there else [f"this broker does not listen at port {port}"])

    def speaks(self, call: Call) -> None:
        """Tell whether this broker listens for a protocol."""
        word = call.params["protocol"].lower()
        protocol = _PROTOCOLS.get(word, word)
        is_there = any(each == protocol for each, _ in self._listeners())
        self._answer(call, [] if is_there else [f"this broker has no listener for {word}"])

    def _listeners(self) -> list[tuple[str, int]]:
        cluster = self._context.doors.cluster
        me = cluster.state.brokers.get(cluster.node)
        endpoints = {} if me is None else me.endpoints
        return [(each.protocol, each.port) for each in endpoints.values()]

    def _answer(self, call: Call, reasons: list[str]) -> None:
        """Answer 200, or 503 with the reasons; without the rights of a monitor, without them."""
        if not reasons:
            call.answer(_OK)
            return
        told = (
            "; ".join(reasons) if call.could_cluster(Operation.DESCRIBE) else "see the broker's log"
        )
        call.answer(Status(status="failed", reason=told), 503)
