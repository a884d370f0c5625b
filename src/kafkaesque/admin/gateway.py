"""The admin port: accepts clients and brings each request to its handler."""

from collections.abc import Callable
from typing import Final

from kafkaesque.admin.connection import AdminConnection
from kafkaesque.admin.controllers import answer_controllers
from kafkaesque.admin.health import answer_live, answer_ready
from kafkaesque.admin.http import Handler, Request, Respond, text_answer
from kafkaesque.admin.loop_watch import LoopWatch
from kafkaesque.admin.members import answer_members
from kafkaesque.admin.metrics import MetricsPage
from kafkaesque.admin.offline_replicas import answer_offline_replicas
from kafkaesque.admin.recoveries import answer_recoveries
from kafkaesque.admin.registered import answer_brokers
from kafkaesque.broker.doors import Doors
from kafkaesque.env.network import Address, Framing, Listener, ListenOptions
from kafkaesque.env.report_limit import ReportLimit

CONNECTIONS_MAX: Final = 100


class AdminGateway:
    """One broker's admin port."""

    def __init__(self, doors: Doors, version: str, report: Callable[[str], None]) -> None:
        self.doors = doors
        self.clock = doors.clock
        self.connections: dict[int, AdminConnection] = {}
        self._refusals = ReportLimit(report, self.clock.call_later)
        self._listener: Listener | None = None
        self._loop_watch = LoopWatch(self.clock)
        metrics = MetricsPage(doors, version, self._loop_watch.lag)
        self._handlers: dict[str, Handler] = {
            "/metrics": metrics.answer,
            "/health/live": lambda _, respond: respond(answer_live(doors)),
            "/health/ready": lambda _, respond: respond(answer_ready(doors)),
            "/brokers": lambda _, respond: respond(answer_brokers(doors)),
            "/controllers": lambda _, respond: respond(answer_controllers(doors)),
            "/members": lambda _, respond: respond(answer_members(doors)),
            "/offline-replicas": lambda _, respond: respond(answer_offline_replicas(doors)),
            "/recoveries": lambda request, respond: respond(answer_recoveries(doors, request)),
        }

    def start(self, address: Address) -> Address:
        """Listen; return the bound address.

        Raises:
            OSError: the address cannot be bound.
        """
        options = ListenOptions(framing=Framing.STREAM, connections_max=CONNECTIONS_MAX)
        self._listener = self.doors.network.listen(address, options, lambda: AdminConnection(self))
        self._loop_watch.start()
        return self._listener.address

    def stop(self) -> None:
        """Accept no more and close what is open."""
        self._loop_watch.stop()
        if self._listener is not None:
            self._listener.close()
        for connection in list(self.connections.values()):
            connection.close()

    def handle(self, request: Request, respond: Respond) -> None:
        """Have a request answered, once."""
        handler = self._handlers.get(request.path)
        if handler is None:
            there = ", ".join(self._handlers)
            respond(text_answer(404, f"there is no {request.path}; there are {there}"))
            return
        try:
            handler(request, respond)
        except Exception as error:
            # A defect of ours, and the broker goes on: nothing here changes anything.
            self._refusals.say(f"{request.path} could not be answered: {error!r}")
            respond(text_answer(500, f"{request.path} could not be answered: see the log"))
